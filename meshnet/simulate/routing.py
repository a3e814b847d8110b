"""Policy rules and routing tables: which route a packet takes, and what the kernel checks of its source.

Of net/core/fib_rules.c (which rule), fib_trie.c (the longest prefix), fib_frontend.c (the source of what comes in),
route.c (martians, and loopback addresses that would leave by a link).
"""

from __future__ import annotations

from meshnet.model.cidr import BITS, LOOPBACK, Cidr, network_of
from meshnet.model.host import DEFAULT_TABLE, LOCAL_TABLE, MAIN_TABLE, Lookup
from meshnet.model.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from meshnet.model.cidr import Family
    from meshnet.model.host import Address, Host, Link

MULTICAST = {4: Cidr(4, 0xE0000000, 4), 6: Cidr(6, 0xFF << 120, 8)}
NEIGHBOURS_GROUPS = 0xE00000
"""224.0.0.0/24 (RFC 5771), without its last byte."""

ALL_HOSTS = {4: 0xE0000001, 6: 0xFF02 << 112 | 1}
_LINK_LOCAL6 = Cidr(6, 0xFE80 << 112, 10)
LIMITED_BROADCAST = 0xFFFFFFFF
ROUTES_KEPT = 65536
"""Answers remembered; a comparison asks about the same few destinations again and again."""


@value
class Found:
    """A route that was found: its kind (``local``, ``unicast``, ``broadcast``, ``blackhole`` …), link and table."""

    kind: str
    link: str
    table: int
    source: int | None = None
    by: str = ""

    def __str__(self) -> str:
        where = f"table {_table_name(self.table)}{f', {self.by}' if self.by else ''}"
        return f"local ({where})" if self.kind == "local" else f"{self.kind} by {self.link} ({where})"


def _table_name(table: int) -> str:
    return {LOCAL_TABLE: "local", MAIN_TABLE: "main", DEFAULT_TABLE: "default"}.get(table, str(table))


class _Table:
    """Routes by length of prefix, the longest first; of equal ones the one that was added last wins nothing."""

    def __init__(self) -> None:
        self._by_prefix: dict[int, dict[int, Found]] = {}
        self._order: list[tuple[int, dict[int, Found]]] = []

    def add(self, block: Cidr, found: Found) -> None:
        self._by_prefix.setdefault(block.prefix, {}).setdefault(block.network, found)
        bits = BITS[block.family]
        self._order = [(bits - prefix, self._by_prefix[prefix]) for prefix in sorted(self._by_prefix, reverse=True)]

    def find(self, address: int) -> Found | None:
        for shift, networks in self._order:
            found = networks.get(address >> shift << shift)
            if found is not None:
                return found
        return None


