"""One packet through the kernel: hooks, conntrack, translation, routing, the loop through ``lo``, and a socket.

Follows the kernel's order and not a summary of it (ip_input.c, ip_output.c, route.c, netfilter/nf_nat_proto.c):

- what the pod sends has a route before OUTPUT, and every OUTPUT rule sees that route's interface, also after mangle
  has changed the mark and another route was looked up, and after nat has changed the destination;
- what is sent to ``lo`` comes in again with its mark, its connection and its route: no new look-up, no check of its
  source, and nat has been asked already;
- a source in 127.0.0.0/8 leaves by another link only with ``route_localnet``, which is decided at every look-up.
"""

from __future__ import annotations

from meshnet.model.trace import Hop, Proxies, Trace
from meshnet.simulate import nat
from meshnet.simulate.chains import Rules
from meshnet.simulate.conntrack import Connections
from meshnet.simulate.matches import Place
from meshnet.simulate.packet import ACK, ICMP, NEW, NUMBERS, SYN, TCP, Packet, Sock
from meshnet.simulate.routing import Routing
from meshnet.simulate.sockets import Sockets
from meshnet.simulate.targets import ACCEPTED, DROPPED, REJECTED, Work

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from meshnet.model.cidr import Family
    from meshnet.model.flow import Disposition, Flow
    from meshnet.model.hooks import Stage
    from meshnet.model.host import Host
    from meshnet.model.ruleset import RuleSet
    from meshnet.model.trace import End
    from meshnet.simulate.routing import Found

REFUSING = frozenset(("blackhole", "unreachable", "prohibit"))


class Arrival:
    """How a packet ended, and the packet as it was then. ``sock`` is who got it, if anybody."""

    __slots__ = ("end", "packet", "reason", "sock")

    def __init__(self, packet: Packet, end: End, reason: str, sock: Sock | None = None) -> None:
        self.packet = packet
        self.end = end
        self.reason = reason
        self.sock = sock


