"""The places of a lab: a client and a pod on one cable, or on a node's bridge beside a second and a third pod.

Every place is a network namespace without a name, which ends with this process, however that ends; ``up`` gives them
names, since its lab outlives the command. Sysctls that a new namespace takes over from the host are set, so that a
scenario means the same on every machine.
"""

from __future__ import annotations

import contextlib
import os

from meshnet.kernel import links, netns
from meshnet.kernel.run import run
from meshnet.model.errors import ToolError, Wrong
from meshnet.model.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType
    from typing import Literal

    from meshnet.kernel.netns import Namespace
    from meshnet.model.cidr import Family

    Shape = Literal["cable", "node"]

FAMILIES: tuple[Family, ...] = (4, 6)
LENGTH: dict[Family, int] = {4: 24, 6: 64}
ADDRESSES: dict[str, dict[Family, str]] = {
    "node": {4: "10.244.9.1", 6: "fd00:244:9::1"},
    "pod": {4: "10.244.9.10", 6: "fd00:244:9::10"},
    "second-pod": {4: "10.244.9.11", 6: "fd00:244:9::11"},
    "third-pod": {4: "10.244.9.12", 6: "fd00:244:9::12"},
    "client": {4: "10.244.9.20", 6: "fd00:244:9::20"},
    "service": {4: "10.96.9.80", 6: "fd00:96:9::80"},
    "remote": {4: "203.0.113.9", 6: "2001:db8:1::9"},
    "resolver": {4: "203.0.113.53", 6: "2001:db8:1::53"},
    "client-second": {4: "10.245.9.20", 6: "fd00:245:9::20"},
    "pod-second": {4: "10.245.9.10", 6: "fd00:245:9::10"},
    "pod-guests": {4: "172.30.9.1", 6: "fd00:30:9::1"},
    "guest": {4: "172.30.9.2", 6: "fd00:30:9::2"},
    "loopback": {4: "127.0.0.1", 6: "::1"},
    "passthrough": {4: "127.0.0.6", 6: "::6"},
}
"""Who has which address. The client and the pod are those of the measurements that the conformance files keep."""

GUEST_BLOCK: dict[Family, str] = {4: "172.30.9.0/24", 6: "fd00:30:9::/64"}
OUTSIDE: tuple[str, ...] = ("remote", "resolver")
"""On the client's lo: it is all the rest of the world as well."""

QUIET = (
    *(f"net/ipv4/conf/{scope}/rp_filter" for scope in ("all", "default", "lo")),
    *(f"net/ipv4/conf/{scope}/route_localnet" for scope in ("all", "default", "lo")),
    *(f"net/ipv4/conf/{scope}/src_valid_mark" for scope in ("all", "default", "lo")),
    "net/ipv4/ip_forward",
    "net/ipv4/ip_nonlocal_bind",
    "net/bridge/bridge-nf-call-iptables",
    "net/bridge/bridge-nf-call-ip6tables",
)
"""Set to 0: what a new namespace copies from the host (devconf_inherit_init_net), and bridged packets in iptables,
which the node of the lab routes, where the host has loaded br_netfilter."""

PLACES: dict[Shape, tuple[str, ...]] = {"cable": ("client", "pod"), "node": ("client", "pod", "node", "second-pod")}


@value
class Plan:
    """Which places there are. ``second_card``: eth1 from the client to the pod; ``guest``: a machine behind the pod."""

    shape: Shape = "cable"
    second_card: bool = False
    guest: bool = False
    third_pod: bool = False

    def __post_init__(self) -> None:
        if self.third_pod and self.shape != "node":
            raise Wrong("a third pod without a node", "topology: node")

    @property
    def places(self) -> tuple[str, ...]:
        third = ("third-pod",) if self.third_pod else ()
        return (*PLACES[self.shape], *third, *(("guest",) if self.guest else ()))


