"""Connections that conntrack knows in the namespace that the calling thread is in: listed, forgotten one by one."""

from __future__ import annotations

import errno
import os
import struct

from meshnet.kernel.netlink import (
    ACK,
    NETFILTER,
    PROTOCOL_FAMILY,
    REQUEST,
    Netlink,
    attribute,
    attributes,
    message,
)
from meshnet.model.errors import PermissionMissing, ToolError
from meshnet.model.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from meshnet.model.cidr import Family

SUBSYSTEM = 1
GET, DELETE = SUBSYSTEM << 8 | 1, SUBSYSTEM << 8 | 2
TUPLE_ORIG, TUPLE_REPLY, STATUS, PROTOINFO, MARK, ID, ZONE = 1, 2, 3, 4, 8, 12, 18
TUPLE_PROTO, PROTO_NUMBER, PROTO_SOURCE, PROTO_DESTINATION = 2, 1, 2, 3
PROTOINFO_TCP, TCP_STATE = 1, 1
HEADER = 4  # bytes of a nfgenmsg
"""linux/netfilter/nfnetlink.h, nfnetlink_conntrack.h."""

NESTED = 0x8000
"""NLA_F_NESTED, which ctnetlink's strict reader asks for."""

TCP, UDP = 6, 17
DESTINATION_TRANSLATED = 0x20
"""IPS_DST_NAT of linux/netfilter/nf_conntrack_common.h."""

OPEN = range(1, 7)
"""SYN_SENT to LAST_ACK (linux/netfilter/nf_conntrack_tcp.h): not yet over."""

ABSENT = (errno.EPROTONOSUPPORT, errno.EOPNOTSUPP, errno.EINVAL, errno.ENOENT)
"""What a kernel says that has no conntrack, or none that can be asked by netlink."""


@value
class Entry:
    """``port``: where the first packet was sent; ``answered_from``: the port that its answers come from, another one
    when the destination was translated. ``tuple`` and ``number`` are what the kernel knows it by."""

    family: Family
    protocol: int
    port: int
    answered_from: int
    status: int
    mark: int
    zone: int
    tcp_state: int
    tuple: bytes
    number: bytes

    @property
    def translated(self) -> bool:
        return bool(self.status & DESTINATION_TRANSLATED)

    @property
    def open(self) -> bool:
        """Whether it is a connection over TCP that isn't over."""
        return self.protocol == TCP and self.tcp_state in OPEN


def entries(family: Family) -> tuple[Entry, ...]:
    """Every connection of a family over TCP or UDP; none without conntrack in the kernel.

    Some may be told twice, or not at all, when they come and go meanwhile. PermissionMissing, ToolError.
    """
    try:
        with Netlink(NETFILTER, "tracked connections") as netlink:
            bodies = netlink.dump(GET, _header(family), says_when_interrupted=True)
    except OSError as error:
        if error.errno in ABSENT:
            return ()
        if error.errno == errno.EPERM:
            raise PermissionMissing("listing tracked connections needs CAP_NET_ADMIN", hint="run it as root") from error
        raise ToolError(f"can't list tracked connections: {error.strerror}") from error
    return tuple(entry for body in bodies if (entry := _entry(family, body)) is not None)


def forget(stale: Iterable[Entry]) -> int:
    """Have the kernel forget these; how many of them were still there. ToolError."""
    count = 0
    with Netlink(NETFILTER, "tracked connections") as netlink:
        for entry in stale:
            body = _header(entry.family) + attribute(TUPLE_ORIG | NESTED, entry.tuple) + attribute(ID, entry.number)
            if entry.zone:
                body += attribute(ZONE, struct.pack("!H", entry.zone))
            code = netlink.carry_out(message(DELETE, REQUEST | ACK, 0, body))
            if code not in (0, errno.ENOENT):
                raise ToolError(f"can't have a tracked connection forgotten: {os.strerror(code)}")
            count += code == 0
    return count


def _entry(family: Family, body: bytes) -> Entry | None:
    found = attributes(body, HEADER)
    if TUPLE_ORIG not in found or TUPLE_REPLY not in found:
        return None
    sent, answered = (
        attributes(attributes(found[kind], 0).get(TUPLE_PROTO, b""), 0) for kind in (TUPLE_ORIG, TUPLE_REPLY)
    )
    protocol = _number(sent.get(PROTO_NUMBER))
    if protocol not in (TCP, UDP):
        return None
    state = attributes(attributes(found.get(PROTOINFO, b""), 0).get(PROTOINFO_TCP, b""), 0)
    return Entry(
        family,
        protocol,
        _number(sent.get(PROTO_DESTINATION)),
        _number(answered.get(PROTO_SOURCE)),
        _number(found.get(STATUS)),
        _number(found.get(MARK)),
        _number(found.get(ZONE)),
        _number(state.get(TCP_STATE)),
        found[TUPLE_ORIG],
        found.get(ID, bytes(4)),
    )


def _number(body: bytes | None) -> int:
    return int.from_bytes(body, "big") if body else 0


def _header(family: Family) -> bytes:
    return struct.pack("=BBH", PROTOCOL_FAMILY[family], 0, 0)
