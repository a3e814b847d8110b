"""Tables of nftables as rule sets, one for each family, so that packets can walk through them.

A rule that no packet of a family fits, since it asks for the other one's addresses, is no rule of that family: a rule's
number is its place among those that are, as it is with iptables.
"""

from __future__ import annotations

import re

from meshnet.model.errors import RulesError
from meshnet.model.hooks import Base
from meshnet.model.ruleset import (
    HeldChain,
    HeldRule,
    HeldTable,
    RuleSet,
)
from meshnet.parse.nft_phrases import read_rule
from meshnet.parse.nft_rules import rule_words
from meshnet.parse.nft_text import Written, read_tables
from meshnet.parse.nft_values import Unclear, numeral
from meshnet.parse.nftables import understand

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from meshnet.model.cidr import Family
    from meshnet.model.hooks import Kind
    from meshnet.model.nft import NftChain, NftTable, RawTable
    from meshnet.parse.nft_phrases import Said

OF_FAMILY: dict[str, tuple[Family, ...]] = {"inet": (4, 6), "ip": (4,), "ip6": (6,), "arp": ()}
HOOKS = ("prerouting", "input", "forward", "output", "postrouting")
KINDS: dict[str, Kind] = {"filter": "filter", "route": "route", "nat": "nat"}
NAMES = {"raw": -300, "mangle": -150, "dstnat": -100, "filter": 0, "security": 50, "srcnat": 100}
"""nft's names for priorities in the families of IP (its src/rule.c)."""

HEAD = re.compile(r"type (\w+) hook (\w+) priority ([\w-]+)(?: ([+-]) (\d+))?;(?: policy (\w+);)?")


def read(text: str, name: str = "rules") -> tuple[RuleSet, ...]:
    """The rule sets of the families that the text has tables of. RulesError for what isn't understood as a whole."""
    return rule_sets(read_tables(text, name), name)


def of_table(table: NftTable) -> tuple[RuleSet, ...]:
    """The rule sets of a table of family ``inet``: one that was rendered, or read out of the kernel."""
    return rule_sets([Written("inet", table, {})], f"table inet {table.name}")


def numbers(raw: RawTable, family: Family) -> dict[tuple[str, str, int], int]:
    """The number of each rule in the rule set of a family, by table, chain and the kernel's handle of it."""
    sets = {item.name: item for item in understand(raw).table.sets}
    last: dict[str, int] = {}
    found: dict[tuple[str, str, int], int] = {}
    for rule in raw.rules:
        if family in read_rule(rule_words(rule)[0], sets).families:
            last[rule.chain] = last.get(rule.chain, 0) + 1
            found[f"inet {raw.name}", rule.chain, rule.handle] = last[rule.chain]
    return found


def rule_sets(tables: Iterable[Written], name: str) -> tuple[RuleSet, ...]:
    held: dict[Family, list[HeldTable]] = {}
    problems: list[str] = []
    for written in tables:
        families = OF_FAMILY.get(written.family)
        if families is None:
            problems.append(f"{name}: table {written.family} {written.table.name}: only inet, ip and ip6 are followed")
            continue
        try:
            for family, table in _of_families(written, families):
                held.setdefault(family, []).append(table)
        except Unclear as problem:
            problems.append(f"{name}: table {written.family} {written.table.name}: {problem}")
    if problems:
        raise RulesError(problems, hint="leave the table out, if no packet that you ask about comes there")
    return tuple(RuleSet(family, tuple(found)) for family, found in sorted(held.items()))


def _of_families(written: Written, families: tuple[Family, ...]) -> Iterator[tuple[Family, HeldTable]]:
    table = written.table
    if any("dormant" in word or word == "flags 0x1" for word in table.more):
        return  # it sleeps: the kernel enters none of its chains
    sets = {item.name: item for item in table.sets}
    chains: list[tuple[NftChain, Base | None, str, list[Said]]] = []
    for chain in table.chains:
        base, policy = _base(chain)
        chains.append((chain, base, policy, [read_rule(text, sets) for text in chain.rules]))
    for family in families:
        made = tuple(
            HeldChain(chain.name, policy, tuple(_rules(chain.name, rules, family, written.lines)), base)
            for chain, base, policy, rules in chains
        )
        yield family, HeldTable(f"{written.family} {table.name}", made)


def _rules(chain: str, rules: Iterable[Said], family: Family, lines: dict[tuple[str, int], int]) -> Iterator[HeldRule]:
    for place, said in enumerate(rules):
        if family in said.families:
            yield HeldRule(said.conditions, said.action, lines.get((chain, place), 0), said.words)


def _base(chain: NftChain) -> tuple[Base | None, str]:
    """Where a chain is entered and its policy; Unclear for a place that no packet's way here leads by."""
    if not chain.head:
        return None, ""
    found = HEAD.fullmatch(chain.head)
    if found is None or found[1] not in KINDS or found[2] not in HOOKS:
        raise Unclear(f"chain {chain.name} is entered where meshnet doesn't follow packets ({chain.head})")
    priority = NAMES[found[3]] if found[3] in NAMES else _number(found[3], chain)
    if found[4]:
        priority += int(f"{found[4]}{found[5]}")
    return Base(KINDS[found[1]], found[2].upper(), priority), (found[6] or "accept").upper()


def _number(word: str, chain: NftChain) -> int:
    try:
        return -numeral(word[1:]) if word.startswith("-") else numeral(word)
    except Unclear:
        raise Unclear(f"chain {chain.name} has a priority that meshnet doesn't know ({word})") from None
