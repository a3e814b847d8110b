"""A rule set made ready to be walked: chains of functions, entered by table and hook (ip_tables.c, ipt_do_table)."""

from __future__ import annotations

from meshnet.model.errors import RulesError
from meshnet.model.hooks import BUILT_IN
from meshnet.model.rule import Call, InSet, UnknownMatch
from meshnet.simulate.matches import test_of
from meshnet.simulate.targets import RETURNED, Spot, act_of, unsure

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from meshnet.model.hooks import Base, Stage
    from meshnet.model.ruleset import HeldChain, HeldTable, RuleSet
    from meshnet.simulate.matches import Place
    from meshnet.simulate.packet import Packet, Test
    from meshnet.simulate.targets import Act, Work


MOST_DEPTH = 200
"""Of chains that call each other. nft allows 16 (NFT_JUMP_STACK_SIZE), and no rule set in use comes near that."""


class Chain:
    """``policy`` is the verdict at the end of a base chain, empty for any other. ``reroutes``: behind it a packet that
    is sent has a new route if it has a new mark."""

    __slots__ = ("name", "policy", "reroutes", "rules", "table")

    def __init__(self, table: str, name: str, policy: str) -> None:
        self.table = table
        self.name = name
        self.policy = policy
        self.reroutes = False
        self.rules: list[tuple[Test | None, Act | None, Callable[[Packet, Any], str | None] | None]] = []

    def run(self, p: Packet) -> str | None:
        """A verdict, or None when the chain is through or has returned."""
        for test, act, doubted in self.rules:
            found = True if test is None else test(p)
            if not found:
                continue
            verdict = act(p) if act is not None else doubted(p, found)  # type: ignore[misc]
            if verdict is not None:
                return None if verdict == RETURNED else verdict
        return None

    def enter(self, p: Packet) -> str | None:
        """Of a built-in chain: its verdict, or its policy's. None is ACCEPT by policy."""
        verdict = self.run(p)
        if verdict is None and self.policy != "ACCEPT":
            p.hops.append((p.hook, self.table, self.name, 0, None, f"policy {self.policy}", p.mark))
            return "drop" if self.policy == "DROP" else "undecided"
        return verdict


class Rules:
    """One family's rules: the base chains that can do anything, in the order in which the kernel enters them."""

    def __init__(self, held: RuleSet, place: Place, work: Work) -> None:
        check(held)
        entered: list[tuple[Base, Chain]] = []
        for table in held.tables:
            chains = {chain.name: Chain(table.name, chain.name, chain.policy) for chain in table.chains}
            for chain in table.chains:
                made = chains[chain.name]
                _fill(made, chain, chains, place, work)
                base = table.base(chain)
                if base is not None and _does_anything(chain):
                    made.reroutes = base.kind == "route"
                    entered.append((base, made))
        self._at: dict[tuple[Stage, str], tuple[Chain, ...]] = {}
        for base, made in sorted(entered, key=lambda item: item[0].priority):
            self._at[base.stage, base.hook] = (*self._at.get((base.stage, base.hook), ()), made)
        self.translates = any(
            table.name == "nat" or (chain.base is not None and chain.base.kind == "nat")
            for table in held.tables
            for chain in table.chains
        )

    def at(self, stage: Stage, hook: str) -> tuple[Chain, ...]:
        return self._at.get((stage, hook), ())


def _does_anything(chain: HeldChain) -> bool:
    return bool(chain.rules) or chain.policy != "ACCEPT"


def _fill(made: Chain, chain: HeldChain, chains: dict[str, Chain], place: Place, work: Work) -> None:
    for number, rule in enumerate(chain.rules, 1):
        spot = Spot(made.table, made.name, number, rule)
        act = act_of(rule.action, spot, work, chains)
        test = test_of(rule.conditions, place)
        doubtful = any(isinstance(item, (InSet, UnknownMatch)) for item in rule.conditions)
        made.rules.append((test, None, unsure(spot, rule.action, act)) if doubtful else (test, act, None))


def check(held: RuleSet) -> None:
    """RulesError for what the kernel wouldn't have taken: a jump to a chain that isn't there, or in a circle; and for
    base chains of which no text tells which one comes first."""
    problems = [problem for table in held.tables for problem in _problems(table)]
    if problems:
        raise RulesError(problems, hint="the kernel refuses such rules, so this text is not what a namespace holds")
    tied = list(ties(held))
    if tied:
        raise RulesError(tied, hint="look at one of the tables alone; nft list hooks shows the order in a namespace")


def ties(held: RuleSet) -> Iterator[str]:
    """At one hook and priority, the chain that was registered last is entered first."""
    taken: dict[tuple[str, str, int], str] = {}
    for table in held.tables:
        for chain in table.chains:
            base = table.base(chain)
            if base is None or not _does_anything(chain):
                continue
            name = f"{chain.name} of {table.name}"
            place = ("nat" if base.kind == "nat" else "", base.hook, base.priority)
            other = base.tied or taken.get(place, "")
            if other:
                where = f"{base.hook}, priority {base.priority}"
                yield f"chain {name} and {other} are both entered at {where}: no text tells which comes first"
            taken[place] = name


def _problems(table: HeldTable) -> Iterator[str]:
    names = {chain.name for chain in table.chains}
    calls: dict[str, list[str]] = {}
    for chain in table.chains:
        for rule in chain.rules:
            if not isinstance(rule.action, Call):
                continue
            to = rule.action.chain
            where = f"line {rule.line}: " if rule.line else ""
            if to not in names:
                yield f"{where}table {table.name}: a rule of {chain.name} leads to {to}, and there is no such chain"
            elif to in BUILT_IN.get(table.name, ()):
                yield f"{where}table {table.name}: a rule of {chain.name} leads to the built-in chain {to}"
            else:
                calls.setdefault(chain.name, []).append(to)
    circle = _circle(calls)
    if circle:
        yield f"table {table.name}: its chains lead in a circle: {' -> '.join(circle)}"
    elif _deepest(calls) > MOST_DEPTH:
        yield f"table {table.name}: its chains call each other more than {MOST_DEPTH} deep"


def _deepest(calls: dict[str, list[str]]) -> int:
    """How many chains call one another in a row at most, where none leads in a circle."""
    level, depth = set(calls), 0
    while level and depth <= MOST_DEPTH:
        level = {to for name in level for to in calls.get(name, ())}
        depth += 1
    return depth


def _circle(calls: dict[str, list[str]]) -> list[str]:
    """Chains that lead back to the first of them, or nothing."""
    done: set[str] = set()
    for start in calls:
        path: list[str] = []
        stack: list[Iterator[str]] = [iter((start,))]
        while stack:
            name = next(stack[-1], "")
            if not name:
                stack.pop()
                if path:
                    done.add(path.pop())
            elif name in path:
                return [*path[path.index(name) :], name]
            elif name not in done:
                path.append(name)
                stack.append(iter(calls.get(name, ())))
    return []
