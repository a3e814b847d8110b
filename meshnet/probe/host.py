"""A namespace's own facts for the simulator: its links, addresses, routes, policy rules and sysctls."""

from __future__ import annotations

from meshnet.kernel import ipsets, links, rtnetlink
from meshnet.model.cidr import read_address, read_cidr
from meshnet.model.host import LOCAL_TABLE, LOOPBACK_LINK, Address, Host, Link, Lookup, Route, address_set
from meshnet.model.marks import Mark
from meshnet.model.names import CHAIN_PREFIX
from meshnet.model.value import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from meshnet.kernel.netns import Namespace
    from meshnet.kernel.rtnetlink import SeenRoute, SeenRule
    from meshnet.model.cidr import Family
    from meshnet.model.host import RouteKind

KINDS: dict[int, RouteKind] = {
    1: "unicast",
    2: "local",
    6: "blackhole",
    7: "unreachable",
    8: "prohibit",
    9: "throw",
}
"""linux/rtnetlink.h, RTN_*; broadcast, anycast and multicast routes come with the links' addresses."""


def host_of(namespace: Namespace) -> Host:
    """Everything that decides a packet's way besides rules and sockets. Of sets those of ours: others' have types and
    options whose members mean something else. ToolError, NamespaceError, PermissionMissing."""
    held: dict[str, list[Address]] = {}
    for item in links.addresses(namespace):
        family, number = read_address(item.address.partition("%")[0])
        held.setdefault(item.link, []).append(Address(family, number, item.prefix))
    held.setdefault("lo", list(LOOPBACK_LINK.addresses))
    families: tuple[Family, ...] = (4, 6)
    with namespace.entered():
        seen = {family: rtnetlink.read(family) for family in families}
        sets = ipsets.read(CHAIN_PREFIX)
    return Host(
        tuple(_link(namespace, name, tuple(addresses)) for name, addresses in held.items()),
        tuple(route for family in families for route in _routes(seen[family].routes)),
        tuple(lookup for family in families for lookup in _lookups(family, seen[family].rules)),
        sets=tuple(address_set(made) for made in sets),
        forwards=tuple(family for family in families if _is_set(namespace, FORWARDS[family])),
    )


FORWARDS: dict[Family, str] = {4: "net.ipv4.ip_forward", 6: "net.ipv6.conf.all.forwarding"}


def _link(namespace: Namespace, name: str, addresses: tuple[Address, ...]) -> Link:
    def either(key: str) -> bool:
        return any(_is_set(namespace, f"net/ipv4/conf/{scope}/{key}") for scope in ("all", name))

    rp = max(int(links.read_sysctl(namespace, f"net/ipv4/conf/{scope}/rp_filter")) for scope in ("all", name))
    made = Link(name, addresses, either("route_localnet"), 0, either("src_valid_mark"), either("accept_local"))
    return replace(made, rp_filter=rp)


def _is_set(namespace: Namespace, key: str) -> bool:
    path = key if "/" in key else key.replace(".", "/")
    return links.read_sysctl(namespace, path).strip() not in ("", "0")


def _routes(seen: tuple[SeenRoute, ...]) -> Iterator[Route]:
    for item in seen:
        kind = KINDS.get(item.kind)
        if kind is None or (item.table == LOCAL_TABLE and kind != "local"):
            continue
        yield Route(read_cidr(item.destination), item.device, item.table, kind)


def _lookups(family: Family, seen: tuple[SeenRule, ...]) -> Iterator[Lookup]:
    """The three that every namespace has are the simulator's own."""
    for item in seen:
        if item.table in (0, 253, 254, 255) and not (item.mark or item.source or item.destination or item.incoming):
            continue
        mark = None
        if item.mark:
            number, _, mask = item.mark.partition("/")
            mark = Mark(int(number, 0), int(mask or "0xffffffff", 0))
        yield Lookup(
            family,
            item.priority,
            item.table,
            mark,
            read_cidr(item.source) if item.source else None,
            read_cidr(item.destination) if item.destination else None,
            item.incoming,
            item.outgoing,
            negated=item.inverted,
        )
