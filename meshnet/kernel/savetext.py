"""The text of iptables-save and iptables-restore, taken apart just far enough for the adapters: tables, chains, lines.

What a rule means is ``parse/``'s business; here a rule is the line that it is.
"""

from __future__ import annotations

from meshnet.model.errors import ToolError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

BUILT_IN = {
    "filter": ("INPUT", "FORWARD", "OUTPUT"),
    "nat": ("PREROUTING", "INPUT", "OUTPUT", "POSTROUTING"),
    "mangle": ("PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"),
    "raw": ("PREROUTING", "OUTPUT"),
    "security": ("INPUT", "FORWARD", "OUTPUT"),
}
"""Tables and their chains, in the kernel's order (net/ipv4/netfilter/iptable_*.c, nf_tables' iptables-nft)."""


class Section:
    """One table of a text: its chains with their policies (``-`` for a user's chain) and its command lines."""

    __slots__ = ("chains", "lines", "table")

    def __init__(self, table: str) -> None:
        self.table = table
        self.chains: dict[str, str] = {}
        self.lines: list[str] = []

    @property
    def empty(self) -> bool:
        """No rule, no chain of a user's, every policy ACCEPT: what a table is like that somebody merely looked at."""
        return not self.lines and all(policy == "ACCEPT" for policy in self.chains.values())


def sections(text: str) -> list[Section]:
    """The tables of a text, in its order; comments and counters in front of rules are left out."""
    found: list[Section] = []
    for _, line in numbered(text):
        if line.startswith("*"):
            found.append(Section(line[1:].strip()))
        elif line.startswith(":") and found:
            name, policy, *_rest = line[1:].split()
            found[-1].chains[name] = policy
        elif line != "COMMIT" and found:
            found[-1].lines.append(without_counters(line))
    return found


def numbered(text: str) -> Iterator[tuple[int, str]]:
    """The lines that say something, with their numbers from 1."""
    for number, line in enumerate(text.split("\n"), 1):  # splitlines() parts rules at U+2028 in a comment
        stripped = line.strip()
        if stripped and not stripped.startswith("#"):
            yield number, stripped


def without_counters(line: str) -> str:
    """A rule line without the ``[packets:bytes]`` that ``-c`` puts in front of it."""
    return line.partition("] ")[2] if line.startswith("[") else line


def words(line: str) -> list[str]:
    """The words of a line as iptables-restore cuts it: blanks part, double quotes hold together, a backslash in
    them takes the next character as it is. ToolError when a quote stays open."""
    if '"' not in line:
        return line.split()
    head, _, rest = line.partition('"')
    quote, _, tail = rest.partition('"')
    # Nearly every rule has one comment, and no letter of it needs a look of its own.
    if rest.count('"') == 1 and "\\" not in line and head.endswith(" ") and quote and tail[:1] in ("", " "):
        return [*head.split(), quote, *tail.split()]
    found: list[str] = []
    word, quoted, inside, escaped = "", False, False, False
    for letter in line:
        if escaped:
            word, escaped = word + letter, False
        elif quoted and letter == "\\":
            escaped = True
        elif letter == '"':
            quoted, inside = not quoted, True
        elif letter in " \t" and not quoted:
            if word or inside:
                found.append(word)
            word, inside = "", False
        else:
            word += letter
    if quoted:
        raise ToolError(f"a quote stays open in: {line}")
    if word or inside:
        found.append(word)
    return found
