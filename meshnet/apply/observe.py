"""What a namespace holds now, read back and sorted into ours and others'.

Ours by tag and nothing else: chains by their prefix, entries by comment or by the chain they lead to, policy rules
and routes by their protocol, an address on ``lo`` by the route of our protocol that stands beside it.
"""

from __future__ import annotations

from meshnet.model.cidr import BITS
from meshnet.model.names import CHAIN_PREFIX, COMMENT_PREFIX, NEW_TABLE
from meshnet.model.plan import ChainText, EntryText, Observed, Plan, RouteText, TableText
from meshnet.parse import saved, words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from meshnet.apply.host import Host
    from meshnet.kernel.rtnetlink import SeenRoute, SeenRouting, SeenRule
    from meshnet.model.cidr import Family
    from meshnet.parse.saved import SavedTable

ROUTE_TYPES = {
    1: "unicast",
    2: "local",
    3: "broadcast",
    4: "anycast",
    5: "multicast",
    6: "blackhole",
    7: "unreachable",
    8: "prohibit",
    9: "throw",
}
"""Numbers of linux/rtnetlink.h in the words of ``ip``."""

USUAL_METRIC = {4: 0, 6: 1024}
"""What a route gets that names none, so that it goes unsaid (IP6_RT_PRIO_USER of linux/ipv6_route.h)."""


def observe(host: Host) -> Observed:
    """Read rules, routes and addresses of the families that the host can be asked about."""
    return sort_out(host.save(), {family: host.read_routing(family) for family in host.families})


def sort_out(texts: dict[Family, str], routing: dict[Family, SeenRouting]) -> Observed:
    """Observed from the text of iptables-save, and from the rules and routes of our protocol, by family."""
    own: list[TableText] = []
    present: set[tuple[Family, str]] = set()
    made: set[tuple[Family, str]] = set()
    foreign = 0
    for family, text in texts.items():
        for table in saved.parse(text):
            present.add((family, table.name))
            mine = _own(family, table)
            foreign += len(table.rules) - sum(len(chain.rules) for chain in mine.chains) - len(mine.entries)
            if mine.chains or mine.entries:
                own.append(mine)
            if any(chain.name == NEW_TABLE for chain in table.chains):
                made.add((family, table.name))
    routes: list[RouteText] = []
    on_loopback: set[str] = set()
    for family, seen in routing.items():
        ours, addresses = _routing(family, seen)
        routes += ours
        on_loopback |= addresses
    return Observed(
        Plan(tuple(own), tuple(routes)), frozenset(present), frozenset(made), frozenset(on_loopback), foreign
    )


def _own(family: Family, table: SavedTable) -> TableText:
    rules: dict[str, list[str]] = {
        chain.name: []
        for chain in table.chains
        if chain.policy == "-" and chain.name.startswith(CHAIN_PREFIX) and chain.name != NEW_TABLE
    }
    entries: list[EntryText] = []
    places: dict[str, int] = {}
    for rule in table.rules:
        if rule.chain in rules:
            rules[rule.chain].append(rule.words)
            continue
        place = places[rule.chain] = places.get(rule.chain, 0) + 1
        if (COMMENT_PREFIX in rule.words or CHAIN_PREFIX in rule.words) and _is_entry(rule.words):
            entries.append(EntryText(rule.chain, rule.words, place))  # type: ignore[arg-type]
    chains = tuple(ChainText(name, tuple(texts)) for name, texts in rules.items())
    return TableText(family, table.name, chains, tuple(entries))  # type: ignore[arg-type]


def _is_entry(rule: str) -> bool:
    """A rule outside of our chains is ours by its comment, or when all it does is to lead to one of our chains."""
    return words.comment_of(rule).startswith(COMMENT_PREFIX) or words.target_of(rule).startswith(CHAIN_PREFIX)


def _routing(family: Family, seen: SeenRouting) -> tuple[list[RouteText], set[str]]:
    found = [RouteText(family, "rule", _rule_words(rule)) for rule in seen.rules]
    found += [RouteText(family, "route", _route_words(route, family)) for route in seen.routes]
    addresses = {f"{address} dev lo" for address in seen.loopback}
    whole = f"/{BITS[family]}"
    # Once each: between two steps of a move to another table there are two routes beside one address.
    marked = dict.fromkeys(
        f"{route.destination} dev lo"
        for route in seen.routes
        if ROUTE_TYPES.get(route.kind) == "local" and route.destination.endswith(whole)
    )
    found += [RouteText(family, "addr", address) for address in marked if address in addresses]
    return found, addresses


def _rule_words(rule: SeenRule) -> str:
    selectors: Iterable[tuple[str, str | int]] = (
        ("from", rule.source),
        ("to", rule.destination),
        ("fwmark", rule.mark),
        ("iif", rule.incoming),
        ("oif", rule.outgoing),
        ("lookup", rule.table or ""),  # none for a rule that goes to another one, or to nowhere
        ("pref", rule.priority),
        ("protocol", rule.protocol),
    )
    words_of = " ".join(f"{word} {said}" for word, said in selectors if said != "")
    return f"not {words_of}" if rule.inverted else words_of


def _route_words(route: SeenRoute, family: Family) -> str:
    selectors: Iterable[tuple[str, str | int]] = (
        ("via", route.gateway),
        ("dev", route.device),
        ("table", route.table),
        ("proto", route.protocol),
        ("metric", route.metric if route.metric != USUAL_METRIC[family] else ""),
    )
    words_of = " ".join(f"{word} {said}" for word, said in selectors if said != "")
    return f"{ROUTE_TYPES.get(route.kind, route.kind)} {_destination(route.destination, family)} {words_of}"


def _destination(block: str, family: Family) -> str:
    """As ``render/routes`` writes it: ``default`` for everything, a lone address without its length."""
    return "default" if block in ("0.0.0.0/0", "::/0") else block.removesuffix(f"/{BITS[family]}")
