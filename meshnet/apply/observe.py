"""What a namespace holds now, read back and sorted into ours and others'.

Ours by tag and nothing else: chains by their prefix, entries by comment or by the chain they lead to, policy rules
and routes by their protocol, an address on ``lo`` by the route of our protocol that stands beside it.
"""

from __future__ import annotations

from meshnet.apply.leftovers import left_by_istio
from meshnet.model.cidr import read_cidr
from meshnet.model.errors import ToolError, Wrong
from meshnet.model.names import CHAIN_PREFIX, COMMENT_PREFIX, ISTIO_PREFIX, NEW_TABLE, ROUTE_PROTOCOL
from meshnet.model.plan import ChainText, EntryText, Observed, Plan, RouteText, TableText
from meshnet.parse import saved, words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from meshnet.apply.host import Host
    from meshnet.model.cidr import Family
    from meshnet.parse.saved import SavedTable

ROUTE_TYPES = {"1": "unicast", "2": "local", "3": "broadcast", "6": "blackhole", "7": "unreachable", "8": "prohibit"}
"""Numbers of linux/rtnetlink.h, since ``ip -N`` prints them so; without -N a file of names decides what is printed."""


def observe(host: Host) -> Observed:
    """Read rules, routes and addresses of the families that the host can be asked about."""
    routing = {family: host.read_routing(family) for family in host.families}
    texts = {family: host.save(family) for family in host.families}
    return sort_out(texts, routing, adopting=host.adopting)


def sort_out(texts: dict[Family, str], routing: dict[Family, str], *, adopting: bool = False) -> Observed:
    """Observed from the text of iptables-save and the lists of ``ip -j -N``, by family.

    ``adopting``: what an istio-iptables run left counts as ours too.
    """
    own: list[TableText] = []
    present: set[tuple[Family, str]] = set()
    made: set[tuple[Family, str]] = set()
    foreign = 0
    for family, text in texts.items():
        for table in saved.parse(text):
            present.add((family, table.name))
            mine = _own(family, table, adopting)
            others = len(table.rules) - sum(len(chain.rules) for chain in mine.chains) - len(mine.entries)
            foreign += others
            if mine.chains or mine.entries:
                own.append(mine)
            if any(chain.name == NEW_TABLE for chain in table.chains) or (not others and _all_of_istio(mine, table)):
                made.add((family, table.name))
    routes: list[RouteText] = []
    on_loopback: set[str] = set()
    for family, lists in routing.items():
        ours, addresses = _routing(family, lists)
        routes += ours
        on_loopback |= addresses
    return Observed(
        Plan(tuple(own), tuple(routes)), frozenset(present), frozenset(made), frozenset(on_loopback), foreign
    )


def _own(family: Family, table: SavedTable, adopting: bool) -> TableText:
    istio = any(chain.name.startswith(ISTIO_PREFIX) for chain in table.chains)
    adopted = left_by_istio(table) if istio and adopting else frozenset()
    prefixes = (CHAIN_PREFIX, ISTIO_PREFIX) if istio and (adopting or _istio_of_ours(table)) else (CHAIN_PREFIX,)
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


def _routing(family: Family, lists: str) -> tuple[list[RouteText], set[str]]:
    rules, routes, links = _three_lists(family, lists)
    found = [
        RouteText(family, "rule", _rule_words(item))
        for item in rules
        if str(item.get("protocol")) == str(ROUTE_PROTOCOL)
    ]
    ours = [item for item in routes if str(item.get("protocol")) == str(ROUTE_PROTOCOL) and _of(item, family)]
    found += [RouteText(family, "route", _route_words(item, family)) for item in ours]
    addresses = {
        f"{_address(entry['local'])}/{entry['prefixlen']} dev lo"
        for link in links
        for entry in link.get("addr_info", ())
    }
    length = 32 if family == 4 else 128
    # Once each: between two steps of a move to another table there are two routes beside one address.
    marked = dict.fromkeys(
        f"{_address(item['dst'])}/{length} dev lo"
        for item in ours
        if item.get("type") == "2" and "/" not in item["dst"]
    )
    found += [RouteText(family, "addr", address) for address in marked if address in addresses]
    return found, addresses


def _three_lists(family: Family, lists: str) -> list[list[dict[str, Any]]]:
    """``ip -batch`` prints one JSON list for each question; in a namespace without an answer it may print nothing."""
    import json

    decoder, found, place = json.JSONDecoder(), [], 0
    text = lists.strip()
    try:
        while place < len(text):
            item, end = decoder.raw_decode(text, place)
            found.append(item)
            place = end + len(text[end:]) - len(text[end:].lstrip())
    except ValueError as error:
        raise ToolError(f"ip -{family} printed no JSON", detail=lists[:400]) from error
    if len(found) != 3:
        raise ToolError(f"ip -{family} answered {len(found)} of 3 questions", detail=lists[:400])
    return found


def _of(route: dict[str, Any], family: Family) -> bool:
    """``route show table all`` may show both families; an address tells which one it is."""
    destination = str(route.get("dst"))
    if destination == "default":
        return ("pref" in route) == (family == 6)
    return (":" in destination) == (family == 6)


def _address(text: str) -> str:
    """An address or block as meshnet writes it: ``ip`` prints ``::102:304`` as ``::1.2.3.4``."""
    try:
        block = read_cidr(text)
    except Wrong:
        return text
    return str(block) if "/" in text else block.address


def _rule_words(item: dict[str, Any]) -> str:
    mask = str(item.get("fwmask", "0xffffffff"))
    selectors: Iterable[tuple[str, Any]] = (
        ("not", "" if "not" in item else None),
        ("from", _prefix(item, "src") if item.get("src", "all") != "all" else None),
        ("to", _prefix(item, "dst") if item.get("dst", "all") != "all" else None),
        ("fwmark", f"{item['fwmark']}/{mask}" if "fwmark" in item else None),
        ("iif", item.get("iif")),
        ("oif", item.get("oif")),
        ("lookup", item.get("table")),
        ("pref", item.get("priority")),
        ("protocol", item.get("protocol")),
    )
    return " ".join(f"{word} {value}".strip() for word, value in selectors if value is not None)


def _prefix(item: dict[str, Any], end: str) -> str:
    return f"{item[end]}/{item[end + 'len']}" if end + "len" in item else str(item[end])


def _route_words(item: dict[str, Any], family: Family) -> str:
    usual_metric = 1024 if family == 6 else 0  # IP6_RT_PRIO_USER of linux/ipv6_route.h
    kind = ROUTE_TYPES.get(str(item.get("type", "1")), str(item.get("type")))
    selectors: Iterable[tuple[str, Any]] = (
        ("via", item.get("gateway")),
        ("dev", item.get("dev")),
        ("table", item.get("table", "254")),
        ("proto", item.get("protocol")),
        ("metric", item.get("metric", usual_metric) if item.get("metric", usual_metric) != usual_metric else None),
    )
    words_of = " ".join(f"{word} {value}" for word, value in selectors if value is not None)
    return f"{kind} {_address(item['dst'])} {words_of}"
