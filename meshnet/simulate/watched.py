"""A pod that notes what is asked of a packet on its way, so that all packets that answer alike are walked once."""

from __future__ import annotations

from meshnet.model.rule import (
    AddressesAre,
    AddressIs,
    AddressType,
    ConnectionIs,
    ConnectionMark,
    FlagsAre,
    IcmpIs,
    InSet,
    InterfaceIs,
    OwnerIs,
    PacketMark,
    PortIs,
    PortsAre,
    ProtocolIs,
    SenderIs,
    UnknownMatch,
)
from meshnet.simulate import matches
from meshnet.simulate.packet import Packet, Sock
from meshnet.simulate.routing import Routing
from meshnet.simulate.sockets import Sockets
from meshnet.simulate.space import NO_SOCKET, TRANSPARENT_SOCKET
from meshnet.simulate.walk import Pod
from meshnet.simulate.watch import FIRST, is_new, is_tracked

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from meshnet.model.cidr import Family
    from meshnet.model.host import Host
    from meshnet.model.rule import Condition, IdSpan, Translate
    from meshnet.model.ruleset import RuleSet
    from meshnet.simulate.chains import Rules
    from meshnet.simulate.matches import Place
    from meshnet.simulate.packet import Test
    from meshnet.simulate.routing import Found
    from meshnet.simulate.targets import Work
    from meshnet.simulate.walk import Arrival
    from meshnet.simulate.watch import Watch


class WatchedRouting(Routing):
    """Notes which addresses and marks were looked up."""

    def __init__(self, host: Host, family: Family, watch: Watch) -> None:
        super().__init__(host, family)
        self._watch = watch
        marks = [lookup.mark for lookup in host.lookups if lookup.family == family]
        self._marks = [mark for mark in marks if mark is not None]
        self._here: tuple[bool, ...] = ()

    def _leads_to(self, mark: int) -> bool:
        """Whether a mark is led to the same tables as the one that was looked up last."""
        return tuple(item.matches(mark) for item in self._marks) == self._here

    def _note(self, address: int, key: object, answer: Callable[[int], Any]) -> None:
        """Only of an address that the packet was sent with: what a translation wrote is the same for all."""
        for end in ("source", "destination"):
            if self._watch.chosen.get(end) == address:
                here = answer(address)
                self._watch.asked(end, (key, here), _same(answer, here))

    def find(
        self, destination: int, source: int, mark: int, in_link: str, out_link: str = "", uid: int = 0
    ) -> Found | None:
        find = super().find
        if self._marks:
            self._here = tuple(item.matches(mark) for item in self._marks)
            self._watch.mark_asked(mark, ("route", self._here), self._leads_to)
        key = ("route", mark, in_link, out_link)
        self._note(destination, key, lambda value: find(value, 0, mark, in_link, out_link))
        return find(destination, source, mark, in_link, out_link, uid)

    def kind_of(self, address: int, link: str = "") -> str:
        kind = super().kind_of
        self._note(address, ("kind", link), lambda value: kind(value, link))
        return kind(address, link)

    def martian(self, source: int, destination: int) -> str:
        martian = super().martian
        self._note(source, ("martian source", destination), lambda value: martian(value, destination))
        self._note(destination, ("martian destination", source), lambda value: martian(source, value))
        return martian(source, destination)

    def to_many(self, destination: int, link: str, assumes: bool) -> Found | None:
        many = super().to_many
        self._note(destination, "many", lambda value: many(value, link, assumes))
        return many(destination, link, assumes)

    def is_group(self, address: int) -> bool:
        group = super().is_group
        self._note(address, "group", group)
        return group(address)

    def is_loopback(self, address: int) -> bool:
        loops = super().is_loopback
        self._note(address, "loopback", loops)
        return loops(address)


