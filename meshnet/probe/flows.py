"""The flows that matter for a spec: each class of port, each exclusion, each identity, loopback and own pod, DNS.

Pure: from a spec and a scene to probes, each with the disposition that the spec's meaning predicts.
"""

from __future__ import annotations

from meshnet.compile.meaning import predict
from meshnet.model.cidr import LOOPBACK, Cidr, read_cidr
from meshnet.model.flow import Flow
from meshnet.model.value import replace, value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import TypeVar

    from meshnet.model.cidr import Family
    from meshnet.model.flow import Prediction, Way
    from meshnet.model.ports import PortRange
    from meshnet.model.program import Transport
    from meshnet.model.spec import InterfaceNetwork, Spec
    from meshnet.probe.scene import Lane, Scene

    T = TypeVar("T")

MOST_ENTRIES = 24
"""Entries of one list that are probed: beyond it the first, the last, and some in between."""

PLAIN_PORTS: tuple[int, ...] = (80, 8080, 9080, 7070, 3306, *range(20000, 20100))
UNSENDABLE = tuple(
    read_cidr(block)
    for block in (
        "0.0.0.0/8",
        "127.0.0.0/8",
        "224.0.0.0/3",
        "169.254.0.0/16",
        "::/96",  # IPv4-compatible, deprecated (RFC 4291 section 2.5.5.1): a guest's packet to one was seen to vanish
        "::ffff:0:0/96",
        "fe80::/10",
        "ff00::/8",
    )
)
TRANSPORTS: tuple[Transport, ...] = ("udp", "tcp")
FREE_ID = 54321
"""A uid and gid for the application, or the next one that the spec doesn't name."""


@value
class Probe:
    name: str
    flow: Flow
    predicted: Prediction
    lane: int = 0
    """By which lane of the scene the flow enters or leaves; lo and the own pod count as the first."""


def probes(spec: Spec, scene: Scene) -> tuple[Probe, ...]:
    """Every probe for a settled spec, without two of the same flow."""
    found: dict[Flow, Probe] = {}
    for name, flow, lane in _named(spec, scene):
        found.setdefault(flow, Probe(name, flow, predict(spec, flow), lane))
    return tuple(found.values())


def _named(spec: Spec, scene: Scene) -> Iterator[tuple[str, Flow, int]]:
    for family in scene.families:
        author = Author(spec, scene, family)
        yield from author.inbound()
        yield from author.other_interfaces()
        yield from author.outbound()
        yield from author.sidecar()
        yield from author.loopback()
        yield from author.dns()


