"""A trace as a picture (SVG 1.1): the hooks as cards from left to right, the rules that fitted on them, and the end."""

from __future__ import annotations

from meshnet.model.rule import Comment
from meshnet.model.ruleset import HeldRule
from meshnet.render.saved import rule_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from meshnet.model.trace import Hop, Trace

LETTER, LINE = 6.6, 16
"""Width of a letter and height of a line of 11 pixel monospace text."""

MARGIN, GAP, PADDING = 24, 36, 10
MOST_LETTERS = 46
FONT = "ui-monospace, 'DejaVu Sans Mono', Menlo, Consolas, monospace"
TABLES = {
    "raw": "#7c6f9f",
    "mangle": "#b7791f",
    "nat": "#2b6cb0",
    "filter": "#c53030",
    "security": "#97266d",
    "": "#4a5568",
}
ENDS = {
    "inbound-proxy": "#2f855a",
    "outbound-proxy": "#2f855a",
    "dns-proxy": "#2f855a",
    "captured": "#2f855a",
    "direct": "#2b6cb0",
    "undecided": "#b7791f",
}
BAD = "#c53030"


class _Card:
    """One passage through a hook: its name and its lines, as (colour, text, is it the kernel's own)."""

    def __init__(self, hook: str) -> None:
        self.hook = hook
        self.lines: list[tuple[str, str, bool]] = []

    @property
    def width(self) -> float:
        longest = max((len(text) for _, text, _ in self.lines), default=0)
        return max(longest, len(self.hook) + 4, 16) * LETTER + 2 * PADDING

    @property
    def height(self) -> float:
        return (len(self.lines) + 1) * LINE + 2 * PADDING


def picture(flow: str, steps: Sequence[tuple[str, Trace]], end: str) -> str:
    """The SVG of one packet, or of a conversation's packets below each other. ``end`` is the sentence at the bottom."""
    rows = [(title, _cards(trace), trace) for title, trace in steps]
    width = max(_row_width(cards) for _, cards, _ in rows)
    width = max(width, (max(len(flow), len(end)) + 2) * LETTER + 2 * MARGIN)
    body: list[str] = [_text(MARGIN, MARGIN + 14, flow, "#1a202c", bold=True)]
    y = MARGIN + 2.0 * LINE
    for number, (title, cards, trace) in enumerate(rows, 1):
        if title:
            body.append(_text(MARGIN, y + 12, f"{number}. {title}", "#1a202c"))
            y += 1.5 * LINE
        body += _row(cards, trace, y)
        y += max(card.height for card in cards) + GAP / 1.5
    body.append(_text(MARGIN, y + 6, end, ENDS.get(end.partition(":")[0], BAD), bold=True))
    height = y + LINE + MARGIN / 2
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" font-family="{_escaped(FONT)}" font-size="11" role="img">'
    )
    arrow = (
        '<defs><marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0 L8 4 L0 8 z" fill="#4a5568"/></marker></defs>'
    )
    ground = f'<rect width="{width:.0f}" height="{height:.0f}" fill="#ffffff"/>'
    named = f"<title>{_escaped(flow)}</title><desc>{_escaped(end)}</desc>"
    return "\n".join([head, named, arrow, ground, *body, "</svg>", ""])


def _cards(trace: Trace) -> list[_Card]:
    cards: list[_Card] = []
    for hop in trace.hops:
        if not cards or cards[-1].hook != hop.hook:
            cards.append(_Card(hop.hook))
        cards[-1].lines += _lines(hop, trace)
    last = _Card("END")
    last.lines = [("", text, True) for text in _wrapped(f"{trace.disposition}: {trace.reason}")]
    return [*cards, last]


def _lines(hop: Hop, trace: Trace) -> Iterable[tuple[str, str, bool]]:
    colour = TABLES.get(hop.table, TABLES[""])
    if hop.rule is None:
        where = f"{hop.table} {hop.chain}: " if hop.table else ""
        return [(colour, text, True) for text in _wrapped(f"{where}{hop.verdict}")]
    plain = tuple(item for item in hop.rule.conditions if not isinstance(item, Comment))
    words = rule_text(HeldRule(plain, hop.rule.action), trace.family)
    head = f"{hop.table} {hop.chain}:{hop.number}{f'  mark {hop.mark:#x}' if hop.mark else ''}"
    return [(colour, head, False), *((colour, f"  {text}", True) for text in _wrapped(words))]


def _wrapped(text: str) -> list[str]:
    """Lines of at most ``MOST_LETTERS`` letters, broken between words."""
    lines: list[str] = [""]
    for word in text.split(" "):
        if lines[-1] and len(lines[-1]) + 1 + len(word) > MOST_LETTERS:
            lines.append("")
        lines[-1] += f" {word}" if lines[-1] else word
    return lines


def _row_width(cards: Sequence[_Card]) -> float:
    return sum(card.width + GAP for card in cards) - GAP + 2 * MARGIN


def _row(cards: Sequence[_Card], trace: Trace, y: float) -> list[str]:
    body = []
    x = float(MARGIN)
    middle = y + LINE + PADDING / 2
    for place, card in enumerate(cards):
        if place:
            body.append(
                f'<path d="M{x - GAP + 3:.1f} {middle:.1f} L{x - 3:.1f} {middle:.1f}" stroke="#4a5568" '
                'stroke-width="1.5" fill="none" marker-end="url(#arrow)"/>'
            )
        last = card.hook == "END"
        colour = ENDS.get(trace.disposition, BAD) if last else "#cbd5e0"
        fill = "#ffffff" if last else "#f7fafc"
        body.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{card.width:.1f}" height="{card.height:.1f}" rx="6" '
            f'fill="{fill}" stroke="{colour}" stroke-width="{2 if last else 1}"/>'
        )
        line = y + PADDING + 11
        body.append(
            _text(x + PADDING, line, card.hook if not last else trace.end, colour if last else "#1a202c", bold=True)
        )
        for shade, text, quiet in card.lines:
            line += LINE
            body.append(_text(x + PADDING, line, text, ("#4a5568" if quiet else shade) or "#1a202c"))
        x += card.width + GAP
    return body


def _text(x: float, y: float, text: str, colour: str, *, bold: bool = False) -> str:
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}"{weight} xml:space="preserve">{_escaped(text)}</text>'


def _escaped(text: str) -> str:
    """For XML text and attributes; control characters, which XML has no form for, are left out."""
    plain = "".join(letter for letter in text if letter >= " ")
    return plain.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")
