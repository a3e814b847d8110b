"""Verify: send every probe, watch where each lands, and hold that against what the spec's meaning predicts."""

from __future__ import annotations

import selectors
import socket
import time

from meshnet.model.value import value
from meshnet.probe import craft
from meshnet.probe.flows import Probe, is_listed, probes
from meshnet.probe.ground import Ground
from meshnet.probe.launch import Launched
from meshnet.probe.listen import BY_SIZE, Listeners, posts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from meshnet.kernel.netns import Namespace
    from meshnet.model.cidr import Family
    from meshnet.model.program import Transport
    from meshnet.model.spec import Spec
    from meshnet.probe.craft import Segment
    from meshnet.probe.ground import Cable

PATIENCE = 1.6
"""Seconds of looking without anything new until a packet that nobody has seen counts as lost: one retransmission of a
SYN (RFC 6298) and some."""

LOOK = 0.05
"""Seconds that one look lasts at most. On a machine that leaves no time to this process, a look of seconds has seen no
more than one of these; counted in full, all that was under way would be told as dropped."""

QUIET = 0.25
"""Seconds without anything new after which only silence is left to wait for, when all other probes have landed."""

LOWEST, HIGHEST, A_SECOND = 20000, 65000, 360
"""Source ports of probes, and how fast they are walked through. The conntrack entries of a run stay for two minutes
(nf_conntrack_tcp_timeout_time_wait), and a second run that met them would be translated as the first one was, by
rules that may be gone; in two minutes the walk has not come round.
"""

ETH_P_ALL = 3


@value
class Seen:
    """One probe and where it landed."""

    probe: Probe
    seen: str

    @property
    def ok(self) -> bool:
        return self.seen == self.probe.predicted.disposition


@value
class Verified:
    seen: tuple[Seen, ...]
    absent: tuple[tuple[str, str], ...]

    @property
    def ok(self) -> bool:
        return all(item.ok for item in self.seen)


def verify(
    pod: Namespace,
    spec: Spec,
    families: tuple[Family, ...],
    *,
    peer: Namespace | None = None,
    progress: Callable[[int, int], None] = lambda *_: None,
) -> Verified:
    """Probe a namespace for a settled spec; ``progress`` hears how many of how many probes have landed.

    UnsupportedError without scapy, BusyError when a port that a listener needs is taken, UsageError for a peer that
    is no neighbour. Leaves nothing behind.
    """
    craft.check()
    with Ground(pod, spec, families, peer) as ground:
        wanted = probes(spec, ground.scene)
        ground.lead(_leads(wanted, ground))
        application = _application(wanted)
        with pod.entered():
            listeners = Listeners(post for family in families for post in posts(spec, family, application))
        with listeners:
            run = Run(ground, listeners, wanted, spec)
            try:
                run.send()
                run.watch(progress)
            finally:
                run.close()
            return Verified(run.results(), ground.scene.absent)


def _leads(wanted: tuple[Probe, ...], ground: Ground) -> Iterator[tuple[Family, int, int]]:
    """The addresses that the pod must send to by a lane: outside ones, and sources that aren't the peer's own."""
    local = {(family, lane.pod[family]) for lane in ground.scene.lanes for family in ground.families}
    near = {(family, lane.peer[family]) for lane in ground.scene.lanes for family in ground.families}
    for probe in wanted:
        flow = probe.flow
        address = flow.source if flow.way == "in" else flow.destination
        if (flow.family, address) in local | near or (flow.way == "out" and flow.interface == "lo"):
            continue
        yield flow.family, address, probe.lane


def _application(wanted: tuple[Probe, ...]) -> tuple[tuple[Transport, int], ...]:
    """Where the application listens: on every port at which a flow can reach the pod itself."""
    reached = [probe.flow for probe in wanted if probe.flow.way == "in" or probe.flow.interface == "lo"]
    return tuple(dict.fromkeys((flow.transport, flow.port) for flow in reached if flow.transport != "icmp"))


def source_ports(now: float, taken: set[int]) -> Iterator[int]:
    """Ports for probes from a moment on (in seconds), without those that somebody listens on.

    Each probe has its own: left to the kernel, two sockets with different source addresses may get the same one, and
    the answer to one would count for the other.
    """
    start = int(now * A_SECOND)
    walk = (LOWEST + (start + step) % (HIGHEST - LOWEST) for step in range(HIGHEST - LOWEST))
    return (port for port in walk if port not in taken)


