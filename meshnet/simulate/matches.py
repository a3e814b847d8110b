"""Conditions to functions of a packet: true, false, or UNSURE where nobody knows what the kernel would say.

Each is written once for a rule and called for every packet, so what can be decided beforehand is decided there.
"""

from __future__ import annotations

from bisect import bisect_right

from meshnet.model.ranges import merged
from meshnet.model.rule import (
    AddressesAre,
    AddressIs,
    AddressType,
    AnyOf,
    Comment,
    ConnectionIs,
    ConnectionMark,
    FlagsAre,
    Fragment,
    IcmpIs,
    InSet,
    InterfaceIs,
    OwnerIs,
    PacketMark,
    PortIs,
    PortsAre,
    ProtocolIs,
    SenderIs,
    SocketFound,
    UnknownMatch,
)
from meshnet.model.value import assert_never
from meshnet.simulate.packet import ESTABLISHED, INVALID, TCP, UDP

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from meshnet.model.cidr import Cidr, Family
    from meshnet.model.host import AddressSet, Host
    from meshnet.model.rule import Condition, Ends, IdSpan
    from meshnet.simulate.packet import Packet, Test
    from meshnet.simulate.routing import Routing
    from meshnet.simulate.sockets import Sockets


class Unsure:
    """True enough for a rule to be looked at, and recognised there. (bool of it is True.)"""


UNSURE = Unsure()


def _unsure(_: Packet) -> Unsure:
    return UNSURE


def _never(_: Packet) -> bool:
    return False


PORTED = frozenset((TCP, UDP, 33, 132, 136))


class Place:
    """What conditions ask about besides the packet."""

    def __init__(self, host: Host, family: Family, routing: Routing, sockets: Sockets) -> None:
        self.family = family
        self.routing = routing
        self.sockets = sockets
        self.sets = {item.name: item for item in host.sets}
        self.watch: Callable[[Condition, Test], Test] | None = None
        """Wraps each condition's function; for who wants to know what was asked (``compare``)."""


def test_of(conditions: Iterable[Condition], place: Place) -> Test | None:
    """One function for a whole rule; None if it fits every packet. A doubtful condition is asked after all others."""
    sure: list[Test] = []
    doubtful: list[Test] = []
    for item in conditions:
        test = _asked(item, place)
        if test is not None:
            (doubtful if isinstance(item, (InSet, UnknownMatch)) else sure).append(test)
    return _all_of([*sure, *doubtful])


def _asked(item: Condition, place: Place) -> Test | None:
    test = _test(item, place)
    return test if test is None or place.watch is None else place.watch(item, test)


def _all_of(tests: list[Test]) -> Test | None:
    match tests:
        case []:
            return None
        case [one]:
            return one
        case [one, two]:
            return lambda p: one(p) and two(p)
        case [one, two, three]:
            return lambda p: one(p) and two(p) and three(p)
        case [one, two, three, *rest]:
            other = _all_of(rest)
            return lambda p: one(p) and two(p) and three(p) and other(p)  # type: ignore[misc]
    return None


def _test(item: Condition, place: Place) -> Test | None:  # noqa: C901 (one case for one condition is the point)
    match item:
        case ProtocolIs(number, negated):
            return (lambda p: p.protocol != number) if negated else (lambda p: p.protocol == number)
        case AddressIs(end, network, mask, negated):
            return _address(end == "source", network, mask, negated)
        case AddressesAre(end, spans, negated):
            return _addresses(end == "source", spans, negated)
        case InterfaceIs(way, name, negated):
            return _interface(way == "in", name, negated)
        case PortIs(end, first, last, negated):
            return _port(end == "source", first, last, negated)
        case PortsAre(end, spans, negated):
            return _ports(end, spans, negated)
        case FlagsAre(mask, wanted, negated):
            return lambda p: p.protocol == TCP and (p.flags & mask == wanted) != negated
        case IcmpIs(number, first, last, negated):
            return _icmp(number, first, last, negated, 1 if place.family == 4 else 58)
        case OwnerIs():
            return _owner(item)
        case SenderIs(kind, spans, negated):
            return _sender(kind == "uid", spans, negated)
        case PacketMark(number, mask, negated):
            return (lambda p: p.mark & mask != number) if negated else (lambda p: p.mark & mask == number)
        case ConnectionMark(number, mask, negated):
            return lambda p: p.connection is not None and (p.connection.mark & mask == number) != negated
        case ConnectionIs():
            return _connection(item)
        case SocketFound():
            return _socket(item, place)
        case AddressType():
            return _address_type(item, place)
        case InSet(name, sides, negated):
            return _in_set(place.sets.get(name), sides, negated)
        case Fragment(negated):
            return None if negated else _never
        case AnyOf(options, negated):
            return _any_of(options, negated, place)
        case Comment():
            return None
        case UnknownMatch():
            return _unsure
        case _:
            assert_never(item)