class WatchedSockets(Sockets):
    """Whether a connected socket waits for the packet is a question like any other."""

    def __init__(self, host: Host, watch: Watch) -> None:
        super().__init__(host)
        self._watch = watch

    def owner(self, family: Family, protocol: int, peer: int, peer_port: int, address: int, port: int) -> Sock | None:
        self._watch.seen("socket")
        kind = self._watch.chosen.get("socket", NO_SOCKET)
        if kind == NO_SOCKET:
            return None
        transparent = kind == TRANSPARENT_SOCKET
        return Sock("", family, protocol, address, port, peer=peer, peer_port=peer_port, transparent=transparent)

    def receiver(
        self, family: Family, protocol: int, peer: int, peer_port: int, address: int, port: int
    ) -> Sock | None:
        del peer, peer_port, address
        return self.assumed(family, protocol, port)

    def for_tproxy(
        self, family: Family, protocol: int, peer: int, peer_port: int, address: int, port: int, on: tuple[int, int]
    ) -> Sock | None:
        found = self.owner(family, protocol, peer, peer_port, address, port)
        if found is not None:
            return found
        self._watch.seen("listener")
        listens = self._watch.chosen.get("listener", True)
        return Sock("", family, protocol, None, on[1], transparent=True) if listens else None


class WatchedPod(Pod):
    """A pod for one family whose every question is noted."""

    def __init__(self, rules: Iterable[RuleSet], host: Host, watch: Watch) -> None:
        self._watch = watch
        self._icmp_number = 1
        held = tuple(rules)
        if any(item.family == 6 for item in held):
            self._icmp_number = 58
        super().__init__(held, host)

    def make_routing(self, host: Host, family: Family) -> Routing:
        return WatchedRouting(host, family, self._watch)

    def make_sockets(self, host: Host) -> Sockets:
        return WatchedSockets(host, self._watch)

    def prepare(self, place: Place, work: Work) -> None:
        place.watch = self._wrap
        work.watch = self._translating

    def translate(self, packet: Packet, rules: Rules) -> Arrival | None:
        self._watch.asked("state", "nat", is_new)
        return super().translate(packet, rules)

    def _translating(self, packet: Packet, action: Translate) -> None:
        """A range of ports keeps a port that lies in it."""
        ports = action.ports
        if ports is not None and ports[0] != ports[1] and packet.port == self._watch.chosen["port"]:
            first, last = ports
            self._watch.asked("port", ("range", first, last), lambda port: first <= port <= last)

    def _wrap(self, item: Condition, test: Test) -> Test:  # noqa: C901 (one case for each condition)
        watch = self._watch
        match item:
            case ProtocolIs(number, _):
                return _noted(test, lambda _: watch.asked("protocol", number, lambda value: bool(value == number)))
            case AddressIs(end, network, mask, _):
                return _noted(test, self._of(end, (network, mask), lambda value: bool(value & mask == network)))
            case AddressesAre(end, spans, _):
                return _noted(test, self._of(end, spans, matches.spanning(spans)))
            case SenderIs(kind, spans, _):
                return self._sender(kind, spans, test)
            case InterfaceIs(way, _, _) if way == "in":
                return _noted(test, self._in_link(item))
            case PortIs(end, first, last, _):
                return _noted(test, self._of(_port(end), (first, last), lambda value: first <= value <= last))
            case PortsAre(end, spans, _):
                return self._ports(end, spans, test)
            case FlagsAre():
                return _noted(test, lambda _: watch.asked("state", "first", lambda state: bool(state == FIRST)))
            case ConnectionIs():
                return _noted(test, self._state(item))
            case IcmpIs():
                return self._icmp(item, test)
            case OwnerIs(uid, gid, groups, _):
                return self._owner(uid, gid, groups, test)
            case PacketMark(number, mask, _):
                return _noted(
                    test, lambda p: watch.mark_asked(p.mark, (number, mask), lambda mark: mark & mask == number)
                )
            case ConnectionMark():
                return _noted(test, lambda _: watch.connection_mark_seen())
            case InSet():
                return self._in_set(item, test)
            case UnknownMatch(words):
                return self._opaque(words, negated=False)
            case AddressType():
                return test  # asks the routing, which notes it
            case _:
                return test

    def _in_set(self, item: InSet, test: Test) -> Test:
        """A set of blocks, or of ports, is asked of one field. One that isn't known, or holds both, is opaque."""
        known = next((found for found in self.host.sets if found.name == item.name), None)
        end = "source" if item.sides[0] == "src" else "destination"
        if known is not None and known.dimensions == ("net",):
            inside = matches.within(member.block for member in known.members if member.block is not None)
            return _noted(test, self._of(end, item.name, inside))
        if known is not None and known.dimensions == ("port",):
            spans = tuple(member.ports for member in known.members if member.ports is not None)
            among, watch = self._of(_port(end), item.name, matches.spanning(spans)), self._watch

            def note(p: Packet) -> None:
                watch.asked("protocol", "ported", matches.PORTED.__contains__)
                if p.protocol in matches.PORTED:
                    among(p)

            return _noted(test, note)
        return self._opaque(("set", item.name, *item.sides), item.negated)

    def _of(self, field: str, key: object, question: Callable[[int], bool]) -> Callable[[Packet], object]:
        """Noted only while the field is as it was sent."""
        watch = self._watch

        def note(p: Packet) -> None:
            if getattr(p, field) == watch.chosen.get(field):
                watch.asked(field, key, question)

        return note

    def _state(self, item: ConnectionIs) -> Callable[[Packet], object]:
        watch = self._watch
        translations = {"DNAT", "SNAT"} & set(item.states)

        def note(p: Packet) -> None:
            if translations:
                watch.seen("state")
            elif p.state == watch.chosen["state"][0]:  # else a rule decided it, or conntrack hasn't been asked yet
                watch.asked("state", item.states, lambda state: state[0] in item.states)
                if item.direction:
                    watch.asked("state", "tracked", is_tracked)
                    watch.asked("state", "reply", lambda state: bool(state[1]))

        return note

    def _in_link(self, item: InterfaceIs) -> Callable[[Packet], object]:
        fits = matches._interface(True, item.name, False)
        watch = self._watch

        class Named:
            def __init__(self, name: str) -> None:
                self.in_link = name

        def note(p: Packet) -> None:
            if p.in_link == watch.chosen.get("in_link"):
                watch.asked("in_link", item.name, lambda name: bool(fits(Named(name))))  # type: ignore[arg-type]

        return note

    def _ports(self, end: str, spans: tuple[tuple[int, int], ...], test: Test) -> Test:
        among = matches.spanning(spans)
        fields = ("source_port", "port") if end == "either" else (_port(end),)
        notes = [self._of(field, spans, among) for field in fields]
        return _noted(test, lambda p: [note(p) for note in notes])

    def _icmp(self, item: IcmpIs, test: Test) -> Test:
        watch, number, protocol = self._watch, item.number, self._icmp_number

        def note(_: Packet) -> None:
            watch.asked("protocol", protocol, lambda value: bool(value == protocol))
            if number is not None:
                watch.asked("port", (number, number), lambda port: bool(port == number))

        return _noted(test, note)

    def _owner(self, uid: IdSpan | None, gid: IdSpan | None, groups: bool, test: Test) -> Test:
        watch = self._watch

        def note(p: Packet) -> None:
            if p.sender is None:
                return
            if uid is not None:
                watch.asked("uid", (uid.first, uid.last), lambda number: uid.first <= number <= uid.last)
            if gid is not None:
                watch.asked("gid", (gid.first, gid.last), lambda number: gid.first <= number <= gid.last)
            if groups:
                watch.seen("groups")

        return _noted(test, note)

    def _sender(self, kind: str, spans: tuple[tuple[int, int], ...], test: Test) -> Test:
        watch, among = self._watch, matches.spanning(spans)

        def note(p: Packet) -> None:
            if p.sender is not None:
                watch.asked(kind, spans, among)

        return _noted(test, note)

    def _opaque(self, words: tuple[str, ...], negated: bool) -> Test:
        """Nobody knows what it says, but it says the same to the same packet in either set."""
        watch, name = self._watch, " ".join(words)

        def test(_: Packet) -> bool:
            watch.seen(name)
            return bool(watch.chosen[name]) != negated

        return test


def _same(answer: Callable[[int], Any], here: Any) -> Callable[[int], bool]:
    return lambda value: bool(answer(value) == here)


def _port(end: str) -> str:
    return "source_port" if end == "source" else "port"


def _noted(test: Test, note: Callable[[Packet], object]) -> Test:
    def noted(p: Packet) -> Any:
        note(p)
        return test(p)

    return noted
