"""A packet filter in memory, for tests without a kernel: it holds state and refuses what the kernel refuses.

Feed it the words that iptables-save prints: it doesn't rewrite ``--syn`` or bare addresses. What a rule would do to a
packet is not its business.
"""

from __future__ import annotations

from itertools import pairwise

from meshnet.kernel.savetext import BUILT_IN, numbered, words
from meshnet.kernel.together import later
from meshnet.model.errors import ToolError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from meshnet.kernel.ports import Work
    from meshnet.model.cidr import Family
    from meshnet.model.errors import MeshnetError

    Rule = tuple[str, ...]

LONGEST_CHAIN = 28
VERDICTS = ("ACCEPT", "DROP", "RETURN", "QUEUE")
TABLES_OF = {
    "MARK": ("mangle", "nat", "filter", "raw", "security"),
    "CONNMARK": ("mangle", "nat", "filter", "raw", "security"),
    "TPROXY": ("mangle",),
    "REDIRECT": ("nat",),
    "CT": ("raw",),
}
HOOKS_OF = {
    "TPROXY": ("PREROUTING",),
    "REDIRECT": ("PREROUTING", "OUTPUT"),
    "owner": ("OUTPUT", "POSTROUTING"),
    "socket": ("PREROUTING", "INPUT"),
}
"""The ``table`` and ``hooks`` of the kernel's xt_target and xt_match (net/netfilter/xt_TPROXY.c, xt_owner.c …)."""

NEED_PROTOCOL = ("tcp", "udp", "multiport", "TPROXY")
INTERFACES = {"-i": ("OUTPUT", "POSTROUTING"), "-o": ("PREROUTING", "INPUT")}
"""Chains in which the tools refuse an interface, since there is none yet or any more (iptables(8))."""

SAFE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.")