def _address(source: bool, network: int, mask: int, negated: bool) -> Test:
    if source:
        return (lambda p: p.source & mask != network) if negated else (lambda p: p.source & mask == network)
    return (lambda p: p.destination & mask != network) if negated else (lambda p: p.destination & mask == network)


def _addresses(source: bool, spans: tuple[tuple[int, int], ...], negated: bool) -> Test:
    among = spanning(spans)
    if source:
        return lambda p: among(p.source) != negated
    return lambda p: among(p.destination) != negated


def _any_of(options: tuple[Condition, ...], negated: bool, place: Place) -> Test:
    tests = [test for option in options if (test := _asked(option, place)) is not None]
    return lambda p: any(test(p) for test in tests) != negated


def _interface(way_in: bool, name: str, negated: bool) -> Test:
    """A hook without that interface compares with an empty name (ip_tables.c, ip_packet_match)."""
    if name.endswith("+"):
        start = name[:-1]
        if way_in:
            return lambda p: p.in_link.startswith(start) != negated
        return lambda p: p.out_link.startswith(start) != negated
    if way_in:
        return (lambda p: p.in_link != name) if negated else (lambda p: p.in_link == name)
    return (lambda p: p.out_link != name) if negated else (lambda p: p.out_link == name)


def _port(source: bool, first: int, last: int, negated: bool) -> Test:
    if first == last and not negated:
        return (lambda p: p.source_port == first) if source else (lambda p: p.port == first)
    if source:
        return lambda p: (first <= p.source_port <= last) != negated
    return lambda p: (first <= p.port <= last) != negated


def _ports(end: Ends, spans: tuple[tuple[int, int], ...], negated: bool) -> Test:
    among = spanning(spans)
    if end == "source":
        return lambda p: p.protocol in PORTED and among(p.source_port) != negated
    if end == "destination":
        return lambda p: p.protocol in PORTED and among(p.port) != negated
    return lambda p: p.protocol in PORTED and (among(p.source_port) or among(p.port)) != negated


def spanning(spans: tuple[tuple[int, int], ...]) -> Callable[[int], bool]:
    """Whether a number lies in any of the spans."""
    if len(spans) == 1:
        low, high = spans[0]
        return lambda number: low <= number <= high
    if len(spans) <= 8:
        return lambda number: any(first <= number <= last for first, last in spans)
    apart = merged(spans)
    starts = [first for first, _ in apart]
    ends = [last for _, last in apart]

    def inside(number: int) -> bool:
        place = bisect_right(starts, number)
        return place > 0 and number <= ends[place - 1]

    return inside


def _icmp(number: int | None, first: int, last: int, negated: bool, protocol: int) -> Test:
    """A flow's ICMP type is its port; its code is 0."""
    if number is None:
        return lambda p: p.protocol == protocol and not negated
    return lambda p: p.protocol == protocol and (p.port == number and first <= 0 <= last) != negated


def _owner(item: OwnerIs) -> Test:
    """xt_owner.c: what has no socket fits only if everything that is asked is negated."""
    uid, gid, groups, socket = item.uid, item.gid, item.groups, item.socket
    without = all(ids is None or ids.negated for ids in (uid, gid)) and socket is not True and not groups

    def test(p: Packet) -> bool:
        sock = p.sender
        if sock is None:
            return without
        if socket is False:
            return False
        if uid is not None and not _among(uid, sock.uid):
            return False
        if gid is None:
            return True
        inside = gid.first <= sock.gid <= gid.last
        if not inside and groups:
            inside = any(gid.first <= group <= gid.last for group in sock.groups)
        return inside != gid.negated

    return test


def _sender(uid: bool, spans: tuple[tuple[int, int], ...], negated: bool) -> Test:
    """nft_meta_get_eval_skugid: without a socket the rule ends, whatever it is compared with. What TPROXY gave to a
    socket has that one's owner."""
    among = spanning(spans)

    def test(p: Packet) -> bool:
        sock = p.sender or p.assigned
        return sock is not None and among(sock.uid if uid else sock.gid) != negated

    return test


