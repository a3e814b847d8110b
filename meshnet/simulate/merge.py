"""Rules that differ in one block of addresses only, as one rule about a set of them.

A thousand exclusions are a thousand rules that all ask one question. Asked one by one they split the header space into
a thousand and one classes; asked as one set they split it in two, and packets in the set are treated alike anyway.
"""

from __future__ import annotations

from meshnet.model.cidr import BITS, Cidr
from meshnet.model.host import AddressSet, Member
from meshnet.model.rule import (
    Accept,
    AddressIs,
    Comment,
    Drop,
    InSet,
    PortIs,
    PortsAre,
    Reject,
    Return,
)
from meshnet.model.ruleset import HeldRule, HeldTable, RuleSet
from meshnet.model.value import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from meshnet.model.cidr import Family
    from meshnet.model.rule import Condition

ENDS = (Accept, Drop, Reject, Return)
"""Actions after which no rule of the chain is asked, so that which of two like rules it was makes no difference."""

FEWEST = 3
"""Below this many a set saves nothing."""


def merged(held: RuleSet, prefix: str, fewest: int = FEWEST) -> tuple[RuleSet, tuple[AddressSet, ...]]:
    """The rule set with runs of like rules as one each, and the sets that it names; ``prefix`` keeps names apart.

    A merged rule has the line of its run's first one.
    """
    sets: list[AddressSet] = []
    tables = tuple(
        HeldTable(
            table.name,
            tuple(
                replace(chain, rules=tuple(_rules(chain.rules, held.family, prefix, sets, fewest)))
                for chain in table.chains
            ),
        )
        for table in held.tables
    )
    return RuleSet(held.family, tables), tuple(sets)


def _rules(
    rules: tuple[HeldRule, ...], family: Family, prefix: str, sets: list[AddressSet], fewest: int
) -> Iterator[HeldRule]:
    run: list[tuple[HeldRule, Condition | None]] = []
    key: object = None
    for rule in rules:
        rest, varying = _apart(rule, family)
        mine = (rest, type(varying), getattr(varying, "end", ""), rule.action) if varying is not None else None
        if mine is None or mine != key:
            yield from _closed(run, family, prefix, sets, fewest)
            run, key = [], mine
        run.append((rule, varying))
    yield from _closed(run, family, prefix, sets, fewest)


def _apart(rule: HeldRule, family: Family) -> tuple[tuple[Condition, ...], Condition | None]:
    """A rule's other conditions, and the last one about a block or a port if the rule ends a chain."""
    conditions = tuple(item for item in rule.conditions if not isinstance(item, Comment))
    if not isinstance(rule.action, ENDS):
        return conditions, None
    for place in range(len(conditions) - 1, -1, -1):
        item = conditions[place]
        if _mergeable(item, family):
            return (*conditions[:place], *conditions[place + 1 :]), item
    return conditions, None


def _mergeable(item: Condition, family: Family) -> bool:
    if isinstance(item, AddressIs):
        return not item.negated and _is_prefix(item.mask, family)
    return isinstance(item, PortIs) and not item.negated


def _is_prefix(mask: int, family: Family) -> bool:
    every = (1 << BITS[family]) - 1
    return mask == every ^ (every >> mask.bit_count())


def _closed(
    run: list[tuple[HeldRule, Condition | None]], family: Family, prefix: str, sets: list[AddressSet], fewest: int
) -> Iterator[HeldRule]:
    if len(run) < fewest:
        yield from (rule for rule, _ in run)
        return
    first, varying = run[0]
    rest, _ = _apart(first, family)
    if isinstance(varying, PortIs):
        spans = tuple((item.first, item.last) for _, item in run if isinstance(item, PortIs))
        yield HeldRule((*rest, PortsAre(varying.end, spans)), first.action, first.line)
        return
    assert isinstance(varying, AddressIs)
    name = f"{prefix}{len(sets)}"
    blocks = (item for _, item in run if isinstance(item, AddressIs))
    members = tuple(Member(Cidr(family, item.network, item.mask.bit_count())) for item in blocks)
    sets.append(AddressSet(name, ("net",), members))
    yield HeldRule((*rest, InSet(name, ("src" if varying.end == "source" else "dst",))), first.action, first.line)
