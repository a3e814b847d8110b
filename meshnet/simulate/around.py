"""The namespaces that rules are judged in where one alone wouldn't do: more open, or with more addresses."""

from __future__ import annotations

from meshnet.model.cidr import BITS, LOOPBACK
from meshnet.model.host import Address
from meshnet.model.rule import AddressesAre, AddressIs, InSet
from meshnet.model.value import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from meshnet.model.cidr import Family
    from meshnet.model.host import Host
    from meshnet.model.rule import Condition
    from meshnet.model.ruleset import HeldRule, RuleSet

MOST_ADDRESSES = 16
"""That a pod is given besides its own; of a longer list, the rest is like these."""


def elsewhere(held: RuleSet, host: Host) -> Host:
    """The same pod with an address in each block that a rule names: where nobody says which addresses a pod has, a rule
    about a block isn't useless because this pod's own address lies outside."""
    asked = (item for rule in _rules(held) for item in rule.conditions)
    spans = (span for item in asked for span in _first_span(item, held.family, host))
    numbers = dict.fromkeys(first + (first != last) for first, last in spans)
    link = next((link for link in host.links if link.name != "lo"), host.links[0])
    known = {address.number for each in host.links for address in each.addresses}
    more = tuple(
        Address(held.family, number, BITS[held.family])
        for number in numbers
        if number not in known and not LOOPBACK[held.family].holds(held.family, number)
    )
    changed = replace(link, addresses=(*link.addresses, *more[:MOST_ADDRESSES]))
    return replace(host, links=tuple(changed if each is link else each for each in host.links))


def _first_span(item: Condition, family: Family, host: Host) -> Iterator[tuple[int, int]]:
    """A block that a condition is about; the first of a list."""
    every = (1 << BITS[family]) - 1
    match item:
        case AddressIs(_, network, mask, _) if mask:
            yield network, network | ~mask & every
        case AddressesAre(_, spans, _):
            yield from spans[:1]
        case InSet(name, _, _):
            found = next((known for known in host.sets if known.name == name), None)
            blocks = (member.block for member in found.members) if found is not None else ()
            yield from [(block.network, block.last) for block in blocks if block is not None][:1]


def _rules(held: RuleSet) -> Iterator[HeldRule]:
    return (rule for table in held.tables for chain in table.chains for rule in chain.rules)


def opened_host(host: Host) -> Host:
    """Which packets pass is the rules' doing here, and not a sysctl's that may be another one tomorrow."""
    links = tuple(replace(link, route_localnet=True, rp_filter=0, accept_local=True) for link in host.links)
    return replace(host, links=links, forwards=(4, 6), listeners=(), assume=True)
