"""Listeners that say who they are, and flows that find out where they land.

Every listener answers a connection with its name and the address that it sees, and closes. So the first line that a
caller reads is the landing, and a call that nobody answers is ``refused`` or ``timeout``.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import selectors
import socket
import struct
import threading
from typing import TYPE_CHECKING

from tests.netns import pods

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meshnet.kernel.netns import Namespace
    from tests.netns.pods import Pod

IP_TRANSPARENT, IPV6_TRANSPARENT = 19, 75
IP_PKTINFO, IPV6_RECVPKTINFO = 8, 49
APPLICATION_PORTS = (53, 80, 81, 443, 8080, 9090, 15008, 15020)
REMOTE_PORTS = (53, 80, 443, 8080, 9090)
PATIENCE = 3.0
PLACES = {
    "client": pods.CLIENT,
    "pod": pods.POD,
    "second-client": pods.SECOND_CLIENT,
    "second-pod": pods.SECOND_POD,
    "guest": pods.GUEST,
    "guest-pod": pods.GUEST_POD,
    "remote": pods.REMOTE,
    "elsewhere": pods.ELSEWHERE,
    "resolver": pods.RESOLVER,
    "loopback": pods.LOOPBACK,
    "passthrough": pods.PASSTHROUGH,
}
_libc = ctypes.CDLL(None, use_errno=True)


@contextlib.contextmanager
def identity(uid: int, gid: int) -> Iterator[None]:
    """Sockets made inside belong to uid and gid. Of this thread alone: xt_owner looks at the fsuid of the creator."""
    _libc.setfsgid(gid)
    _libc.setfsuid(uid)
    try:
        assert (_libc.setfsuid(-1), _libc.setfsgid(-1)) == (uid, gid)
        yield
    finally:
        _libc.setfsuid(os.geteuid())
        _libc.setfsgid(os.getegid())


def transparent(made: socket.socket) -> None:
    if made.family == socket.AF_INET6:
        made.setsockopt(socket.IPPROTO_IPV6, IPV6_TRANSPARENT, 1)
    else:
        made.setsockopt(socket.IPPROTO_IP, IP_TRANSPARENT, 1)


def _source_only(kind: int, data: bytes) -> bytes:
    """in_pktinfo or in6_pktinfo for sending: the address, and no interface."""
    if kind == IP_PKTINFO:
        return struct.pack("I4s4s", 0, data[4:8], b"")
    return data[:16] + bytes(4)


class Listeners:
    """Listening sockets of any namespace, answered by one thread. ``seen`` counts the calls by name."""

    def __init__(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._wake, self._woken = socket.socketpair()
        self._selector.register(self._woken, selectors.EVENT_READ, "")
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self.seen: dict[str, int] = {}

    def tcp(self, namespace: Namespace, name: str, family: int, port: int, *, foreign: bool = False) -> None:
        """Listen on every address; ``foreign``: also for addresses that aren't the namespace's own (TPROXY)."""
        with namespace.entered():
            made = socket.socket(pods.INET[family])
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == 6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        if foreign:
            transparent(made)
        made.bind(("", port))
        made.listen(512)
        self._add(made, name)

    def udp(self, namespace: Namespace, name: str, family: int, address: str, port: int) -> None:
        with namespace.entered():
            made = socket.socket(pods.INET[family], socket.SOCK_DGRAM)
        if family == 6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        transparent(made)  # of whole networks that are local, IPv6 binds only what is an interface's address
        made.bind((address, port))
        level, option = (socket.IPPROTO_IPV6, IPV6_RECVPKTINFO) if family == 6 else (socket.IPPROTO_IP, IP_PKTINFO)
        made.setsockopt(level, option, 1)
        self._add(made, name)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._wake.close()
        if self._thread.is_alive():
            self._thread.join(10)
        for key in list(self._selector.get_map().values()):
            key.fileobj.close()  # type: ignore[union-attr]
        self._selector.close()

    def _add(self, made: socket.socket, name: str) -> None:
        made.setblocking(False)
        self._selector.register(made, selectors.EVENT_READ, name)

    def _serve(self) -> None:
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is self._woken:
                    return
                with contextlib.suppress(OSError):  # the caller went away first
                    self._answer(key.fileobj, key.data)  # type: ignore[arg-type]

    def _answer(self, listening: socket.socket, name: str) -> None:
        self.seen[name] = self.seen.get(name, 0) + 1
        if listening.type == socket.SOCK_DGRAM:
            # The answer leaves from where the question came to, and not from where the route to the caller says.
            _, said, _, caller = listening.recvmsg(512, 256)
            here = [(level, kind, _source_only(kind, data)) for level, kind, data in said]
            listening.sendmsg([f"{name} {caller[0]}".encode()], here, 0, caller)
            return
        accepted, caller = listening.accept()
        with accepted:
            accepted.sendall(f"{name} {caller[0]}\n".encode())
            accepted.shutdown(socket.SHUT_WR)


def usual(world: Pod) -> Listeners:
    """All the listeners that a pod and the rest of the world have; not started yet."""
    made = Listeners()
    for family in (4, 6):
        for port in APPLICATION_PORTS:
            made.tcp(world.pod, "application", family, port)
        made.tcp(world.pod, "inbound-proxy", family, 15006, foreign=True)
        made.tcp(world.pod, "outbound-proxy", family, 15001)
        made.tcp(world.pod, "dns-proxy", family, 15053)
        made.udp(world.pod, "dns-proxy", family, "", 15053)
        for port in REMOTE_PORTS:
            made.tcp(world.client, "remote", family, port)
        for place in (pods.RESOLVER, pods.REMOTE, pods.ELSEWHERE, pods.CLIENT):
            made.udp(world.client, "remote", family, place[family], 53)
    return made


def call(
    namespace: Namespace,
    family: int,
    address: str,
    port: int,
    *,
    transport: str = "tcp",
    source: str = "",
    source_port: int = 0,
    uid: int = 0,
    gid: int = 0,
    mark: int = 0,
) -> tuple[str, str]:
    """Call from a namespace under an identity; who answered, and the address by which that one saw the caller."""
    kind = socket.SOCK_STREAM if transport == "tcp" else socket.SOCK_DGRAM
    with namespace.entered(), identity(uid, gid):
        made = socket.socket(pods.INET[family], kind)
    with made:
        made.settimeout(PATIENCE)
        if mark:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, struct.pack("I", mark))
        if source or source_port:
            transparent(made)
            made.bind((source, source_port))
        # A reset instead of TIME_WAIT: hundreds of calls from one address are no calls from one port.
        made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        try:
            made.connect((address, port))
            if transport == "udp":
                made.send(b"who?")
                answer = made.recv(512)
            else:
                answer = b"".join(iter(lambda: made.recv(512), b""))
        except TimeoutError:
            return "timeout", ""
        except ConnectionError:
            return "refused", ""
        except OSError as error:
            return os.strerror(error.errno or 0), ""
    name, _, peer = answer.decode().strip().partition(" ")
    return name, peer
