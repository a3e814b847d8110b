"""Listeners in the pod that say who they are, so that every packet that lands tells where.

Each answers in two ways: a connection gets its name as text, and a bare SYN gets it in the maximum segment size of
the SYN-ACK, which each listener has for itself. The second one needs no handshake, so it works from any source.
"""

from __future__ import annotations

import errno
import socket
import struct

from meshnet.model.errors import BusyError, ToolError
from meshnet.model.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from types import TracebackType

    from meshnet.model.cidr import Family
    from meshnet.model.flow import Disposition
    from meshnet.model.program import Transport
    from meshnet.model.spec import Spec

SEGMENT_SIZES: dict[Disposition, int] = {
    "direct": 1111,
    "inbound-proxy": 1112,
    "outbound-proxy": 1113,
    "dns-proxy": 1114,
}
BY_SIZE = {size: name for name, size in SEGMENT_SIZES.items()}
IPV6_TRANSPARENT = 75  # linux/in6.h
IP_PKTINFO = 8  # linux/in.h
AF = {4: socket.AF_INET, 6: socket.AF_INET6}
ANY = {4: "0.0.0.0", 6: "::"}  # noqa: S104 (in the pod's namespace, for as long as the probes run)


@value
class Post:
    """One place to listen: who answers there, and on what."""

    name: Disposition
    family: Family
    transport: Transport
    port: int
    transparent: bool = False


def posts(spec: Spec, family: Family, application: Iterable[tuple[Transport, int]]) -> tuple[Post, ...]:
    """The proxy's listeners, and the application's on every port that a flow may reach it at."""
    found: dict[tuple[Transport, int], Post] = {}

    def add(name: Disposition, transport: Transport, port: int, transparent: bool = False) -> None:
        found.setdefault((transport, port), Post(name, family, transport, port, transparent))

    for port in range(spec.inbound.port.first, spec.inbound.port.last + 1) if spec.inbound.active else ():
        add("inbound-proxy", "tcp", port, spec.inbound.mode == "tproxy")
    if spec.outbound.active:
        add("outbound-proxy", "tcp", spec.outbound.port)
    if spec.dns.capture != "off":
        add("dns-proxy", "tcp", spec.dns.port)
        add("dns-proxy", "udp", spec.dns.port)
    for transport, port in application:
        add("direct", transport, port)
    return tuple(found.values())


class Listeners:
    """The sockets of all posts, opened in the namespace that the thread is in; a context manager that closes them."""

    def __init__(self, wanted: Iterable[Post]) -> None:
        self.servers: dict[socket.socket, Post] = {}
        self.accepted: list[socket.socket] = []
        try:
            for post in wanted:
                self.servers[_open(post)] = post
        except BaseException:
            self.close()
            raise

    def answer(self, server: socket.socket) -> None:
        """Take what has come to a server and say who is there."""
        post = self.servers[server]
        try:
            if post.transport == "udp":
                _answer_datagram(server, post)
                return
            connection, _ = server.accept()
        except (BlockingIOError, ConnectionError):
            return  # a reset came between the readiness and the accept
        self.accepted.append(connection)
        connection.setblocking(False)
        try:
            connection.send(post.name.encode())
        except ConnectionError:
            return

    def close(self) -> None:
        for item in (*self.accepted, *self.servers):
            item.close()
        self.accepted.clear()
        self.servers.clear()

    def __enter__(self) -> Listeners:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _answer_datagram(server: socket.socket, post: Post) -> None:
    """Answer from the address that was asked: a socket on the wildcard would be given the route's favourite one, and
    conntrack, which waits for the other, would not translate the answer back. A DNS proxy meets the same.
    """
    _, told, _, sender = server.recvmsg(2048, socket.CMSG_SPACE(32))
    level, kind = (socket.SOL_IP, IP_PKTINFO) if post.family == 4 else (socket.IPPROTO_IPV6, socket.IPV6_PKTINFO)
    asked = next((data for level_of, kind_of, data in told if (level_of, kind_of) == (level, kind)), b"")
    if post.family == 4:  # struct in_pktinfo: interface, address to answer from, address asked (ip(7))
        asked = struct.pack("=I4s4s", 0, asked[8:12], b"")
    server.sendmsg([post.name.encode()], [(level, kind, asked)], 0, sender)


def _open(post: Post) -> socket.socket:
    kind = socket.SOCK_STREAM if post.transport == "tcp" else socket.SOCK_DGRAM
    server = socket.socket(AF[post.family], kind | socket.SOCK_NONBLOCK)
    try:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if post.family == 6:
            server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        if post.transparent:
            make_transparent(server, post.family)
        if post.transport == "udp" and post.family == 4:
            server.setsockopt(socket.SOL_IP, IP_PKTINFO, 1)
        elif post.transport == "udp":
            server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVPKTINFO, 1)
        if post.transport == "tcp":
            server.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, SEGMENT_SIZES[post.name])
        server.bind((ANY[post.family], post.port))
        if post.transport == "tcp":
            server.listen(64)
    except OSError as error:
        server.close()
        if error.errno == errno.EADDRINUSE:
            raise BusyError(
                f"port {post.port}/{post.transport} is in use in the namespace",
                hint="verify brings its own proxy and application: run it before they start, or in a copy of the pod",
            ) from error
        raise ToolError(f"can't listen on port {post.port}/{post.transport}: {error.strerror}") from error
    return server


def make_transparent(item: socket.socket, family: Family) -> None:
    """Let a socket have addresses that are nobody's here (ip(7) IP_TRANSPARENT; needs CAP_NET_ADMIN)."""
    if family == 6:
        item.setsockopt(socket.IPPROTO_IPV6, IPV6_TRANSPARENT, 1)
    else:
        item.setsockopt(socket.SOL_IP, socket.IP_TRANSPARENT, 1)
