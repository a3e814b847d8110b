"""What a namespace holds now, read back and sorted into ours and others'.

Ours by tag and nothing else: chains by their prefix, entries by comment or by the chain they lead to, policy rules
and routes by their protocol, an address on ``lo`` by the route of our protocol that stands beside it.
"""

from __future__ import annotations

from meshnet.model.cidr import BITS
from meshnet.model.names import (
    AMBIENT_NODE,
    AMBIENT_POD,
    CHAIN_PREFIX,
    COMMENT_PREFIX,
    DNS_PORT,
    ISTIO_PREFIX,
    NEW_TABLE,
    PASSTHROUGH6,
    ROUTE_PROTOCOL,
    ROUTE_TABLE,
)
from meshnet.model.plan import ChainText, EntryText, Observed, Plan, RouteText, TableText
from meshnet.model.value import replace
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

EARLIER_DNS = f"--sport {DNS_PORT} "

USUAL_METRIC = {4: 0, 6: 1024}
"""What a route gets that names none, so that it goes unsaid (IP6_RT_PRIO_USER of linux/ipv6_route.h)."""


def observe(host: Host) -> Observed:
    """Read rules, routes and addresses of the families that the host can be asked about."""
    routing = {family: host.read_routing(family) for family in host.families}
    seen = sort_out(host.save(), routing, adopting=host.adopting)
    tables, taken = host.read_tables()
    sets = host.read_sets()
    if not tables and not taken and not sets:
        return seen
    return replace(seen, own=replace(seen.own, nft=tables, sets=sets), taken=taken)


def sort_out(texts: dict[Family, str], routing: dict[Family, SeenRouting], *, adopting: bool = False) -> Observed:
    """Observed from the text of iptables-save, and from rules and routes, by family.

    ``adopting``: what an istio-iptables run left counts as ours too.
    """
    own: list[TableText] = []
    present: set[tuple[Family, str]] = set()
    made: set[tuple[Family, str]] = set()
    marked: set[tuple[Family, str]] = set()
    foreign = 0
    tables = {family: saved.parse(text) for family, text in texts.items()}
    for family in tables:
        for table in tables[family]:
            present.add((family, table.name))
            mine = _own(family, table, adopting)
            others = len(table.rules) - sum(len(chain.rules) for chain in mine.chains) - len(mine.entries)
            foreign += others
            if mine.chains or mine.entries:
                own.append(mine)
            if any(chain.name == NEW_TABLE for chain in table.chains):
                marked.add((family, table.name))
            elif not others and _all_of_istio(mine, table):
                made.add((family, table.name))
    routes: list[RouteText] = []
    on_loopback: set[str] = set()
    for family, seen in routing.items():
        ours, addresses = _routing(family, seen)
        routes += ours
        if adopting and _something_left(seen):
            routes += _left_routing(family, seen, tables.get(family, ()))
        on_loopback |= addresses
    return Observed(
        Plan(tuple(own), tuple(routes)),
        frozenset(present),
        frozenset(made | marked),
        frozenset(marked),
        frozenset(on_loopback),
        foreign,
    )


def _own(family: Family, table: SavedTable, adopting: bool) -> TableText:
    tagged = _istio_of_ours(table)
    left = adopting and not tagged and _istio_ran(table)
    adopted = _left_by_istio(table) if left else frozenset()
    prefixes = (CHAIN_PREFIX, ISTIO_PREFIX) if tagged or left else (CHAIN_PREFIX,)
    rules: dict[str, list[str]] = {
        chain.name: []
        for chain in table.chains
        if chain.policy == "-" and chain.name.startswith(prefixes) and chain.name != NEW_TABLE
    }
    entries: list[EntryText] = []
    places: dict[str, int] = {}
    for rule in table.rules:
        if rule.chain in rules:
            rules[rule.chain].append(rule.words)
            continue
        place = places[rule.chain] = places.get(rule.chain, 0) + 1
        if _is_entry(rule.words, prefixes) or (rule.chain, rule.words) in adopted:
            entries.append(EntryText(rule.chain, rule.words, place))  # type: ignore[arg-type]
    chains = tuple(ChainText(name, tuple(texts)) for name, texts in rules.items())
    return TableText(family, table.name, chains, tuple(entries))  # type: ignore[arg-type]


