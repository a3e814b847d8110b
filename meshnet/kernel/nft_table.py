"""Take an empty nftables table away, and only an empty one: one small netlink batch.

``nft delete table`` would take a table with all that is in it, so that a rule which somebody adds between our look and
our delete is lost; the kernel's NLM_F_NONREC flag refuses instead, and the ``nft`` program need not be installed.
"""

from __future__ import annotations

import errno
import os
import struct

from meshnet.model.errors import PermissionMissing, ToolError

TYPE_CHECKING = False
if TYPE_CHECKING:
    import socket as library

    from meshnet.model.cidr import Family

NETLINK_NETFILTER = 12
BATCH_BEGIN, BATCH_END = 0x10, 0x11
SUBSYSTEM = 10
DELETE_TABLE = SUBSYSTEM << 8 | 2
TABLE_NAME = 1
REQUEST, ACK, NON_RECURSIVE = 0x1, 0x4, 0x100
ERROR = 2
"""linux/netlink.h, linux/netfilter/nfnetlink.h, linux/netfilter/nf_tables.h."""

PROTOCOL_FAMILY = {4: 2, 6: 10}


def delete_table(family: Family, table: str) -> bool:
    """Delete a table of the current namespace that holds nothing; False when it holds something or isn't there."""
    import socket

    name = table.encode() + b"\0"
    attribute = struct.pack("=HH", 4 + len(name), TABLE_NAME) + name + b"\0" * (-len(name) % 4)
    batch = (
        _message(BATCH_BEGIN, REQUEST, 1, 0, SUBSYSTEM)
        + _message(DELETE_TABLE, REQUEST | ACK | NON_RECURSIVE, 2, PROTOCOL_FAMILY[family], 0, attribute)
        + _message(BATCH_END, REQUEST, 3, 0, SUBSYSTEM)
    )
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, NETLINK_NETFILTER) as netlink:
        netlink.settimeout(5.0)
        netlink.bind((0, 0))
        netlink.send(batch)
        code = _verdict(netlink, table)
    if code == 0:
        return True
    if code in (errno.EBUSY, errno.ENOENT):
        return False
    if code == errno.EPERM:
        raise PermissionMissing(f"deleting table {table} needs CAP_NET_ADMIN", hint="run it as root")
    raise ToolError(f"can't delete the empty table {table}: {os.strerror(code)}")


def _message(kind: int, flags: int, sequence: int, family: int, resource: int, body: bytes = b"") -> bytes:
    payload = struct.pack("=BB", family, 0) + struct.pack("!H", resource) + body
    return struct.pack("=IHHII", 16 + len(payload), kind, flags, sequence, 0) + payload


def _verdict(netlink: library.socket, table: str) -> int:
    """The errno that the kernel gives the batch; 0 when it went in."""
    try:
        answer = netlink.recv(65536)
    except TimeoutError as error:
        raise ToolError(f"no answer from the kernel about table {table}") from error
    _, kind, _, _, _, code = struct.unpack_from("=IHHIIi", answer)
    if kind != ERROR:
        raise ToolError(f"an answer of kind {kind} from the kernel about table {table}")
    return -int(code)