class Author:
    """Writes the flows of one family."""

    def __init__(self, spec: Spec, scene: Scene, family: Family) -> None:
        self.spec, self.scene, self.family = spec, scene, family
        self.pod = scene.main.pod[family]
        self.plain = plain_port(spec)
        taken = {*spec.sidecar.uids, *spec.sidecar.gids, *spec.outbound.exclude_groups}
        groups = () if spec.outbound.groups == "*" else spec.outbound.groups
        self.free = free_id(spec, {*taken, *groups})
        usable = [group for group in groups if group not in taken]
        self.group = usable[0] if usable else self.free

    def inbound(self) -> Iterator[tuple[str, Flow, int]]:
        inbound = self.spec.inbound
        yield "inbound: a port in no list", self._in(self.plain), 0
        if inbound.ports != "*":
            for port in ends(inbound.ports):
                yield f"inbound: listed port {port}", self._in(port), 0
        for port in ends(inbound.exclude_ports):
            yield f"inbound: excluded port {port}", self._in(port), 0
        if inbound.tunnel_port is not None:
            yield f"inbound: tunnel port {inbound.tunnel_port}", self._in(inbound.tunnel_port), 0
        for block, address in self._inside(inbound.exclude_sources):
            flow = replace(self._in(self._captured_port()), source=address)
            yield f"inbound: excluded source {block}", flow, 0

    def other_interfaces(self) -> Iterator[tuple[str, Flow, int]]:
        for place, lane in enumerate(self.scene.lanes[1:], 1):
            name = lane.interface
            flow = self._in(self._captured_port(), lane)
            if is_listed(self.spec.interfaces.exclude, name):
                yield f"inbound: excluded interface {name}", flow, place
                out = replace(self._app(lane.outside[self.family], self.plain), interface=name)
                yield f"outbound: excluded interface {name}", replace(out, source=lane.pod[self.family]), place
                continue
            network = next((item for item in self.spec.interfaces.networks if is_listed([item.interface], name)), None)
            if network is not None:
                yield from ((what, inside, place) for what, inside in self._inside_network(network, flow))
            yield f"guest {name}: to outside", replace(flow, destination=lane.outside[self.family]), place
            for port in (*ends(self.spec.outbound.exclude_ports), *ends(self.spec.outbound.ports)):
                flow = replace(flow, destination=lane.outside[self.family], port=port)
                yield f"guest {name}: port {port}", flow, place
            for block, address in self._outside_blocks():
                yield f"guest {name}: CIDR {block}", replace(flow, destination=address, port=self.plain), place
            for transport in TRANSPORTS:
                query = replace(flow, destination=self._resolver(lane), port=53, transport=transport)
                yield f"guest {name}: DNS over {transport}", query, place

    def _inside_network(self, network: InterfaceNetwork, flow: Flow) -> Iterator[tuple[str, Flow]]:
        """What comes from a network and goes to the same one: inbound traffic, but for queries."""
        for block, address in self._inside(network.cidrs):
            inside = replace(flow, destination=address)
            yield f"network {flow.interface}: inside {block}", inside
            if self.spec.dns.capture != "off":
                for transport in TRANSPORTS:
                    query = replace(inside, port=53, transport=transport)
                    yield f"network {flow.interface}: DNS over {transport} inside {block}", query

    def outbound(self) -> Iterator[tuple[str, Flow, int]]:
        outbound, outside = self.spec.outbound, self.scene.main.outside[self.family]
        yield "outbound: application to outside", self._app(outside, self.plain), 0
        for port in ends(outbound.ports):
            yield f"outbound: listed port {port}", self._app(outside, port), 0
        for port in ends(outbound.exclude_ports):
            yield f"outbound: excluded port {port}", self._app(outside, port), 0
        for block, address in self._inside(outbound.exclude_cidrs):
            yield f"outbound: excluded CIDR {block}", self._app(address, self.plain), 0
        if outbound.cidrs != "*":
            for block, address in self._inside(outbound.cidrs):
                yield f"outbound: listed CIDR {block}", self._app(address, self.plain), 0
        for group in sample(outbound.exclude_groups):
            yield f"outbound: excluded group {group}", replace(self._app(outside, self.plain), gid=group), 0
        for place, entry in enumerate(sample(outbound.exclude_users)):
            who = {"uid": entry.uids[-1].last, "gid": self.group}
            for port in (self.plain,) if entry.ports == "*" else ends(entry.ports):
                yield f"outbound: excluded users {place}, port {port}", replace(self._app(outside, port), **who), 0
            other = replace(self._app(outside, self.plain), **who)
            yield f"outbound: excluded users {place}, a port in no list", other, 0
        if outbound.groups != "*":
            for group in sample(outbound.groups):
                yield f"outbound: listed group {group}", replace(self._app(outside, self.plain), gid=group), 0
            yield "outbound: a group in no list", replace(self._app(outside, self.plain), gid=self.free), 0

    def sidecar(self) -> Iterator[tuple[str, Flow, int]]:
        outside, port = self.scene.main.outside[self.family], self._captured_port()
        passthrough = self.spec.passthrough.of(self.family).network
        for name, change in self._identities():
            yield f"sidecar {name}: to outside", self._as(change, self._app(outside, self.plain)), 0
            own = self._as(change, self._local(self.pod, port))
            yield f"sidecar {name}: to its own pod", own, 0
            yield f"sidecar {name}: to loopback", self._as(change, self._local(self._loopback(), port)), 0
            if self.spec.inbound.active:
                yield f"sidecar {name}: passthrough to the application", replace(own, source=passthrough), 0
            if self.spec.inbound.active and self.spec.inbound.original_source:
                spoofed = replace(own, source=self.scene.main.peer[self.family], mark=self.spec.marks.inbound)
                yield f"sidecar {name}: to the application as the client", spoofed, 0
            for excluded in ends(self.spec.outbound.exclude_ports):
                yield f"sidecar {name}: own pod, port {excluded} excluded", replace(own, port=excluded), 0
            for group in sample(self.spec.outbound.exclude_groups):
                yield f"sidecar {name}: own pod, group {group} excluded", replace(own, gid=group), 0

    def loopback(self) -> Iterator[tuple[str, Flow, int]]:
        yield "application: to its own pod", self._local(self.pod, self.plain), 0
        yield "application: to loopback", self._local(self._loopback(), self.plain), 0
        if self.spec.outbound.cidrs == "*":
            return
        for block in sample(self.spec.outbound.cidrs):
            if block.family == self.family and LOOPBACK[self.family].covers(block):
                yield f"application: listed loopback CIDR {block}", self._local(block.last, self.plain), 0

    def dns(self) -> Iterator[tuple[str, Flow, int]]:
        if self.spec.dns.capture == "off":
            return
        asked = self._resolvers()
        for transport in TRANSPORTS:
            direct = replace(self._local(self._loopback(), self.spec.dns.port), transport=transport)
            yield f"DNS over {transport}: application asks the proxy itself", direct, 0
            for address in asked:
                query = self._query(address, transport)
                yield f"DNS over {transport}: application", query, 0
                for name, change in self._identities():
                    yield f"DNS over {transport}: sidecar {name}", self._as(change, query), 0
                for place, entry in enumerate(sample(self.spec.outbound.exclude_users)):
                    asked_by = replace(query, uid=entry.uids[0].first)
                    yield f"DNS over {transport}: excluded users {place}", asked_by, 0
            other = self._query(self.scene.main.outside[self.family], transport)
            yield f"DNS over {transport}: another resolver", other, 0

    def _identities(self) -> Iterator[tuple[str, dict[str, int]]]:
        sidecar = self.spec.sidecar
        yield from ((f"uid {uid}", {"uid": uid}) for uid in sidecar.uids)
        yield from ((f"gid {gid}", {"gid": gid}) for gid in sidecar.gids)
        if sidecar.mark is not None:
            yield f"mark {sidecar.mark:#x}", {"mark": sidecar.mark}

    def _as(self, change: dict[str, int], flow: Flow) -> Flow:
        return replace(flow, **change)

    def _in(self, port: int, lane: Lane | None = None) -> Flow:
        lane = lane or self.scene.main
        ends_of = lane.peer[self.family], lane.pod[self.family]
        return self._flow("in", "tcp", *ends_of, port, lane.interface)

    def _app(self, destination: int, port: int) -> Flow:
        flow = self._flow("out", "tcp", self.pod, destination, port, self.scene.main.interface)
        return replace(flow, uid=self.free, gid=self.group)

    def _local(self, destination: int, port: int) -> Flow:
        inside = LOOPBACK[self.family].holds(self.family, destination)
        source = self._loopback() if inside else self.pod
        return replace(self._app(destination, port), source=source, interface="lo")

    def _query(self, resolver: int, transport: Transport) -> Flow:
        inside = LOOPBACK[self.family].holds(self.family, resolver)
        flow = self._local(resolver, 53) if inside else self._app(resolver, 53)
        return replace(flow, transport=transport)

    def _flow(self, way: Way, transport: Transport, source: int, destination: int, port: int, interface: str) -> Flow:
        return Flow(way, self.family, transport, source, destination, port, interface)

    def _loopback(self) -> int:
        return 127 << 24 | 1 if self.family == 4 else 1

    def _resolvers(self) -> list[int]:
        if self.spec.dns.capture == "all":
            return [self.scene.main.outside[self.family]]
        return [
            block.network
            for block in sample(self.spec.dns.resolvers)
            if block.family == self.family and (self.family, block.network) not in self.scene.taken
        ]

    def _resolver(self, lane: Lane) -> int:
        """A guest can't ask a resolver on the pod's loopback."""
        listed = [item for item in self._resolvers() if not LOOPBACK[self.family].holds(self.family, item)]
        if self.spec.dns.capture == "resolvers" and listed:
            return listed[0]
        return lane.outside[self.family]

    def _captured_port(self) -> int:
        """A port that the inbound listener gets, if there is any: exclusions of other kinds are shown with it."""
        ports = self.spec.inbound.ports
        if ports == "*":
            return self.plain
        return next((port for port in ends(ports) if self._is_open(port)), self.plain)

    def _is_open(self, port: int) -> bool:
        inbound = self.spec.inbound
        return port != inbound.tunnel_port and not any(entry.covers(port) for entry in inbound.exclude_ports)

    def _inside(self, blocks: Sequence[Cidr]) -> Iterator[tuple[Cidr, int]]:
        """For each block an address in it that a packet can be sent from or to and that nobody here has."""
        for block in sample([block for block in blocks if block.family == self.family]):
            address = next((item for item in _candidates(block) if self._usable(item)), None)
            if address is not None:
                yield block, address

    def _outside_blocks(self) -> Iterator[tuple[Cidr, int]]:
        yield from self._inside(self.spec.outbound.exclude_cidrs)
        if self.spec.outbound.cidrs != "*":
            yield from self._inside(self.spec.outbound.cidrs)

    def _usable(self, address: int) -> bool:
        unsendable = any(block.holds(self.family, address) for block in UNSENDABLE)
        return not unsendable and (self.family, address) not in self.scene.taken


