"""Rule sets and small changes to them: neighbours swapped that don't depend on each other, a rule dropped."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from meshnet.model.cidr import read_address, read_cidr
from meshnet.model.host import LOOPBACK_LINK, Address, Host, Link, Lookup, Route
from meshnet.model.marks import Mark
from meshnet.model.rule import (
    Accept,
    AddressIs,
    Drop,
    PortIs,
    ProtocolIs,
    Return,
    ToSocket,
    Translate,
)
from meshnet.model.ruleset import HeldRule, RuleSet
from meshnet.model.value import replace
from meshnet.parse.ruleset import read
from meshnet.simulate.compare import Side
from tests import conformance

if TYPE_CHECKING:
    from collections.abc import Iterator

MARK = 1337
DISJOINT = (PortIs, AddressIs)
END = (Accept, Drop, Return, Translate, ToSocket)


def goldens() -> list[tuple[str, RuleSet]]:
    found = []
    for path in conformance.files("istio-iptables", "*.golden"):
        if path.exists():
            found.append((path.name, read(conformance.golden(path)[4], 4, path.name)))
    return found


def host(**settings: bool) -> Host:
    pod = tuple(Address(family, read_address(text)[1], 24) for family, text in ((4, "192.0.2.2"), (6, "2001:db8::2")))
    routes = [Route(read_cidr(block), "eth0") for block in ("0.0.0.0/0", "::/0")]
    routes += [Route(read_cidr(block), "lo", 133, "local") for block in ("0.0.0.0/0", "::/0")]
    lookups = tuple(Lookup(family, 109, 133, Mark(MARK)) for family in (4, 6))
    return Host((LOOPBACK_LINK, Link("eth0", pod, **settings)), tuple(routes), lookups, forwards=(4, 6))


def side(rules: RuleSet) -> Side:
    return Side(rules, host())


def changed(held: RuleSet, table: int, chain: int, rules: tuple[HeldRule, ...]) -> RuleSet:
    old = held.tables[table]
    chains = list(old.chains)
    chains[chain] = replace(chains[chain], rules=rules)
    tables = list(held.tables)
    tables[table] = replace(old, chains=tuple(chains))
    return replace(held, tables=tuple(tables))


def places(held: RuleSet) -> Iterator[tuple[int, int, int]]:
    for table, found in enumerate(held.tables):
        for chain, inside in enumerate(found.chains):
            for number in range(len(inside.rules)):
                yield table, chain, number


def without(held: RuleSet, table: int, chain: int, number: int) -> RuleSet:
    rules = held.tables[table].chains[chain].rules
    return changed(held, table, chain, rules[:number] + rules[number + 1 :])


def swaps(held: RuleSet) -> Iterator[RuleSet]:
    """Every pair of neighbours that either do the same, or that no packet fits both of."""
    for table, chain, number in places(held):
        rules = held.tables[table].chains[chain].rules
        if number + 1 == len(rules):
            continue
        one, other = rules[number], rules[number + 1]
        if _independent(one, other):
            yield changed(held, table, chain, (*rules[:number], other, one, *rules[number + 2 :]))


def _independent(one: HeldRule, other: HeldRule) -> bool:
    if one.action == other.action and isinstance(one.action, END):
        return True
    return any(
        type(mine) is type(yours)
        and (
            (isinstance(mine, ProtocolIs) and not mine.negated and not yours.negated and mine.number != yours.number)
            or (
                isinstance(mine, PortIs)
                and not (mine.negated or yours.negated)
                and mine.end == yours.end
                and (mine.last < yours.first or yours.last < mine.first)
            )
        )
        for mine in one.conditions
        for yours in other.conditions
    )


def constants(held: RuleSet, seed: random.Random) -> dict[str, list[int]]:
    """Values that occur in a rule set, their neighbours, and some of no meaning."""
    found: dict[str, list[int]] = {"address": [], "port": [80, 443, 53], "id": [0, 1000], "mark": [0, MARK, 1338, 7]}
    for table, chain, number in places(held):
        rule = held.tables[table].chains[chain].rules[number]
        for item in rule.conditions:
            if isinstance(item, AddressIs):
                found["address"] += [item.network, item.network + 1, item.network | ~item.mask & 0xFFFFFFFF]
            elif isinstance(item, PortIs):
                found["port"] += [item.first, item.last + 1]
            for ids in (getattr(item, "uid", None), getattr(item, "gid", None)):
                if ids is not None:
                    found["id"] += [ids.first, ids.last]
    found["address"] += [seed.getrandbits(32) for _ in range(3)]
    found["address"] += [read_address(text)[1] for text in ("192.0.2.2", "192.0.2.1", "127.0.0.1", "203.0.113.9")]
    return found
