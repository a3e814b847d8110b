"""Where a captured connection was going: endpoints, and the two ways in which the kernel keeps the destination."""

from __future__ import annotations

import socket
import struct
from typing import TYPE_CHECKING

from meshnet.model.value import value

if TYPE_CHECKING:
    from meshnet.model.cidr import Family

SO_ORIGINAL_DST = 80
"""linux/netfilter_ipv4.h; IP6T_SO_ORIGINAL_DST in linux/netfilter_ipv6/ip6_tables.h is the same number."""

SOCKADDR_IN = struct.Struct("!2xH4s8x")
SOCKADDR_IN6 = struct.Struct("!2xH4x16s4s")


@value
class Endpoint:
    """One end of a connection; ``scope`` is the interface index of an IPv6 link-local address, else 0."""

    host: str
    port: int
    scope: int = 0

    @property
    def family(self) -> Family:
        return 6 if ":" in self.host else 4

    @property
    def sockaddr(self) -> tuple[str, int] | tuple[str, int, int, int]:
        """The form that the socket module takes."""
        return (self.host, self.port) if self.family == 4 else (self.host, self.port, 0, self.scope)

    def __str__(self) -> str:
        return f"{self.host}:{self.port}" if self.family == 4 else f"[{self.host}]:{self.port}"


def endpoint_of(sockaddr: tuple[str, int] | tuple[str, int, int, int]) -> Endpoint:
    """An endpoint from what the socket module gives."""
    if len(sockaddr) == 2:
        return Endpoint(sockaddr[0], sockaddr[1])
    return Endpoint(sockaddr[0], sockaddr[1], sockaddr[3])


def read_original4(raw: bytes) -> Endpoint:
    """A ``struct sockaddr_in`` of the kernel."""
    number, address = SOCKADDR_IN.unpack(raw)
    return Endpoint(socket.inet_ntop(socket.AF_INET, address), number)


def read_original6(raw: bytes) -> Endpoint:
    """A ``struct sockaddr_in6`` of the kernel; its scope is in host order."""
    number, address, scope = SOCKADDR_IN6.unpack(raw)
    return Endpoint(socket.inet_ntop(socket.AF_INET6, address), number, struct.unpack("=I", scope)[0])


def original_destination(accepted: socket.socket) -> Endpoint | None:
    """What connection tracking remembers of the first packet; None when it knows nothing of this connection.

    It also answers for connections that nobody rewrote, with the socket's own address
    (net/netfilter/nf_conntrack_proto.c, getorigdst).
    """
    try:
        if accepted.family == socket.AF_INET:
            return read_original4(accepted.getsockopt(socket.IPPROTO_IP, SO_ORIGINAL_DST, SOCKADDR_IN.size))
        return read_original6(accepted.getsockopt(socket.IPPROTO_IPV6, SO_ORIGINAL_DST, SOCKADDR_IN6.size))
    except OSError:
        return None  # no conntrack in this namespace, no entry, or one in another zone


def destination_of(
    remembered: Endpoint | None, local: Endpoint, listening: int, own_ports: frozenset[int], *, inbound: bool
) -> Endpoint | None:
    """Where to dial for an accepted connection; None when that would be the sidecar itself.

    REDIRECT leaves the destination with connection tracking, TPROXY leaves it on the socket: a local port other
    than the one listened on. A client that dials 15006 itself has neither: it must not be answered with a dial of
    15006, which would be accepted here, dialled again, and so on until the ports run out. What comes inbound is
    always for this pod, so there one of the sidecar's ports is the sidecar; outbound, another pod's sidecar may
    well be meant, and only the address that this connection came in by tells them apart.
    """
    found = remembered or (local if local.port != listening else None)
    if found is None or (found.port in own_ports and (inbound or found.host == local.host)):
        return None
    return found
