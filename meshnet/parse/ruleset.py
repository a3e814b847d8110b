"""The text of iptables-save, or one for iptables-restore, as a rule set in the model's words.

Reads what any version and variant prints (counters or none, ``!`` ahead of the option or behind it, quoted comments)
and what people hand to iptables-restore (``-N``, ``-I``, ``-P``). Built-in chains that the text doesn't declare are
there with the policy ACCEPT, as in a fresh table. Every line that is none of these is named with its number.
"""

from __future__ import annotations

from meshnet.model.errors import RulesError
from meshnet.model.hooks import BUILT_IN
from meshnet.model.rule import Nothing
from meshnet.model.ruleset import (
    HeldChain,
    HeldRule,
    HeldTable,
    RuleSet,
)
from meshnet.parse import matches
from meshnet.parse.options import Malformed, Option, take_apart
from meshnet.parse.targets import read_target
from meshnet.parse.words import split

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from meshnet.model.cidr import Family
    from meshnet.model.rule import Action, Condition

EXPECTED = "a table (*nat), a chain (:NAME POLICY), a rule (-A CHAIN …) or COMMIT"
LONG = {"--append": "-A", "--insert": "-I", "--new-chain": "-N", "--policy": "-P", "--flush": "-F"}
MOST_PROBLEMS = 20


def read(text: str, family: Family, name: str = "rules") -> RuleSet:
    """The rule set; ``name`` stands in messages. RulesError with every line that isn't understood."""
    return _Reader(family, name).read(text)


def hidden_tables(text: str) -> tuple[str, ...]:
    """Tables of which iptables-nft-save says that it can't express them: what is in them isn't in the text."""
    found = []
    for line in text.split("\n"):
        if line.startswith("#") and "incompatible, use 'nft'" in line:
            found.append(line.partition("`")[2].partition("'")[0])
    return tuple(found)


class _Table:
    def __init__(self, name: str) -> None:
        self.name = name
        self.policies: dict[str, str] = {}
        self.rules: dict[str, list[HeldRule]] = {}

    def declare(self, chain: str, policy: str) -> None:
        self.policies[chain] = policy
        self.rules[chain] = []

    def has(self, chain: str) -> bool:
        """Whether a rule may go there; a built-in chain is there as soon as somebody speaks of it."""
        if chain not in self.rules and chain in BUILT_IN.get(self.name, ()):
            self.declare(chain, "ACCEPT")
        return chain in self.rules

    def done(self) -> HeldTable:
        return HeldTable(
            self.name,
            tuple(HeldChain(chain, self.policies[chain], tuple(rules)) for chain, rules in self.rules.items()),
        )


class _Reader:
    def __init__(self, family: Family, name: str) -> None:
        self._family = family
        self._name = name
        self._tables: dict[str, _Table] = {}
        self._current: _Table | None = None
        self._line = 0
        self._problems: list[str] = []

    def read(self, text: str) -> RuleSet:
        for number, line in enumerate(
            text.removesuffix("\n").split("\n"), 1
        ):  # a comment may hold any other end of lines
            self._line = number
            stripped = line.strip()
            if not stripped or stripped.startswith("#"):
                continue
            try:
                self._take(stripped)
            except Malformed as problem:
                self._problems.append(f"{self._name}:{number}: expected {problem}: {_short(stripped)}")
            if len(self._problems) == MOST_PROBLEMS:
                raise RulesError([*self._problems, "… and perhaps more"])
        if self._current is not None:
            where = f"{self._name}:{self._line}: ends inside table {self._current.name}"
            self._problems.append(f"{where}: expected COMMIT; is the file cut off?")
        if self._problems:
            raise RulesError(self._problems, hint="rules are read as iptables-save or ip6tables-save print them")
        return RuleSet(self._family, tuple(table.done() for table in self._tables.values()))

    def _take(self, line: str) -> None:
        if line.startswith("*"):
            self._begin(line[1:].strip())
        elif self._current is None:
            raise Malformed("a table (*nat) first" if line[0] in "-:[" or line == "COMMIT" else EXPECTED)
        elif line == "COMMIT":
            self._current = None
        elif line.startswith(":"):
            self._chain(self._current, line)
        elif line.startswith("["):
            counters, bracket, rest = line.partition("] ")
            if not bracket or not counters[1:].replace(":", "").isdigit():
                raise Malformed("counters as in [12:720] -A CHAIN …")
            self._command(self._current, rest)
        else:
            self._command(self._current, line)

    def _begin(self, name: str) -> None:
        if not name or " " in name:
            raise Malformed("a table's name behind *")
        if self._current is not None:
            raise Malformed(f"COMMIT at the end of table {self._current.name}")
        self._current = self._tables.setdefault(name, _Table(name))

    def _chain(self, table: _Table, line: str) -> None:
        name, policy, *counters = [*line[1:].split(), "", ""]
        if not name or policy not in ("-", "ACCEPT", "DROP", "QUEUE") or len(counters) > 3:
            raise Malformed("a chain as in :NAME ACCEPT [0:0] or :NAME - [0:0]")
        table.declare(name, "" if policy == "-" else policy)

    def _command(self, table: _Table, line: str) -> None:
        words = split(line)
        verb = LONG.get(words[0], words[0]) if words else ""
        name = words[1] if len(words) > 1 else ""
        rest = words[2:]
        if verb not in ("-A", "-I", "-N", "-P", "-F"):
            raise Malformed(EXPECTED)
        if not name:
            raise Malformed(f"a chain's name behind {verb}")
        if verb == "-N":
            table.declare(name, "")
            return
        if not table.has(name):
            raise Malformed(f"chain {name} of table {table.name} declared before it is used (:{name} - [0:0])")
        self._change(table, verb, name, rest)

    def _change(self, table: _Table, verb: str, name: str, rest: list[str]) -> None:
        rules = table.rules[name]
        if verb == "-P":
            if rest[:1] not in (["ACCEPT"], ["DROP"]):
                raise Malformed("the policy ACCEPT or DROP")
            table.policies[name] = rest[0]
        elif verb == "-F":
            rules.clear()
        elif verb == "-A":
            rules += self._rules(rest)
        else:
            place = int(rest.pop(0)) if rest and rest[0].isdigit() else 1
            if not 1 <= place <= len(rules) + 1:
                raise Malformed(f"a place from 1 to {len(rules) + 1}")
            rules[place - 1 : place - 1] = self._rules(rest)

    def _rules(self, words: list[str]) -> list[HeldRule]:
        """One rule, or one for each address where several were listed with commas."""
        own, blocks = take_apart(words)
        action: Action = Nothing()
        behind: list[Condition] = []
        for block in blocks:
            if block.flag in ("-j", "-g"):
                if action != Nothing():
                    raise Malformed("one target and not two")
                action = read_target(block, self._family)
            else:
                behind += matches.read_match(block, self._family)
        return [HeldRule((*front, *behind), action, self._line) for front in self._fronts(own)]

    def _fronts(self, own: list[Option]) -> Iterator[tuple[Condition, ...]]:
        ways: list[tuple[Condition, ...]] = [()]
        for option in own:
            several = option.values[0].split(",") if option.name in ("-s", "-d") else [""]
            if len(several) > 1:
                if option.negated:
                    raise Malformed("one address behind ! and not several")
                each = [matches.own(Option(option.name, (text,)), self._family) for text in several]
            else:
                each = [matches.own(option, self._family)]
            ways = [(*way, *made) for way in ways for made in each]
        yield from ways


def _short(line: str) -> str:
    return line if len(line) <= 80 else f"{line[:77]}…"
