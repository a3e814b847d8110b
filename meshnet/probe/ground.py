"""The ground for probes: cables from a peer namespace into the pod, and routes there, gone when the work is done.

The peer that is made when none is given has no name: it lives as long as this process holds it, and its cables die
with it, so that nothing is left in the pod after ``kill -9`` either.
"""

from __future__ import annotations

from meshnet.kernel import links, netns
from meshnet.model.cidr import BITS, address_text, network_of, read_address
from meshnet.model.errors import UsageError
from meshnet.model.value import value
from meshnet.probe.flows import is_listed
from meshnet.probe.scene import Lane, Scene

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from types import TracebackType

    from meshnet.kernel.links import Address
    from meshnet.kernel.netns import Namespace
    from meshnet.model.cidr import Family
    from meshnet.model.spec import Spec

FIRST4, FIRST6 = "198.18.109.0", "fd6d:6573:686e:6574::"
"""Where the ends of made cables get their addresses: the block for benchmarks (RFC 2544), and a unique local one."""

OUTSIDE4, OUTSIDE6 = "203.0.113.16", "2001:db8:6d::10"
NAMES = ("mnprobe0", "xnprobe0", "qprobe0")


@value
class Cable:
    """A lane and what is needed to send on it from the peer's side."""

    lane: Lane
    far_link: str
    pod_mac: str
    peer_mac: str
    made: bool


class Ground:
    """A context manager: prepares the pod for probes of a spec, and takes back what it did."""

    def __init__(self, pod: Namespace, spec: Spec, families: tuple[Family, ...], peer: Namespace | None) -> None:
        self.pod, self.spec, self.families = pod, spec, families
        self._given = peer
        self.peer = peer if peer is not None else netns.unnamed()
        self.cables: list[Cable] = []
        self._routes: list[str] = []

    def __enter__(self) -> Ground:
        try:
            if self._given is None and 6 in self.families:
                links.quiet_ipv6(self.peer)
            self.cables.append(self._make(self._free_name(), 0) if self._given is None else self._find())
            absent = tuple(self._others())
            taken = frozenset(
                read_address(item.address) for ns in (self.pod, self.peer) for item in links.addresses(ns)
            )
            self.scene = Scene(self.families, tuple(cable.lane for cable in self.cables), absent, taken)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for destination in self._routes:
            links.delete_route(self.pod, destination)
        for cable in self.cables:
            if cable.made:
                links.delete_link(self.pod, cable.lane.interface)
        self._routes, self.cables = [], []
        if self._given is None:
            self.peer.close()

    def lead(self, addresses: Iterable[tuple[Family, int, int]]) -> None:
        """Routes in the pod to (family, address, lane), so that what is sent there leaves by that lane."""
        for family, address, place in dict.fromkeys(addresses):
            lane = self.cables[place].lane
            destination = f"{address_text(family, address)}/{BITS[family]}"
            links.route(self.pod, destination, via=lane.text(family, "peer"), dev=lane.interface)
            if not self.cables[place].made:
                self._routes.append(destination)

    def _free_name(self) -> str:
        patterns = (*self.spec.interfaces.exclude, *self.spec.interfaces.capturing)
        present = links.names(self.pod)
        return next(name for name in NAMES if name not in present and not is_listed(patterns, name))

    def _others(self) -> Iterator[tuple[str, str]]:
        """Cables for interfaces with a meaning; those that exist and lead elsewhere are left alone and named."""
        present = links.names(self.pod)
        for pattern in (*self.spec.interfaces.exclude, *self.spec.interfaces.capturing):
            name = pattern[:-1] + "0" if pattern.endswith("+") else pattern
            if name in present or (pattern.endswith("+") and is_listed([pattern], self.cables[0].lane.interface)):
                yield pattern, "exists in the pod and leads elsewhere: a packet can't be sent in by it"
                continue
            self.cables.append(self._make(name, len(self.cables)))

    def _make(self, name: str, place: int) -> Cable:
        far = f"probe{place}"
        links.veth(self.pod, name, self.peer, far)
        try:
            pod, peer, outside = {}, {}, {}
            for family in self.families:
                base = read_address(FIRST4 if family == 4 else FIRST6)[1] + 4 * place
                pod[family], peer[family] = base + 1, base + 2
                outside[family] = read_address(OUTSIDE4 if family == 4 else OUTSIDE6)[1] + place
                length = BITS[family] - 2
                links.address(self.pod, name, f"{address_text(family, base + 1)}/{length}")
                links.address(self.peer, far, f"{address_text(family, base + 2)}/{length}")
            links.up(self.pod, name)
            links.up(self.peer, far)
            macs = links.mac(self.pod, name), links.mac(self.peer, far)
            lane = Lane(name, pod, peer, outside)
            for family in self.families:
                links.neighbour(self.pod, name, lane.text(family, "peer"), macs[1])
                links.neighbour(self.peer, far, lane.text(family, "pod"), macs[0])
        except BaseException:
            links.delete_link(self.pod, name)
            raise
        return Cable(lane, far, *macs, made=True)

    def _find(self) -> Cable:
        """The cable between pod and a given peer: two addresses of one network, for each family."""
        pairs = {family: self._pair(family) for family in self.families}
        lacking = [family for family, pair in pairs.items() if pair is None]
        found = {family: pair for family, pair in pairs.items() if pair is not None}
        if lacking or len({(pod.link, peer.link) for pod, peer in found.values()}) != 1:
            families = " and ".join(f"IPv{family}" for family in lacking or found)
            raise UsageError(
                f"{self.peer.where} shares no {families} network with the pod on one link",
                hint="name a neighbour of the pod, or leave --peer out and one is made",
            )
        pod, peer = next(iter(found.values()))
        lane = Lane(
            pod.link,
            {family: read_address(pair[0].address)[1] for family, pair in found.items()},
            {family: read_address(pair[1].address)[1] for family, pair in found.items()},
            {family: read_address(OUTSIDE4 if family == 4 else OUTSIDE6)[1] for family in found},
        )
        return Cable(lane, peer.link, links.mac(self.pod, pod.link), links.mac(self.peer, peer.link), made=False)

    def _pair(self, family: Family) -> tuple[Address, Address] | None:
        def usable(namespace: Namespace) -> list[Address]:
            found = links.addresses(namespace)
            return [item for item in found if item.family == family and item.link != "lo" and item.scope == "global"]

        theirs = usable(self.peer)
        for mine in usable(self.pod):
            block = network_of(family, read_address(mine.address)[1], mine.prefix)
            for other in theirs:
                if block.holds(family, read_address(other.address)[1]) and other.address != mine.address:
                    return mine, other
        return None
