"""Is a connection redirected here? The question that an init container asks before the pod's proxy starts.

The sidecar's user connects to the pod's own address, which every rule set sends to the inbound listener; this process
listens in the listener's place and asks the kernel where the connection was meant to go. It needs no raw socket.
"""

from __future__ import annotations

import errno
import os
import select
import struct
import time

from meshnet.kernel import rtnetlink
from meshnet.kernel.netns import missing_capabilities, open_namespace
from meshnet.model.cidr import address_text, read_address
from meshnet.model.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket as library

    from meshnet.kernel.netns import Where
    from meshnet.model.cidr import Family
    from meshnet.model.ports import PortRange
    from meshnet.model.spec import Spec

SO_ORIGINAL_DST = 80
"""linux/netfilter_ipv4.h; IP6T_SO_ORIGINAL_DST of linux/netfilter_ipv6/ip6_tables.h has the same number."""

IP_TRANSPARENT, IPV6_TRANSPARENT = 19, 75
NO_ADDRESS = "no interface has an address to connect to; bring the network up first"
NO_ANSWER = "no answer in time; the rules or another filter drop it"
HELD_BACK = 0.3
"""Seconds within the pod after which a call that hasn't arrived was dropped; the next attempt would come after one."""

ANYWHERE = {4: "0.0.0.0", 6: "::"}  # noqa: S104 (the rules decide who comes here)


@value
class Outcome:
    """One family's answer, in words for a person too."""

    family: Family
    redirected: bool
    said: str


@value
class Validation:
    families: tuple[Outcome, ...]

    @property
    def redirected(self) -> bool:
        return all(outcome.redirected for outcome in self.families)


def validate(place: Where, spec: Spec, families: tuple[Family, ...], *, probe_port: int, wait: float) -> Validation:
    """Connect in each family, within ``wait`` seconds for each; nothing is left behind.

    Empty, and so fine, when the spec leads no such connection to a listener. A family without an address is passed
    over when another one has any: rules for it may be there all the same.
    """
    port = _port(spec, probe_port)
    if port is None:
        return Validation(())
    with open_namespace(place) as namespace, namespace.entered():
        own = {family: found for family in families if (found := _addresses(family))}
        if not own:
            return Validation(tuple(Outcome(family, False, NO_ADDRESS) for family in families))
        captured = {
            family: next((text for text in own[family] if not _excluded(spec, family, text)), "") for family in own
        }
        return Validation(tuple(_family(spec, family, text, port, wait) for family, text in captured.items() if text))


def _addresses(family: Family) -> tuple[str, ...]:
    """The addresses by which others reach this namespace."""
    found = rtnetlink.addresses(family)
    return tuple(item.text.partition("/")[0] for item in found if item.is_global and not item.on_loopback)


def _excluded(spec: Spec, family: Family, address: str) -> bool:
    """Whether calls to an address are left alone, the sidecar's own included: whole clusters' blocks are excluded."""
    if spec.profile == "istio":
        return False  # whose rule about the own pod stands ahead of the blocks
    number = read_address(address)[1]
    return any(block.holds(family, number) for block in spec.outbound.exclude_cidrs)


def _port(spec: Spec, wanted: int) -> int | None:
    """A port that the rules send to the listener when the sidecar calls it; None when they send none there."""
    inbound = spec.inbound
    included: tuple[PortRange, ...] = ()
    passed_by = list(spec.outbound.exclude_ports)
    if spec.profile != "istio":  # whose rule about the own pod looks at no inbound port but the tunnel's
        left_alone = any(gid in spec.outbound.exclude_groups for gid in spec.sidecar.gids[:1])
        if not inbound.active or not inbound.own_pod or left_alone:
            return None
        included = () if inbound.ports == "*" else inbound.ports
        passed_by += inbound.exclude_ports
    candidates = (wanted, *(port for ports in included for port in (ports.first, ports.last)), *range(15030, 15060))
    listed = (port for port in candidates if not included or any(ports.covers(port) for ports in included))
    kept = (port for port in listed if not any(ports.covers(port) for ports in passed_by))
    dns = 53 if spec.dns.capture != "off" else None
    return next((port for port in kept if port not in (inbound.tunnel_port, dns)), None)


def _covered(spec: Spec, port: int) -> bool:
    return any(ports.covers(port) for ports in spec.outbound.exclude_ports)


def _connected(client: library.socket) -> bool:
    try:
        client.getpeername()
    except OSError:
        return False
    return True


def _family(spec: Spec, family: Family, address: str, port: int, wait: float) -> Outcome:
    try:
        with _Stage(spec, family, port) as stage:
            return Outcome(family, *stage.run(address, time.monotonic() + wait))
    except OSError as error:
        return Outcome(family, False, error.strerror or str(error))