class FakeTable:
    """One table: policies of its built-in chains, and the rules of all chains in order."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.policies = dict.fromkeys(BUILT_IN[name], "ACCEPT")
        self.rules: dict[str, list[Rule]] = {chain: [] for chain in self.policies}

    def copy(self) -> FakeTable:
        made = FakeTable(self.name)
        made.policies = dict(self.policies)
        made.rules = {chain: list(rules) for chain, rules in self.rules.items()}
        return made

    def text(self, counters: bool) -> str:
        order = [*self.policies, *sorted(chain for chain in self.rules if chain not in self.policies)]
        chains = "".join(f":{chain} {self.policies.get(chain, '-')} [0:0]\n" for chain in order)
        seen = "[0:0] " if counters else ""
        rules = "".join(f"{seen}-A {chain}{_text(rule)}\n" for chain in order for rule in self.rules[chain])
        return f"*{self.name}\n{chains}{rules}COMMIT\n"

    def empty_but(self, besides: str) -> bool:
        return not any(self.rules.values()) and all(
            chain == besides or self.policies.get(chain) == "ACCEPT" for chain in self.rules
        )

    def command(self, line: str) -> None:
        """Carry out one line of a restore text, checked as far as the tools check before the commit."""
        if line.startswith(":"):
            self._declare(*line[1:].split()[:2])
            return
        verb, chain, *rest = words(line)
        if chain not in self.rules:
            raise ToolError(f"there is no chain {chain}")
        match verb:
            case "-A":
                self.rules[chain].append(self._checked(chain, tuple(rest)))
            case "-I":
                place = int(rest.pop(0)) if rest and rest[0].isdigit() else 1
                if not 1 <= place <= len(self.rules[chain]) + 1:
                    raise ToolError(f"{chain} has no place {place}")
                self.rules[chain].insert(place - 1, self._checked(chain, tuple(rest)))
            case "-D":
                if tuple(rest) not in self.rules[chain]:
                    raise ToolError(f"{chain} has no such rule")
                self.rules[chain].remove(tuple(rest))
            case "-F":
                self.rules[chain].clear()
            case "-X":
                self._delete(chain)
            case _:
                raise ToolError(f"{verb} is no command")

    def check(self) -> None:
        """What the kernel looks at when the table is put in: loops, and matches or targets on a hook not theirs."""
        for hook in self.policies:
            self._walk(hook, hook, ())

    def _declare(self, chain: str, policy: str) -> None:
        if len(chain.encode()) > LONGEST_CHAIN:
            raise ToolError(f"a chain name of more than {LONGEST_CHAIN} bytes ({chain})")
        if chain not in self.policies:
            self.rules[chain] = []
        elif policy != "-":
            if policy not in ("ACCEPT", "DROP"):
                raise ToolError(f"{policy} is no policy")
            self.policies[chain] = policy

    def _delete(self, chain: str) -> None:
        if chain in self.policies:
            raise ToolError(f"{chain} is built in")
        if self.rules[chain]:
            raise ToolError(f"{chain} is not empty")
        if any(_target(rule) == chain for rules in self.rules.values() for rule in rules):
            raise ToolError(f"{chain} is jumped to")
        del self.rules[chain]

    def _checked(self, chain: str, rule: Rule) -> Rule:
        target = _target(rule)
        known = (*VERDICTS, *TABLES_OF, "")
        if target not in known and (target not in self.rules or target in self.policies):
            raise ToolError(f"there is no chain or target {target}")
        if self.name not in TABLES_OF.get(target, (self.name,)):
            raise ToolError(f"{target} is not for table {self.name}")
        protocol = rule[rule.index("-p") + 1] if "-p" in rule else ""
        needy = [name for name in _extensions(rule) if name in NEED_PROTOCOL]
        if needy and (
            protocol not in ("tcp", "udp") or any(name in ("tcp", "udp") and name != protocol for name in needy)
        ):
            raise ToolError(f"{needy[0]} needs a protocol that it knows in front of it")
        for option, chains in INTERFACES.items():
            if option in rule and chain in chains:
                raise ToolError(f"{option} is not for {chain}")
        return rule

    def _walk(self, hook: str, chain: str, path: tuple[str, ...]) -> None:
        if chain in path:
            raise ToolError(f"a loop through {chain}")
        for rule in self.rules[chain]:
            for name in _extensions(rule):
                if hook not in HOOKS_OF.get(name, (hook,)):
                    raise ToolError(f"{name} is not for {hook}, and {chain} is reached from there")
            if _target(rule) in self.rules:
                self._walk(hook, _target(rule), (*path, chain))


class FakeXtables:
    """Same shape as ``xtables.Xtables``; one object is one network namespace.

    ``failures`` maps the number of a restore call, from 1, to the error it raises instead of doing anything;
    ``texts`` has every text that was to be carried out. ``keeps_tables`` behaves as legacy tables do.
    """

    def __init__(self, name: str = "fake", *, keeps_tables: bool = False) -> None:
        self.name = name
        self.keeps_tables = keeps_tables
        self.tables: dict[tuple[Family, str], FakeTable] = {}
        self.failures: dict[int, MeshnetError] = {}
        self.texts: list[tuple[Family, str]] = []

    def save(self, family: Family, counters: bool = False) -> str:
        return "".join(table.text(counters) for (owner, _), table in self.tables.items() if owner == family)

    def begin_save(self, family: Family, counters: bool = False) -> Work[str]:
        return later(lambda: self.save(family, counters))

    def restore(self, family: Family, text: str, *, test: bool = False) -> None:
        if not test:
            self.texts.append((family, text))
            if len(self.texts) in self.failures:
                raise self.failures[len(self.texts)]
        table: FakeTable | None = None
        for number, line in numbered(text):
            try:
                if line.startswith("*"):
                    table = self._open(family, line[1:])
                elif table is None:
                    raise ToolError("a line outside of any table")
                elif line == "COMMIT":
                    if not test:
                        table.check()
                        self.tables[family, table.name] = table
                    table = None
                else:
                    table.command(line)
            except ToolError as error:
                raise ToolError(f"{self.name} refused line {number}: {line}", detail=error.message) from error
        if table is not None:
            raise ToolError("the text ends without COMMIT")

    def begin(self, family: Family, text: str, *, test: bool = False) -> Work[None]:
        return later(lambda: self.restore(family, text, test=test))

    def delete_empty_table(self, family: Family, table: str, besides: str = "") -> bool:
        found = self.tables.get((family, table))
        if self.keeps_tables or found is None or not found.empty_but(besides):
            return False
        del self.tables[family, table]
        return True

    def _open(self, family: Family, name: str) -> FakeTable:
        if name not in BUILT_IN:
            raise ToolError(f"there is no table {name}")
        found = self.tables.get((family, name))
        return found.copy() if found else FakeTable(name)


def _target(rule: Rule) -> str:
    for option in ("-j", "-g"):
        if option in rule:
            return rule[rule.index(option) + 1]
    return ""


def _extensions(rule: Rule) -> list[str]:
    return [word for option, word in pairwise(rule) if option in ("-m", "-j")]


def _text(rule: Rule) -> str:
    """Words as iptables-save prints them: a comment in quotes unless it is a plain word."""
    text, quote = "", False
    for word in rule:
        text += " " + (
            '"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"' if quote and set(word) - SAFE else word
        )
        quote = word == "--comment"
    return text