def _among(ids: IdSpan, number: int) -> bool:
    return (ids.first <= number <= ids.last) != ids.negated


def _connection(item: ConnectionIs) -> Test:
    """xt_conntrack.c; ``-m state`` knows neither SNAT nor DNAT nor directions (xt_state.c)."""
    states, negated = frozenset(item.states), item.states_negated
    reply = item.direction == "REPLY"

    def test(p: Packet) -> bool:
        connection = p.connection
        if connection is None and item.tracked:
            return False
        if states:
            found = (p.state or INVALID) in states
            if connection is not None and not found:
                found = ("SNAT" in states and connection.source_translated) or (
                    "DNAT" in states and connection.destination_translated
                )
            if found == negated:
                return False
        if not item.direction:
            return True
        if connection is None:  # every question but that for the state is false then, unless it is asked besides
            return bool(states)
        return p.reply == reply

    return test


def _socket(item: SocketFound, place: Place) -> Test:
    """xt_socket.c; a listener on the wildcard is no socket of this very packet."""
    sockets, family = place.sockets, place.family

    def test(p: Packet) -> bool:
        sock = p.assigned
        if sock is None:
            address, port = p.destination, p.port
            known = p.connection
            if known is not None and p.state == ESTABLISHED and p.reply and known.source_done:
                address, port = known.original[1], known.original[2]
            sock = sockets.owner(family, p.protocol, p.source, p.source_port, address, port)
        if sock is None or (sock.address is None and not item.nowildcard):
            return False
        if item.transparent and not sock.transparent:
            return False
        if item.restore_mark:
            p.mark = sock.mark
        return True

    return test


def _address_type(item: AddressType, place: Place) -> Test:
    """xt_addrtype.c. IPv4 asks the local table for the one type that an address has. In IPv6 every type that is listed
    has to hold, but for those of a route, of which one is enough; and an own address is a unicast address too."""
    is_of = place.routing.is_of_types6 if place.family == 6 else place.routing.is_of_types

    def test(p: Packet) -> bool:
        link = p.in_link if item.limit == "in" else p.out_link if item.limit == "out" else ""
        if item.source and is_of(p.source, item.source, link) == item.source_negated:
            return False
        return not item.destination or is_of(p.destination, item.destination, link) != item.destination_negated

    return test


def _in_set(known: AddressSet | None, sides: tuple[str, ...], negated: bool) -> Test:
    if known is None or not set(known.dimensions) <= {"ip", "net", "port"}:
        return _unsure
    pairs = tuple(zip(known.dimensions, sides, strict=False))
    if len(pairs) < len(known.dimensions):
        return _unsure

    if known.dimensions in (("net",), ("ip",)):
        return _in_blocks(known, sides[0] == "src", negated)
    if known.dimensions == ("port",):
        spans = tuple(member.ports for member in known.members if member.ports is not None)
        among = spanning(spans)
        if sides[0] == "src":
            return lambda p: (p.protocol in PORTED and among(p.source_port)) != negated
        return lambda p: (p.protocol in PORTED and among(p.port)) != negated

    def holds(p: Packet) -> bool:
        for member in known.members:
            for dimension, side in pairs:
                if dimension == "port":
                    port = p.source_port if side == "src" else p.port
                    span = member.ports
                    there = p.protocol in PORTED and member.protocol in (None, p.protocol)
                    fits = span is None or (there and span[0] <= port <= span[1])
                else:
                    address = p.source if side == "src" else p.destination
                    fits = member.block is None or member.block.holds(p.family, address)
                if not fits:
                    break
            else:
                return True
        return False

    return lambda p: holds(p) != negated


def _in_blocks(known: AddressSet, source: bool, negated: bool) -> Test:
    """A set of nothing but blocks: their spans in order, and one look into the middle of them."""
    inside = within(member.block for member in known.members if member.block is not None)
    if source:
        return lambda p: inside(p.source) != negated
    return lambda p: inside(p.destination) != negated


def within(blocks: Iterable[Cidr]) -> Callable[[int], bool]:
    """Whether an address lies in any of the blocks, of one family."""
    return spanning(tuple((block.network, block.last) for block in blocks))
