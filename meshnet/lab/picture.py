"""A conversation as a sequence picture (SVG): five lanes, an arrow a packet, and in red what went wrong.

Each arrow has its words above it, from the left edge: so a picture stays readable at the width of a phone. What is
wrong differs by more than its colour: a dashed line, a cross, and the reason in words.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

from meshnet.lab.story import LANES, STEP

if TYPE_CHECKING:
    from collections.abc import Sequence

WIDTH, LEFT, HEAD, ROW, REASON, STEP_ROW = 400, 34, 34, 30, 13, 20
GAP = (WIDTH - 2 * LEFT) / (len(LANES) - 1)
PLACES = {lane: LEFT + GAP * number for number, lane in enumerate(LANES)}


def picture(arrows: Sequence[dict[str, Any]], left_out: int, title: str) -> str:
    """The SVG of a row; ``left_out`` packets are told as a line ahead of the last ones."""
    from meshnet.lab.story import MOST

    rows: list[str] = []
    y = HEAD
    for number, arrow in enumerate(arrows):
        if left_out and number == MOST:
            rows.append(f'<text class="more" x="8" y="{y + 16}">… {left_out} more packets …</text>')
            y += ROW
        if arrow["kind"] == STEP:
            rows.append(f'<text class="step" x="8" y="{y + 16}">{escape(arrow["text"])}</text>')
            y += STEP_ROW
            continue
        rows.append(_arrow(arrow, y))
        y += ROW + (REASON if arrow["wrong"] else 0)
    height = y + 10
    heads = "".join(
        f'<line class="lane" x1="{x:g}" y1="{HEAD - 8}" x2="{x:g}" y2="{height - 4}"/>'
        f'<text class="head" x="{x:g}" y="16" text-anchor="middle">{lane}</text>'
        for lane, x in PLACES.items()
    )
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(title)}">'
        f"<title>{escape(title)}</title>{heads}{''.join(rows)}</svg>"
    )


def _arrow(arrow: dict[str, Any], y: int) -> str:
    wrong = bool(arrow["wrong"])
    start, end = PLACES[arrow["from"]], PLACES[arrow["to"]]
    line = y + 18 + (REASON if wrong else 0)
    words = f'<text class="words" x="8" y="{y + 10}">{arrow["at"]:.1f} ms  {escape(arrow["text"])}</text>'
    reason = f'<text class="reason" x="8" y="{y + 10 + REASON}">✗ {escape(arrow["wrong"])}</text>' if wrong else ""
    kind = "arrow wrong" if wrong else "arrow"
    if start == end:  # by lo and back: the line goes over to lo and returns
        over = PLACES["lo"]
        path = f"M{start:g} {line - 3} H{over:g} V{line + 3} H{start + 4:g}"
        tip = _tip(start, line + 3, -1)
    else:
        way = 1 if end > start else -1
        path = f"M{start:g} {line} H{end - 4 * way:g}"
        tip = _tip(end, line, way)
    dot = f'<circle class="{kind}" cx="{PLACES.get(arrow["interface"], PLACES["eth0"]):g}" cy="{line}" r="2.6"/>'
    return f'{words}{reason}<path class="{kind}" d="{path}"/><path class="{kind} tip" d="{tip}"/>{dot}'


def _tip(x: float, y: float, way: int) -> str:
    return f"M{x:g} {y:g} l{-6 * way} -3.5 v7 z"