def _candidates(block: Cidr) -> Iterable[int]:
    size: int = block.last - block.network + 1
    offsets = (7, 1, 0, 9, size // 2 + 3, 11, 13, size - 2) if size > 16 else range(size)
    return (block.network + offset for offset in offsets if 0 <= offset < size)


def free_id(spec: Spec, taken: set[int]) -> int:
    """An id that the spec names nowhere; where its ranges of users leave none near, the first that is no single id."""
    ranges = [ids for entry in spec.outbound.exclude_users for ids in entry.uids]
    near = [number for number in range(FREE_ID, FREE_ID + 1000) if number not in taken]
    return next((number for number in near if not any(ids.covers(number) for ids in ranges)), near[0])


def plain_port(spec: Spec) -> int:
    """A port that no list of the spec names, so that only what holds for all ports decides about it."""
    lists = [spec.inbound.exclude_ports, spec.outbound.exclude_ports, spec.outbound.ports]
    lists += [entry.ports for entry in spec.outbound.exclude_users if entry.ports != "*"]
    if spec.inbound.ports != "*":
        lists.append(spec.inbound.ports)
    own: set[int | None] = {spec.outbound.port, spec.dns.port, spec.inbound.tunnel_port, 53}
    for port in PLAIN_PORTS + tuple(range(1, 65536)):
        listed = any(entry.covers(port) for entries in lists for entry in entries)
        if not listed and port not in own and not spec.inbound.port.covers(port):
            return port
    return PLAIN_PORTS[0]


def ends(ports: Sequence[PortRange]) -> tuple[int, ...]:
    """The first and last port of each entry, without repetition."""
    return tuple(dict.fromkeys(port for entry in sample(ports) for port in (entry.first, entry.last)))


def sample(entries: Sequence[T]) -> tuple[T, ...]:
    """All of a short list; of a long one the first, the last, and some in between."""
    if len(entries) <= MOST_ENTRIES:
        return tuple(entries)
    step = (len(entries) - 1) / (MOST_ENTRIES - 1)
    return tuple(entries[round(place * step)] for place in range(MOST_ENTRIES))


def is_listed(patterns: Iterable[str], name: str) -> bool:
    """Whether an interface is named, a trailing ``+`` standing for any rest."""
    return any(name.startswith(item[:-1]) if item.endswith("+") else name == item for item in patterns)