class Routing:
    """One family's routing. A look-up answers None where there is no route."""

    def __init__(self, host: Host, family: Family) -> None:
        self.family = family
        self.links = {link.name: link for link in host.links}
        self.forwards = family in host.forwards
        self._tables: dict[int, _Table] = {}
        for link in host.links:
            for block, found in _of_link(link, family):
                self._table(found.table).add(block, found)
        for route in host.routes:
            if route.block.family == family:
                made = Found(route.kind, route.link, route.table, route.source, "")
                self._table(route.table).add(route.block, made)
        own = [
            Lookup(family, 0, LOCAL_TABLE),
            Lookup(family, 32766, MAIN_TABLE),
            Lookup(family, 32767, DEFAULT_TABLE),
        ]
        asked = [lookup for lookup in host.lookups if lookup.family == family]
        self._lookups = sorted([*own, *asked], key=lambda lookup: lookup.priority)
        self._known: dict[tuple[int, int, int, str, str, int], Found | None] = {}

    def _table(self, number: int) -> _Table:
        return self._tables.setdefault(number, _Table())

    def find(
        self, destination: int, source: int, mark: int, in_link: str, out_link: str = "", uid: int = 0
    ) -> Found | None:
        """The route of a packet; what the pod sends itself has ``lo`` as its in_link, as in the kernel's look-up."""
        key = (destination, source, mark, in_link, out_link, uid)
        if key in self._known:
            return self._known[key]
        found = self._find(*key)
        if len(self._known) >= ROUTES_KEPT:
            self._known.clear()
        self._known[key] = found
        return found

    def _find(self, destination: int, source: int, mark: int, in_link: str, out_link: str, uid: int) -> Found | None:
        for lookup in self._lookups:
            if not self._fits(lookup, destination, source, mark, in_link, out_link, uid):
                continue
            if lookup.kind:
                return Found(lookup.kind, "", 0, None, f"rule {lookup.priority}")
            table = self._tables.get(lookup.table)
            found = table.find(destination) if table is not None else None
            if found is None or found.kind == "throw" or (out_link and found.link != out_link):
                continue
            if lookup.mark is None:
                return found
            return Found(found.kind, found.link, found.table, found.source, f"by mark {lookup.mark}")
        return None

    def _fits(
        self, lookup: Lookup, destination: int, source: int, mark: int, in_link: str, out_link: str, uid: int
    ) -> bool:
        fits = (
            (not lookup.in_link or lookup.in_link == in_link)
            and (not lookup.out_link or lookup.out_link == out_link)
            and (lookup.mark is None or lookup.mark.matches(mark))
            and (lookup.uids is None or lookup.uids[0] <= uid <= lookup.uids[1])
            and (lookup.source is None or lookup.source.holds(self.family, source))
            and (lookup.destination is None or lookup.destination.holds(self.family, destination))
        )
        return fits != lookup.negated

    def kind_of(self, address: int, link: str = "") -> str:
        """What the local table says about an address, in addrtype's words (fib_frontend.c, __inet_dev_addr_type)."""
        if MULTICAST[self.family].holds(self.family, address):
            return "MULTICAST"
        if self.family == 4 and address in (0, LIMITED_BROADCAST):
            return "BROADCAST"
        if self.family == 6 and address == 0:
            return "UNSPEC"
        table = self._tables.get(LOCAL_TABLE)
        found = table.find(address) if table is not None else None
        if found is not None and (not link or found.link == link):
            return found.kind.upper()
        return "UNICAST"

    def is_of_types(self, address: int, types: tuple[str, ...], link: str) -> bool:
        return self.kind_of(address, link) in types

    def is_of_types6(self, address: int, types: tuple[str, ...], link: str) -> bool:
        """Of xt_addrtype.c, match_type6."""
        multicast = MULTICAST[6].holds(6, address)
        if ("MULTICAST" in types and not multicast) or ("UNICAST" in types and (multicast or address == 0)):
            return False
        if "UNSPEC" in types and address != 0:
            return False
        if not {"LOCAL", "ANYCAST", "UNREACHABLE"} & set(types):
            return True
        if link and "LOCAL" in types and self.kind_of(address, link) == "LOCAL":
            return True
        found = self.find(address, 0, 0, "lo", link)
        if found is None or found.kind == "unreachable":
            return "UNREACHABLE" in types
        return not link and found.kind == "local" and "LOCAL" in types

    def is_group(self, address: int) -> bool:
        return MULTICAST[self.family].holds(self.family, address)

    def is_loopback(self, address: int) -> bool:
        return LOOPBACK[self.family].holds(self.family, address)

    def is_local(self, address: int) -> bool:
        return self.kind_of(address) == "LOCAL"

    def source_of_call(self, destination: int, mark: int, uid: int) -> int | None:
        """The address that a socket gets which binds none: the route's, or the destination's own if that is here
        (ip_route_output_key_hash_rcu; ipv6_dev_get_saddr). So a call to 127.0.0.11 comes from 127.0.0.1."""
        found = self.find(destination, 0, mark, "lo", uid=uid)
        if found is None or found.source is not None:
            return found.source if found is not None else None
        return destination if found.kind == "local" else self.source_for(found.link, destination)

    def source_for(self, link: str, destination: int) -> int | None:
        """The address that masquerading takes on a link; on ``lo``, whose own is for this host only, another link's.

        IPv4 takes the one whose network has the destination, else the first (devinet.c, inet_select_addr); IPv6 the
        one that shares most bits with it, of those with its scope (addrconf.c, ipv6_dev_get_saddr): every link has an
        fe80:: of its own, and that shares more bits with fd00:: than 2001:db8:: does.
        """
        if self.family == 6 and self.is_local(destination):
            return destination
        own = self._own(link)
        others = [address for name in self.links for address in self._own(name)]
        if self.family == 6:
            near_only = _LINK_LOCAL6.holds(6, destination)
            ranked = sorted(
                own or others,
                key=lambda item: (
                    _LINK_LOCAL6.holds(6, item.number) != near_only,
                    (item.number ^ destination).bit_length(),
                ),
            )
        else:
            near = [item for item in own if network_of(4, item.number, item.prefix).holds(4, destination)]
            ranked = [*near, *own, *others]
        return ranked[0].number if ranked else None

    def _own(self, link: str) -> list[Address]:
        found = self.links.get(link)
        if found is None or link == "lo":
            return []
        return [address for address in found.addresses if address.family == self.family]

    def martian(self, source: int, destination: int) -> str:
        """Why no packet has such ends, or nothing (ip_route_input_slow; IPv4 only). Who has no address yet asks
        everybody for one, or the neighbours' groups."""
        asks = source == 0 and (destination == LIMITED_BROADCAST or destination >> 8 == NEIGHBOURS_GROUPS)
        if not asks and self.kind_of(source) in ("MULTICAST", "BROADCAST"):
            return "martian source: no packet comes from there"
        return "" if destination else "martian destination: 0.0.0.0"

    def to_many(self, destination: int, link: str, assumes: bool) -> Found | None:
        """The route of what comes in for a group or for everybody, which no table is asked about (route.c,
        ip_route_input_rcu; ip6_mc_input); its kind is ``unreachable`` for a group that nobody here has joined. Every
        host is in the first; where facts are ``assumed``, in each."""
        if self.family == 4 and destination == LIMITED_BROADCAST:
            return Found("broadcast", link, LOCAL_TABLE)
        if not MULTICAST[self.family].holds(self.family, destination):
            return None
        joined = assumes or destination == ALL_HOSTS[self.family]
        return Found("multicast" if joined else "unreachable", link, LOCAL_TABLE)

    def refuses_source(self, source: int, destination: int, mark: int, link: Link) -> str:
        """Why what came in by a link is dropped for its source, or nothing (fib_validate_source; IPv4 only)."""
        found = self.find(source, destination, mark if link.src_valid_mark else 0, "lo")
        if found is None or found.kind == "unreachable":
            return f"no route back to the source, and rp_filter={link.rp_filter}" if link.rp_filter else ""
        if found.kind != "unicast" and not (found.kind == "local" and link.accept_local):
            return f"martian source: an address that is {found.kind} here (table {_table_name(found.table)})"
        if found.link == link.name or (found.kind == "local" and link.name == "lo"):
            return ""
        if not any(address.family == 4 for address in link.addresses):
            return f"rp_filter={link.rp_filter}: {link.name} has no address" if link.rp_filter else ""
        if link.rp_filter == 1:
            return f"rp_filter=1: the way back to the source is by {found.link}"
        return ""


def _of_link(link: Link, family: Family) -> Iterator[tuple[Cidr, Found]]:
    """What the kernel adds to its tables for the addresses of a link (fib_add_ifaddr, addrconf.c)."""
    for address in link.addresses:
        if address.family != family:
            continue
        bits = BITS[family]
        network = network_of(family, address.number, address.prefix)
        yield Cidr(family, address.number, bits), Found("local", link.name, LOCAL_TABLE, address.number)
        if link.name == "lo":
            if family == 4 and address.prefix < bits:
                yield network, Found("local", "lo", LOCAL_TABLE, address.number)
            continue
        if address.prefix < bits:
            yield network, Found("unicast", link.name, MAIN_TABLE, address.number)
        if family == 4 and address.prefix < 31:
            yield Cidr(4, network.last, 32), Found("broadcast", link.name, LOCAL_TABLE, address.number)
    if family == 6 and link.name != "lo" and any(address.family == 6 for address in link.addresses):
        yield MULTICAST[6], Found("multicast", link.name, LOCAL_TABLE)


def is_loopback(family: Family, address: int) -> bool:
    return LOOPBACK[family].holds(family, address)
