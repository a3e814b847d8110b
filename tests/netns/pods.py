"""A client and a pod, joined by a cable; more cables and guests when a test wants them.

The client is all the rest of the world: it holds whole networks of addresses on its lo, so that whatever the pod
calls is answered there unless a rule of the pod takes it elsewhere.
"""

from __future__ import annotations

import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING

from meshnet.kernel import links, netns
from tests.netns.snapshot import run
from tests.sweep import fresh_name

if TYPE_CHECKING:
    from meshnet.kernel.netns import Namespace

CLIENT = {4: "10.77.0.1", 6: "fd77::1"}
POD = {4: "10.77.0.2", 6: "fd77::2"}
SECOND_CLIENT = {4: "10.78.0.1", 6: "fd78::1"}
SECOND_POD = {4: "10.78.0.2", 6: "fd78::2"}
GUEST = {4: "10.79.0.1", 6: "fd79::1"}
GUEST_POD = {4: "10.79.0.2", 6: "fd79::2"}
REMOTE = {4: "203.0.113.9", 6: "2001:db8:1::9"}
ELSEWHERE = {4: "198.51.100.9", 6: "2001:db8:2::9"}
RESOLVER = {4: "203.0.113.53", 6: "2001:db8:1::53"}
LOOPBACK = {4: "127.0.0.1", 6: "::1"}
PASSTHROUGH = {4: "127.0.0.6", 6: "::6"}
NETWORKS = ("203.0.113.0/24", "198.51.100.0/24", "2001:db8:1::/64", "2001:db8:2::/64")
LENGTH = {4: 24, 6: 64}
INET = {4: socket.AF_INET, 6: socket.AF_INET6}


class Scratch:
    """Makes namespaces and takes them away again."""

    def __init__(self) -> None:
        self._open: list[Namespace] = []

    def __call__(self) -> Namespace:
        name = fresh_name()
        netns.create(name)
        namespace = netns.open_namespace(netns.where(name))
        self._open.append(namespace)
        links.quiet_ipv6(namespace)
        links.up(namespace, "lo")
        return namespace

    def clean(self) -> None:
        for namespace in self._open:
            namespace.close()
            netns.delete(namespace.where.text)


class Pod:
    """``client`` and ``pod`` are open namespaces, joined by ``eth0`` on both sides."""

    def __init__(self, scratch: Scratch) -> None:
        self._scratch = scratch
        self.client, self.pod = scratch(), scratch()
        self.cable("eth0", CLIENT, POD)
        lines = "".join(f"route add local {block} dev lo\n" for block in NETWORKS if ":" not in block)
        run(self.client, "ip", "-batch", "-", text=lines)
        lines = "".join(f"route add local {block} dev lo\n" for block in NETWORKS if ":" in block)
        run(self.client, "ip", "-6", "-batch", "-", text=lines)
        links.route(self.pod, "default", via=CLIENT[4])
        links.route(self.pod, "default6", via=CLIENT[6])

    @property
    def name(self) -> str:
        return self.pod.where.text

    def cable(self, link: str, here: dict[int, str], there: dict[int, str], to: Namespace | None = None) -> None:
        """A cable from the client (or ``to``) to the pod, the same name on both sides, with addresses of both."""
        outside = to or self.client
        links.veth(outside, link, self.pod, link)
        for namespace, mine in ((outside, here), (self.pod, there)):
            links.up(namespace, link)
            for family in (4, 6):
                links.address(namespace, link, f"{mine[family]}/{LENGTH[family]}")
        for namespace in (outside, self.pod):
            _wait_for_link_local(namespace, link)

    def second(self) -> None:
        """Another network of the pod, by eth1."""
        self.cable("eth1", SECOND_CLIENT, SECOND_POD)

    def guest(self) -> Namespace:
        """A virtual machine in the pod: behind vm0, and the pod forwards for it."""
        guest = self._scratch()
        self.cable("vm0", GUEST, GUEST_POD, to=guest)
        links.sysctl(self.pod, "net.ipv4.ip_forward", 1)
        links.sysctl(self.pod, "net.ipv6.conf.all.forwarding", 1)
        links.route(guest, "default", via=GUEST_POD[4])
        links.route(guest, "default6", via=GUEST_POD[6])
        links.route(self.client, "10.79.0.0/24", via=POD[4])
        links.route(self.client, "fd79::/64", via=POD[6])
        return guest


def _wait_for_link_local(namespace: Namespace, link: str) -> None:
    """It comes a moment after both ends are up, and later would look like something that a test left behind."""
    deadline = time.monotonic() + 10
    with namespace.entered():
        while not any(
            line.startswith("fe80") and line.split()[-1] == link
            for line in Path("/proc/thread-self/net/if_inet6").read_text().splitlines()
        ):
            assert time.monotonic() < deadline, f"{link} has no link-local address"
            time.sleep(0.002)
