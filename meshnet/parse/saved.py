"""The output of iptables-save, of any version and variant, as chains and rules; nothing is interpreted, none lost."""

from __future__ import annotations

from meshnet.model.errors import ToolError
from meshnet.model.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


@value
class SavedChain:
    """``policy`` is ACCEPT, DROP or QUEUE for a built-in chain, ``-`` for any other."""

    name: str
    policy: str


@value
class SavedRule:
    """``words`` is what stands behind ``-A CHAIN``; ``packets`` is 0 where counters were not asked for."""

    chain: str
    words: str
    packets: int = 0


@value
class SavedTable:
    name: str
    chains: tuple[SavedChain, ...]
    rules: tuple[SavedRule, ...]


def parse(text: str) -> tuple[SavedTable, ...]:
    """Every table of a saved rule set, in order; ToolError names the line that is none of iptables-save's."""
    return tuple(_tables(text))


def _tables(text: str) -> Iterator[SavedTable]:
    name = ""
    chains: list[SavedChain] = []
    rules: list[SavedRule] = []
    # splitlines() would also part a rule at a form feed or U+2028 in somebody's comment, which the tools print as it is
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith("-A "):
            chain, _, words = line[3:].partition(" ")
            rules.append(SavedRule(chain, words))
        elif line.startswith("["):
            counters, _, rest = line.partition("] -A ")
            chain, _, words = rest.partition(" ")
            rules.append(SavedRule(chain, words, _packets(counters, line, number)))
        elif line.startswith(":"):
            word, policy, *_ = [*line[1:].split(), "", ""]
            chains.append(SavedChain(word, policy))
        elif line.startswith("*"):
            name, chains, rules = line[1:].strip(), [], []
        elif line.strip() == "COMMIT":
            yield SavedTable(name, tuple(chains), tuple(rules))
            name = ""
        elif line.strip() and not line.lstrip().startswith("#"):
            raise ToolError(f"line {number} of a saved rule set is none of iptables-save's", detail=line)
    if name:
        raise ToolError(f"a saved rule set ends inside table {name}: COMMIT is missing", detail="")


def _packets(counters: str, line: str, number: int) -> int:
    packets = counters[1:].partition(":")[0]
    if not packets.isdigit():
        raise ToolError(f"line {number} of a saved rule set has no counters that can be read", detail=line)
    return int(packets)