def _all_of_istio(mine: TableText, table: SavedTable) -> bool:
    """Whether nothing but profile istio is in a table: no marker says that it came with us, since there is no such
    chain in the original's rule set."""
    chains = [chain for chain in table.chains if chain.policy == "-"]
    return len(chains) == len(mine.chains) > 0 and all(chain.policy in ("-", "ACCEPT") for chain in table.chains)


def _istio_ran(table: SavedTable) -> bool:
    """Whether the chains are those of istio-iptables. Istio's ambient mode has some of the same names in pods and on
    nodes, with policy rules of its own beside them; its agent looks after all of that."""
    istio = [chain.name for chain in table.chains if chain.name.startswith(ISTIO_PREFIX)]
    if not istio and table.name == "raw":  # where earlier releases had no chain, but its DNS listener is named
        return any(rule.chain == "OUTPUT" and EARLIER_DNS in rule.words for rule in table.rules)
    return bool(istio) and AMBIENT_POD not in istio and AMBIENT_NODE not in istio


def _istio_of_ours(table: SavedTable) -> bool:
    """Whether the table's ``ISTIO_`` chains are of profile istio, and not of an istio-iptables run."""
    return any(
        COMMENT_PREFIX in rule.words
        and words.comment_of(rule.words).startswith(COMMENT_PREFIX)
        and (rule.chain.startswith(ISTIO_PREFIX) or words.target_of(rule.words).startswith(ISTIO_PREFIX))
        for rule in table.rules
    )


def _is_entry(rule: str, prefixes: tuple[str, ...]) -> bool:
    """A rule outside of our chains is ours by its comment, or when all it does is to lead to one of our chains."""
    if COMMENT_PREFIX in rule and words.comment_of(rule).startswith(COMMENT_PREFIX):
        return True
    return any(prefix in rule for prefix in prefixes) and words.target_of(rule).startswith(prefixes)


def _left_by_istio(table: SavedTable) -> frozenset[tuple[str, str]]:
    from meshnet.apply.leftovers import left_by_istio

    return left_by_istio(table)


def _something_left(seen: SeenRouting) -> bool:
    """Whether there is anything at all that a closer look may find to be of an istio-iptables run."""
    address = f"{PASSTHROUGH6}/128"
    ours = any(route.protocol == ROUTE_PROTOCOL and route.destination == address for route in seen.routes)
    return (
        any(rule.mark and rule.protocol != ROUTE_PROTOCOL for rule in seen.rules)
        or any(route.table == ROUTE_TABLE and route.protocol != ROUTE_PROTOCOL for route in seen.routes)
        or (address in seen.loopback and not ours)
    )


def _left_routing(family: Family, seen: SeenRouting, tables: tuple[SavedTable, ...]) -> list[RouteText]:
    from meshnet.apply.leftovers import left_routing

    rules, routes, addresses = left_routing(family, seen, tables)
    return [
        *(RouteText(family, "rule", _rule_words(rule)) for rule in rules),
        *(RouteText(family, "route", _route_words(route, family)) for route in routes),
        *(RouteText(family, "addr", f"{address} dev lo") for address in addresses),
    ]


def _routing(family: Family, seen: SeenRouting) -> tuple[list[RouteText], set[str]]:
    routes = [route for route in seen.routes if route.protocol == ROUTE_PROTOCOL]
    found = [RouteText(family, "rule", _rule_words(rule)) for rule in seen.rules if rule.protocol == ROUTE_PROTOCOL]
    found += [RouteText(family, "route", _route_words(route, family)) for route in routes]
    addresses = {f"{address} dev lo" for address in seen.loopback}
    whole = f"/{BITS[family]}"
    # Once each: between two steps of a move to another table there are two routes beside one address.
    marked = dict.fromkeys(
        f"{route.destination} dev lo"
        for route in routes
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