class Topology:
    """The places of a plan, built and wired on entering; gone on leaving. ToolError, PermissionMissing."""

    def __init__(self, plan: Plan, prefix: str = "") -> None:
        self.plan = plan
        self._prefix = prefix
        self._stack = contextlib.ExitStack()
        self.places: dict[str, Namespace] = {}

    def __getitem__(self, place: str) -> Namespace:
        return self.places[place]

    @property
    def pod(self) -> Namespace:
        return self.places["pod"]

    @property
    def client(self) -> Namespace:
        return self.places["client"]

    def __enter__(self) -> Topology:
        try:
            for place in self.plan.places:
                self.places[place] = self._stack.enter_context(self._made(place))
            for namespace in self.places.values():
                _quiet(namespace)
            (self._bridge if self.plan.shape == "node" else self._cable)()
            if self.plan.second_card:
                self._second_card()
            if self.plan.guest:
                self._guest()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()
        self.places = {}

    def _made(self, place: str) -> Namespace:
        if not self._prefix:
            return netns.unnamed()
        name = f"{self._prefix}{place}"
        netns.create(name)
        self._stack.callback(_deleted, name)
        return netns.open_namespace(netns.where(name))

    def _cable(self) -> None:
        links.veth(self.client, "eth0", self.pod, "eth0")
        for place in ("client", "pod"):
            batch(self[place], [*_interface("eth0", ADDRESSES[place]), *_outside(place)])
        batch(self.pod, _default(ADDRESSES["client"]))

    def _bridge(self) -> None:
        node = self["node"]
        tenants = [place for place in self.plan.places if place not in ("node", "guest")]
        batch(node, ["link add br0 type bridge forward_delay 0 mcast_snooping 0"])
        for place in tenants:
            links.veth(node, f"to-{place}"[:15], self[place], "eth0")
            batch(node, [f"link set {f'to-{place}'[:15]} master br0 up"])
            batch(self[place], [*_interface("eth0", ADDRESSES[place]), *_outside(place)])
        batch(node, _interface("br0", ADDRESSES["node"]))
        outside = [f"route add {ADDRESSES[place][family]} via {ADDRESSES['client'][family]}"
                   for place in OUTSIDE for family in FAMILIES]  # fmt: skip
        batch(node, outside)
        for key in ("net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"):
            links.sysctl(node, key, 1)
        for place in tenants:
            batch(self[place], _default(ADDRESSES["node"]))

    def _second_card(self) -> None:
        links.veth(self.client, "eth1", self.pod, "eth1")
        batch(self.client, _interface("eth1", ADDRESSES["client-second"]))
        batch(self.pod, _interface("eth1", ADDRESSES["pod-second"]))

    def _guest(self) -> None:
        """A virtual machine as KubeVirt keeps one: behind a bridge of the pod, which forwards and masquerades not."""
        links.veth(self.pod, "tap0", self["guest"], "eth0")
        bridge = ["link add k6t-eth0 type bridge forward_delay 0 mcast_snooping 0", "link set tap0 master k6t-eth0 up"]
        batch(self.pod, [*bridge, *_interface("k6t-eth0", ADDRESSES["pod-guests"])])
        batch(self["guest"], _interface("eth0", ADDRESSES["guest"]))
        batch(self["guest"], _default(ADDRESSES["pod-guests"]))
        for key in ("net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding"):
            links.sysctl(self.pod, key, 1)
        gateway = self["node"] if self.plan.shape == "node" else self.client
        batch(gateway, [f"route add {GUEST_BLOCK[family]} via {ADDRESSES['pod'][family]}" for family in FAMILIES])


def batch(namespace: Namespace, lines: Iterable[str]) -> None:
    """Carry out lines of ``ip`` in a namespace: one process a family, links with the IPv4 ones. ToolError."""
    given = list(lines)
    for family in FAMILIES:
        mine = [line for line in given if (":" in line) == (family == 6)]
        if mine:
            with namespace.entered():
                done = run(["ip", f"-{family}", "-batch", "-"], text="\n".join(mine) + "\n")
            if not done.ok:
                raise ToolError(f"building the lab: ip refused {mine}", detail=done.err)


def address(place: str, family: Family) -> str:
    """The address of a place's name."""
    return ADDRESSES[place][family]


def place_of(host: str) -> str:
    """Whose address this is; the address itself when it is nobody's."""
    for place, hosts in ADDRESSES.items():
        if host in hosts.values():
            return place
    return host


def _interface(link: str, hosts: dict[Family, str]) -> list[str]:
    lines = [f"addr add {hosts[4]}/{LENGTH[4]} dev {link}", f"addr add {hosts[6]}/{LENGTH[6]} dev {link} nodad"]
    return [f"link set {link} up", *lines]


def _outside(place: str) -> list[str]:
    if place != "client":
        return []
    return [f"addr add {ADDRESSES[name][4]}/32 dev lo" for name in OUTSIDE] + [
        f"addr add {ADDRESSES[name][6]}/128 dev lo nodad" for name in OUTSIDE
    ]


def _default(gateway: dict[Family, str]) -> list[str]:
    return [f"route add default via {gateway[4]}", f"route add default via {gateway[6]}"]


def _quiet(namespace: Namespace) -> None:
    links.quiet_ipv6(namespace)
    with namespace.entered():
        for key in QUIET:
            with contextlib.suppress(FileNotFoundError):
                fd = os.open(f"/proc/sys/{key}", os.O_WRONLY)
                with contextlib.closing(os.fdopen(fd, "w")) as file:
                    file.write("0\n")
    batch(namespace, ["link set lo up"])


def _deleted(name: str) -> None:
    with contextlib.suppress(Exception):
        netns.delete(name)