class Pod:
    """A pod: its rules of both families, its routing and its sockets. Connections are remembered until ``forget``."""

    def __init__(self, rules: Iterable[RuleSet], host: Host, proxies: Proxies | None = None) -> None:
        self.host = host
        self.proxies = proxies or Proxies()
        self.sockets = self.make_sockets(host)
        self.connections = Connections()
        self._rules: dict[Family, Rules] = {}
        self._routing: dict[Family, Routing] = {4: self.make_routing(host, 4), 6: self.make_routing(host, 6)}
        self._works: dict[Family, Work] = {}
        for held in rules:
            routing = self._routing[held.family]
            work = Work(routing, self.sockets, self.connections)
            self._works[held.family] = work
            place = Place(host, held.family, routing, self.sockets)
            self.prepare(place, work)
            self._rules[held.family] = Rules(held, place, work)

    def make_routing(self, host: Host, family: Family) -> Routing:
        return Routing(host, family)

    def make_sockets(self, host: Host) -> Sockets:
        return Sockets(host)

    def prepare(self, place: Place, work: Work) -> None:
        """Before rules are made ready; for who watches what they ask."""

    def forget(self) -> None:
        """As if no packet had been seen yet."""
        self.sockets.forget()
        self.connections = Connections()
        for work in self._works.values():
            work.connections = self.connections

    def routing(self, family: Family) -> Routing:
        return self._routing[family]

    def walk(self, flow: Flow) -> Trace:
        """The trace of one packet that nothing preceded."""
        self.forget()
        arrival = self.arrive(flow)
        return self.trace(arrival)

    def arrive(self, flow: Flow) -> Arrival:
        """Send or receive a flow's packet, in the state that the namespace is in."""
        packet, sock = self.first(flow)
        return self.receive(packet, flow.interface) if sock is None else self.send(packet, sock)

    def first(self, flow: Flow) -> tuple[Packet, Sock | None]:
        """A flow's packet, and the socket that sends it if it is one of the pod's."""
        protocol = NUMBERS.get(flow.transport) or ICMP[flow.family]
        ported = flow.transport != "icmp"
        flags = 0 if protocol != TCP else SYN if flow.state == NEW else ACK
        source_port = flow.source_port if ported else 0
        packet = Packet(flow.family, protocol, flow.source, source_port, flow.destination, flow.port, flags, flow.mark)
        if flow.state != NEW:
            packet.wanted = flow.state
        if flow.way == "in":
            if flow.state == "ESTABLISHED" and ported:
                self._open(flow, protocol)
            return packet, None
        return packet, Sock(
            "",
            flow.family,
            protocol,
            flow.source,
            source_port,
            peer=flow.destination,
            peer_port=flow.port,
            transparent=flow.transparent,
            uid=flow.uid or 0,
            gid=flow.gid or 0,
            groups=flow.groups,
            mark=flow.mark,
        )

    def _open(self, flow: Flow, protocol: int) -> None:
        """A connection that is established has a socket, and it is the application's."""
        sock = Sock("application", flow.family, protocol, flow.destination, flow.port)
        sock.peer, sock.peer_port = flow.source, flow.source_port
        self.sockets.connect(sock)

    def send(self, packet: Packet, sock: Sock) -> Arrival:
        """What a socket of the pod sends."""
        packet.hook, packet.sender = "OUTPUT", sock
        routing = self._routing[packet.family]
        if not sock.transparent and packet.source and not routing.is_local(packet.source):
            return _unsent(packet, "the source is no address of the pod's, and the socket isn't transparent")
        refused = self._route_out(packet, sock, routing)
        if refused:
            return _unsent(packet, refused)
        rules = self._rules.get(packet.family)
        ended = self._output(packet, sock, rules, routing)
        if ended is None:
            ended = self._postrouting(packet, rules)
        if ended is not None:
            return ended
        found = packet.route
        assert found is not None
        if packet.out_link != "lo":
            return Arrival(packet, "left", f"leaves by {packet.out_link}")
        return self.receive(packet, "lo")

    def _route_out(self, packet: Packet, sock: Sock, routing: Routing) -> str:
        """Look up a route for what is sent, by its mark; why there is none, or nothing (ip_route_output_key)."""
        found = routing.find(packet.destination, packet.source, packet.mark, "lo", uid=sock.uid)
        if found is None or found.kind in REFUSING:
            packet.note(f"no route (mark {packet.mark:#x})")
            return "there is no route to the destination" if found is None else f"the route there is {found.kind}"
        link = "lo" if found.kind == "local" else found.link
        if packet.family == 4 and link != "lo" and routing.is_loopback(packet.source):
            settings = routing.links.get(link)
            if settings is None or not settings.route_localnet:
                packet.note(f"{found}: refused, the source is loopback and {link} has route_localnet=0")
                return f"a source in 127.0.0.0/8 may not leave by {link} while its route_localnet is 0"
        packet.route = found
        packet.out_link = packet.out_link or link
        packet.note(str(found))
        return ""

    def _output(self, packet: Packet, sock: Sock, rules: Rules | None, routing: Routing) -> Arrival | None:
        if rules is None:
            self.connections.enter(packet)
            return None
        seen_by_rules = packet.out_link
        if ended := self._enter(packet, rules, "untracked"):
            return ended
        self.connections.enter(packet)
        if ended := self._enter(packet, rules, "tracked"):
            return ended
        if rules.translates:
            destination = packet.destination
            if ended := self.translate(packet, rules):
                return ended
            if packet.destination != destination and (refused := self._route_again(packet, sock, routing)):
                return _dropped(packet, f"after its destination was changed: {refused}")
        ended = self._enter(packet, rules, "translated")
        assert packet.out_link == seen_by_rules
        return ended

    def _enter(self, packet: Packet, rules: Rules, stage: Stage) -> Arrival | None:
        """The base chains of one stage of a hook, each of which has to let the packet go on to the next."""
        for chain in rules.at(stage, packet.hook):
            mark = packet.mark
            verdict = chain.enter(packet)
            if verdict not in (None, ACCEPTED):
                return _stopped(packet, verdict)
            if chain.reroutes and packet.mark != mark and packet.sender is not None:
                refused = self._route_again(packet, packet.sender, self._routing[packet.family])
                if refused:
                    return _dropped(packet, f"after its mark was changed: {refused}")
        return None

    def _route_again(self, packet: Packet, sock: Sock, routing: Routing) -> str:
        """ip_route_me_harder. The rules of OUTPUT go on seeing the first route's interface."""
        return self._route_out(packet, sock, routing)

    def translate(self, packet: Packet, rules: Rules) -> Arrival | None:
        for chain in rules.at("nat", packet.hook):
            if not nat.wants_rules(packet):
                break
            verdict = chain.enter(packet)
            if verdict not in (None, ACCEPTED):
                return _stopped(packet, verdict)
        nat.apply(packet, self.connections)
        return None

    def _postrouting(self, packet: Packet, rules: Rules | None) -> Arrival | None:
        """POSTROUTING sees the interface by which the packet really leaves."""
        assert packet.route is not None
        packet.hook = "POSTROUTING"
        packet.out_link = "lo" if packet.route.kind == "local" else packet.route.link
        if rules is not None:
            if ended := self._enter(packet, rules, "tracked"):
                return ended
            if rules.translates and (ended := self.translate(packet, rules)):
                return ended
            if ended := self._enter(packet, rules, "translated"):
                return ended
        self.connections.confirm(packet)
        return None

    def receive(self, packet: Packet, link: str) -> Arrival:
        """What comes in by a link, ``lo`` included."""
        packet.hook, packet.in_link, packet.out_link, packet.sender = "PREROUTING", link, "", None
        routing = self._routing[packet.family]
        loops = routing.is_loopback
        if packet.family == 6 and link != "lo" and (loops(packet.source) or loops(packet.destination)):
            return _dropped(packet, "::1 has no business on a link (ip6_input.c)")
        if packet.family == 6 and routing.is_group(packet.source):
            return _dropped(packet, "no packet comes from a group (ip6_input.c)")
        rules = self._rules.get(packet.family)
        if rules is None:
            self.connections.enter(packet)
        elif ended := self._prerouting(packet, rules):
            return ended
        if packet.route is None:
            refused = self._route_in(packet, link, routing)
            if refused:
                return _dropped(packet, refused)
        assert packet.route is not None
        if packet.route.kind in ("local", "broadcast", "multicast"):
            return self._input(packet, rules)
        return self._forward(packet, rules, routing)

    def _prerouting(self, packet: Packet, rules: Rules) -> Arrival | None:
        if ended := self._enter(packet, rules, "untracked"):
            return ended
        self.connections.enter(packet)
        if ended := self._enter(packet, rules, "tracked"):
            return ended
        if rules.translates:
            destination = packet.destination
            if ended := self.translate(packet, rules):
                return ended
            if packet.destination != destination:
                packet.route = None
        return self._enter(packet, rules, "translated")

    def _route_in(self, packet: Packet, link: str, routing: Routing) -> str:
        """ip_route_input_slow: why the packet is dropped, or nothing. IPv6 asks nothing about the source."""
        settings = routing.links.get(link)
        if settings is None:
            return f"the namespace has no interface {link}"
        if packet.family == 4:
            localnet = settings.route_localnet or link == "lo"
            if martian := routing.martian(packet.source, packet.destination):
                return martian
            if not localnet and routing.is_loopback(packet.destination):
                return f"martian destination: 127.0.0.0/8 by {link} while its route_localnet is 0"
            if not localnet and routing.is_loopback(packet.source):
                return f"martian source: 127.0.0.0/8 by {link} while its route_localnet is 0"
        if packet.family == 6 and link != "lo" and routing.is_loopback(packet.destination):
            packet.note("no route")  # only by lo itself is there one (route.c, rt6_need_strict)
            return "there is no route to ::1 from a link"
        found = routing.to_many(packet.destination, link, self.host.assume)
        if found is not None and found.kind == "unreachable":
            return "nobody here has joined the group"
        found = found or routing.find(packet.destination, packet.source, packet.mark, link)
        if found is None or found.kind in REFUSING:
            packet.note(f"no route (mark {packet.mark:#x})")
            return "there is no route to the destination"
        packet.note(str(found))
        if found.kind == "unicast" and not routing.forwards:
            return "it isn't for the pod, and the pod doesn't forward"
        if packet.family == 4 and packet.source:
            refused = routing.refuses_source(packet.source, packet.destination, packet.mark, settings)
            if refused:
                return refused
        packet.route = found
        return ""

    def _input(self, packet: Packet, rules: Rules | None) -> Arrival:
        packet.hook = "INPUT"
        if rules is not None:
            if ended := self._enter(packet, rules, "tracked"):
                return ended
            if rules.translates and (ended := self.translate(packet, rules)):
                return ended
            if ended := self._enter(packet, rules, "translated"):
                return ended
        self.connections.confirm(packet)
        return self._deliver(packet)

    def _deliver(self, packet: Packet) -> Arrival:
        sock = packet.assigned
        port = packet.port
        if sock is not None:
            port = port if sock.peer is not None else sock.port
        else:
            ends = (packet.family, packet.protocol, packet.source, packet.source_port, packet.destination, port)
            sock = self.sockets.receiver(*ends)
        if packet.protocol == ICMP[packet.family]:
            return Arrival(packet, "delivered", "reaches the pod", sock)
        if sock is None:
            return Arrival(packet, "delivered", f"reaches port {port}, where nobody listens")
        return Arrival(packet, "delivered", f"reaches port {port}{f' of {sock.name}' if sock.name else ''}", sock)

    def _forward(self, packet: Packet, rules: Rules | None, routing: Routing) -> Arrival:
        found: Found | None = packet.route
        assert found is not None
        if not routing.forwards:
            return _dropped(packet, "it isn't for the pod, and the pod doesn't forward")
        if packet.assigned is not None:
            return _dropped(packet, "TPROXY gave it to a socket, and its mark leads to no local route (ip_forward.c)")
        packet.hook, packet.out_link = "FORWARD", found.link
        if rules is not None and (ended := self._enter(packet, rules, "tracked")):
            return ended
        ended = self._postrouting(packet, rules)
        return ended or Arrival(packet, "forwarded", f"is forwarded by {found.link}")

    def trace(self, arrival: Arrival) -> Trace:
        """The value that is left of an arrival."""
        packet, sock = arrival.packet, arrival.sock
        port = packet.port
        if arrival.end == "delivered" and packet.assigned is not None and packet.assigned.peer is None:
            port = packet.assigned.port
        disposition = self._disposition(arrival, port)
        return Trace(
            packet.family,
            tuple(Hop(*hop) for hop in packet.hops),
            arrival.end,
            arrival.reason,
            disposition,
            packet.source,
            packet.source_port,
            packet.destination,
            port,
            packet.mark,
            packet.out_link if arrival.end in ("left", "forwarded") else "",
            sock.name if sock is not None else "",
            packet.captured,
        )

    def _disposition(self, arrival: Arrival, port: int) -> Disposition:
        match arrival.end:
            case "undecided":
                return "undecided"
            case "rejected":
                return "rejected"
            case "dropped" | "unsent":
                return "dropped"
            case "delivered":
                return self.proxies.name(port) if arrival.packet.captured else "direct"
            case _:
                return "captured" if arrival.packet.captured else "direct"


def _dropped(packet: Packet, why: str) -> Arrival:
    return Arrival(packet, "dropped", f"is dropped: {why}")


def _unsent(packet: Packet, why: str) -> Arrival:
    return Arrival(packet, "unsent", f"can't be sent: {why}")


def _stopped(packet: Packet, verdict: str | None) -> Arrival:
    """The end by a rule or a policy, which is the last hop."""
    _, table, chain, number, _, said, _ = packet.hops[-1]
    where = f"rule {number} of {table} {chain}" if number else f"the policy of {table} {chain}"
    if verdict == DROPPED:
        return Arrival(packet, "dropped", f"is dropped by {where}")
    if verdict == REJECTED:
        return Arrival(packet, "rejected", f"is rejected by {where}")
    return Arrival(packet, "undecided", f"is undecided at {where}: {said.removeprefix('undecided: ')}")