class Run:
    """All probes under way at once: each is known by its own source port."""

    def __init__(self, ground: Ground, listeners: Listeners, wanted: tuple[Probe, ...], spec: Spec) -> None:
        self._ground, self._listeners, self._wanted, self._spec = ground, listeners, wanted, spec
        self._seen: dict[int, str] = {}
        self._launched: dict[int, Launched] = {}
        self._by_port: dict[tuple[str, int, int], int] = {}
        self._selector = selectors.DefaultSelector()
        self._wires: dict[socket.socket, Cable] = {}
        self._ports = source_ports(time.time(), {post.port for post in listeners.servers.values()})

    def send(self) -> None:
        with self._ground.peer.entered():
            for cable in self._ground.cables:
                wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_NONBLOCK, socket.htons(ETH_P_ALL))
                wire.bind((cable.far_link, ETH_P_ALL))
                self._wires[wire] = cable
                self._selector.register(wire, selectors.EVENT_READ, self._on_frame)
        for server in self._listeners.servers:
            self._selector.register(server, selectors.EVENT_READ, self._on_server)
        wires = {cable.lane.interface: wire for wire, cable in self._wires.items()}
        for number, probe in enumerate(self._wanted):
            if probe.flow.way == "in":
                self._send_in(number, probe, wires[probe.flow.interface])
        with self._ground.pod.entered():
            for number, probe in enumerate(self._wanted):
                if probe.flow.way == "out":
                    self._send_out(number, probe)

    def _send_in(self, number: int, probe: Probe, wire: socket.socket) -> None:
        cable, port = self._wires[wire], next(self._ports)
        self._by_port[probe.flow.transport, probe.flow.family, port] = number
        wire.send(craft.first_packet(probe.flow, port, (cable.peer_mac, cable.pod_mac)))

    def _send_out(self, number: int, probe: Probe) -> None:
        port = next(self._ports)
        launched = Launched(probe.flow, port)
        self._launched[number] = launched
        if launched.problem:
            self._seen[number] = f"unsent: {launched.problem}"
            return
        self._by_port[probe.flow.transport, probe.flow.family, port] = number
        self._selector.register(launched.socket, selectors.EVENT_READ, lambda _, number=number: self._on_client(number))

    def watch(self, progress: Callable[[int, int], None]) -> None:
        """Until every probe has landed, or nothing more is to be expected."""
        waited = 0.0
        while len(self._seen) < len(self._wanted):
            before, begun = len(self._seen), time.monotonic()
            # Frames first: a peer that really has the address refuses, and the departure must be known before that.
            for key, _ in sorted(self._selector.select(LOOK), key=lambda ready: ready[0].fileobj not in self._wires):
                key.data(key.fileobj)
            waited += min(time.monotonic() - begun, LOOK)
            if len(self._seen) > before:
                waited = 0.0
                progress(len(self._seen), len(self._wanted))
            silent = all(self._may_be_silent(number) for number in self._open())
            if waited > (QUIET if silent else PATIENCE):
                return

    def _open(self) -> Iterator[int]:
        return (number for number in range(len(self._wanted)) if number not in self._seen)

    def _may_be_silent(self, number: int) -> bool:
        """What comes in for others and nobody captures is forwarded or dropped by the pod's routing: no answer."""
        probe = self._wanted[number]
        guest = probe.flow.way == "in" and is_listed(self._spec.interfaces.capturing, probe.flow.interface)
        return guest and probe.predicted.disposition == "direct"

    def _on_server(self, server: socket.socket) -> None:
        self._listeners.answer(server)

    def _on_client(self, number: int) -> None:
        heard = self._launched[number].heard()
        if heard:
            self._selector.unregister(self._launched[number].socket)
            self._seen.setdefault(number, "rejected" if heard == "refused" else heard)

    def _on_frame(self, wire: socket.socket) -> None:
        """All frames that have come so far."""
        while True:
            try:
                frame, source = wire.recvfrom(65535)
            except BlockingIOError:
                return
            if source[2] != socket.PACKET_OUTGOING:
                self._read(frame, wire)

    def _read(self, frame: bytes, wire: socket.socket) -> None:
        segment = craft.read_frame(frame)
        if segment is None:
            return
        cable = self._wires[wire]
        if segment.flags in ("SA", "RA", "R"):
            self._on_answer(segment, wire, cable)
        elif not segment.flags and ("udp", segment.family, segment.port) in self._by_port:
            self._on_datagram(segment)
        elif segment.flags in ("S", ""):
            self._on_departure(segment, wire, cable)

    def _on_answer(self, segment: Segment, wire: socket.socket, cable: Cable) -> None:
        """A SYN-ACK for a probe from outside tells by its segment size whose it is."""
        transport = "tcp"
        number = self._by_port.get((transport, segment.family, segment.port))
        if number is None or self._wanted[number].flow.way != "in":
            return
        landed = BY_SIZE.get(segment.mss, "direct") if segment.flags == "SA" else "rejected"
        self._seen.setdefault(number, landed)
        if segment.flags == "SA":
            wire.send(craft.reset(segment, (cable.peer_mac, cable.pod_mac)))

    def _on_datagram(self, segment: Segment) -> None:
        """The answer to a guest's query says in words who gave it."""
        number = self._by_port["udp", segment.family, segment.port]
        if self._wanted[number].flow.way == "in":
            self._seen.setdefault(number, segment.said.decode("ascii", "replace"))

    def _on_departure(self, segment: Segment, wire: socket.socket, cable: Cable) -> None:
        """A packet of the pod's own has come out at the other end: nobody captured it."""
        transport = "tcp" if segment.flags else "udp"
        number = self._by_port.get((transport, segment.family, segment.source_port))
        if number is None or self._wanted[number].flow.way != "out":
            return
        flow = self._wanted[number].flow
        if (segment.destination, segment.port) != (flow.destination, flow.port):
            return
        lane = self._ground.scene.lanes[self._wanted[number].lane].interface
        self._seen.setdefault(number, "direct" if cable.lane.interface == lane else f"left by {cable.lane.interface}")
        if segment.flags:
            wire.send(craft.reset(segment, (cable.peer_mac, cable.pod_mac)))

    def results(self) -> tuple[Seen, ...]:
        return tuple(Seen(probe, self._landed(number)) for number, probe in enumerate(self._wanted))

    def _landed(self, number: int) -> str:
        """A listener that was addressed on its own port was reached directly: nobody led the packet to it."""
        seen = self._seen.get(number, "direct" if self._may_be_silent(number) else "dropped")
        port = self._wanted[number].flow.port
        own = {"inbound-proxy": self._spec.inbound.port.covers(port), "dns-proxy": port == self._spec.dns.port}
        return "direct" if own.get(seen, seen == "outbound-proxy" and port == self._spec.outbound.port) else seen

    def close(self) -> None:
        self._selector.close()
        for launched in self._launched.values():
            launched.close()
        for wire in self._wires:
            wire.close()