class _Stage:
    """The sockets of one try: the listener that the rules lead to, the one that they should keep it from."""

    def __init__(self, spec: Spec, family: Family, port: int) -> None:
        self.spec = spec
        self.family = family
        self.port = port
        self._open: list[library.socket] = []

    def __enter__(self) -> _Stage:
        return self

    def __exit__(self, *what: object) -> None:
        for item in self._open:
            item.close()

    def run(self, address: str, end: float) -> tuple[bool, str]:
        spec = self.spec
        if spec.profile != "istio" and spec.inbound.mode == "tproxy" and missing_capabilities(("CAP_NET_ADMIN",)):
            return self._held_back(address, end)
        captured = self._listener(self.spec.inbound.port.first)
        passed_by = self._listener(self.port)
        target = self._shown(address, self.port)
        if isinstance(captured, str):
            return False, captured
        client = self._call(address, self.port)
        if isinstance(client, str):
            return False, client
        listeners = [captured, *([] if isinstance(passed_by, str) else [passed_by])]
        reached = self._reached(listeners, client, end)
        if isinstance(reached, str):
            return False, f"{target}: {reached}"
        if reached is not captured:
            return False, f"the connection to {target} came through to that port; no rule redirects it"
        meant = self._meant(captured)
        if meant != (address, self.port):
            return False, f"the connection to {target} came to the listener, and is said to be meant for {meant}"
        return True, f"the connection to {target} was redirected to port {self.spec.inbound.port.first}"

    def _held_back(self, address: str, end: float) -> tuple[bool, str]:
        """Without CAP_NET_ADMIN no listener is transparent, and TPROXY drops what it finds no such listener for.

        So the rules show in two calls: one to a port that they leave alone arrives, and the other one doesn't.
        """
        inbound = self.spec.inbound
        alone = [inbound.tunnel_port, *(ports.first for ports in inbound.exclude_ports)]
        open_port = next((port for port in alone if port is not None and not _covered(self.spec, port)), None)
        if open_port is None:
            return False, "TPROXY can't be looked at without CAP_NET_ADMIN where the rules leave no port alone"
        arrived = self._listener(open_port)
        if isinstance(arrived, str):
            return False, arrived
        passed_by = self._listener(self.port)
        first = self._call(address, open_port)
        if isinstance(first, str):
            return False, first
        reached = self._reached([arrived], first, end)
        if isinstance(reached, str):
            return False, f"{self._shown(address, open_port)}: {reached}"
        second = self._call(address, self.port)
        if isinstance(second, str):
            return False, second
        listeners = [] if isinstance(passed_by, str) else [passed_by]
        reached = self._reached(listeners, second, min(end, time.monotonic() + HELD_BACK))
        target = self._shown(address, self.port)
        if not isinstance(reached, str) or _connected(second):
            return False, f"the connection to {target} came through to that port; no rule redirects it"
        if reached != NO_ANSWER:
            return False, f"{target}: {reached}"
        return (
            True,
            f"the connection to {target} is kept for port {inbound.port.first}, one to {open_port} is let through",
        )

    def _shown(self, address: str, port: int) -> str:
        return f"{address}:{port}" if self.family == 4 else f"[{address}]:{port}"

    def _call(self, address: str, port: int) -> library.socket | str:
        """A connection of the sidecar's, on its way; or why there is none."""
        client = self._client()
        if isinstance(client, str):
            return client
        client.setblocking(False)
        started = client.connect_ex((address, port))
        if started not in (0, errno.EINPROGRESS):
            return f"can't connect to {self._shown(address, port)}: {os.strerror(started)}"
        return client

    def _reached(self, listeners: list[library.socket], client: library.socket, end: float) -> library.socket | str:
        """The listener that has a connection, or what became of the client's."""
        poll = select.poll()
        by_number = {item.fileno(): item for item in listeners}
        for number in by_number:
            poll.register(number, select.POLLIN)
        poll.register(client.fileno(), select.POLLERR)
        while (left := end - time.monotonic()) > 0:
            for number, _ in poll.poll(left * 1000):
                if number in by_number:
                    return by_number[number]
                refused = client.getsockopt(1, 4)  # SOL_SOCKET, SO_ERROR
                if refused:
                    return os.strerror(refused)
        return NO_ANSWER

    def _meant(self, listener: library.socket) -> tuple[str, int]:
        """Where the connection was going: conntrack knows after REDIRECT, the socket itself after TPROXY."""
        connection, _ = listener.accept()
        self._open.append(connection)
        level, size = (0, 16) if self.family == 4 else (41, 28)  # SOL_IP, SOL_IPV6
        own: tuple[str, int] = connection.getsockname()[:2]
        try:
            found = connection.getsockopt(level, SO_ORIGINAL_DST, size)
        except OSError:
            return own
        place, length = (4, 4) if self.family == 4 else (8, 16)
        (port,) = struct.unpack_from("!H", found, 2)
        return address_text(self.family, int.from_bytes(found[place : place + length], "big")), port

    def _listener(self, port: int) -> library.socket | str:
        """A socket that listens, or why there is none."""
        import socket

        made = self._socket()
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if not missing_capabilities(("CAP_NET_ADMIN",)):  # else TPROXY finds no socket that it may use
            level, option = (0, IP_TRANSPARENT) if self.family == 4 else (41, IPV6_TRANSPARENT)
            made.setsockopt(level, option, 1)
        try:
            made.bind((ANYWHERE[self.family], port))
            made.listen(8)
        except OSError as error:
            return f"can't listen on port {port}, as the proxy will: {error.strerror}"
        return made

    def _client(self) -> library.socket | str:
        """A socket that the rules take for the sidecar's: its owner is who is at work when it is made (xt_owner)."""
        uids, gids = self.spec.sidecar.uids, self.spec.sidecar.gids
        if os.geteuid() in uids or (not uids and os.getegid() in gids):
            return self._socket()
        if missing_capabilities(("CAP_SETUID", "CAP_SETGID")):
            who = f"uid {uids[0]}" if uids else f"gid {gids[0]}"
            return f"this process can't connect as the proxy; run the validation as {who}"
        before = os.geteuid(), os.getegid()
        try:
            os.setegid(gids[0] if gids else before[1])  # groups may be excluded, and root's is the likely one
            os.seteuid(uids[0] if uids else before[0])
            return self._socket()
        finally:
            os.seteuid(before[0])
            os.setegid(before[1])

    def _socket(self) -> library.socket:
        import socket

        made = socket.socket(socket.AF_INET6 if self.family == 6 else socket.AF_INET, socket.SOCK_STREAM)
        self._open.append(made)
        if self.family == 6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        return made
