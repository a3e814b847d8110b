"""Take an empty nftables table away, and only an empty one: one netlink batch, so all of it or nothing.

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
    from collections.abc import Sequence

    from meshnet.model.cidr import Family

NETLINK_NETFILTER = 12
BATCH_BEGIN, BATCH_END = 0x10, 0x11
SUBSYSTEM = 10
DELETE_TABLE, GET_CHAIN, DELETE_CHAIN = SUBSYSTEM << 8 | 2, SUBSYSTEM << 8 | 4, SUBSYSTEM << 8 | 5
TABLE_NAME = CHAIN_TABLE = 1
CHAIN_NAME = 3
REQUEST, ACK, NON_RECURSIVE, DUMP = 0x1, 0x4, 0x100, 0x300
ERROR, DONE = 2, 3
HEADERS = 20  # nlmsghdr and nfgenmsg
"""linux/netlink.h, linux/netfilter/nfnetlink.h, linux/netfilter/nf_tables.h."""

PROTOCOL_FAMILY = {4: 2, 6: 10}


def delete_table(family: Family, table: str, chains: Sequence[str] = ()) -> bool:
    """Delete a table of the current namespace with those of ``chains`` that it has, when it holds nothing else.

    False, and nothing is changed, when it holds more, a chain has a rule or is jumped to, or it isn't there.
    """
    import socket

    kind = PROTOCOL_FAMILY[family]
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, NETLINK_NETFILTER) as netlink:
        netlink.settimeout(5.0)
        netlink.bind((0, 0))
        # iptables-nft-save prints every built-in chain of a table, though only those exist that had a rule once
        names = [chain for chain in _chains(netlink, family, table) if chain in chains]
        bodies = [_text(CHAIN_TABLE, table) + _text(CHAIN_NAME, name) for name in names]
        parts = [_message(DELETE_CHAIN, REQUEST | NON_RECURSIVE, 2, kind, 0, body) for body in bodies]
        parts.append(_message(DELETE_TABLE, REQUEST | ACK | NON_RECURSIVE, 2, kind, 0, _text(TABLE_NAME, table)))
        begin, end = (_message(word, REQUEST, 2, 0, SUBSYSTEM) for word in (BATCH_BEGIN, BATCH_END))
        netlink.send(b"".join((begin, *parts, end)))
        code = _verdict(netlink, table)
    if code == 0:
        return True
    if code in (errno.EBUSY, errno.ENOENT):
        return False
    if code == errno.EPERM:
        raise PermissionMissing(f"deleting table {table} needs CAP_NET_ADMIN", hint="run it as root")
    raise ToolError(f"can't delete the empty table {table}: {os.strerror(code)}")


def _chains(netlink: library.socket, family: Family, table: str) -> list[str]:
    """The chains that a table really has."""
    netlink.send(_message(GET_CHAIN, REQUEST | DUMP, 1, PROTOCOL_FAMILY[family], 0))
    found: list[str] = []
    while True:
        answer = _received(netlink, table)
        place = 0
        while place < len(answer):
            length, kind = struct.unpack_from("=IH", answer, place)
            if kind in (DONE, ERROR):
                return found
            texts = _texts(answer[place + HEADERS : place + length])
            if texts.get(CHAIN_TABLE) == table:
                found.append(texts[CHAIN_NAME])
            place += (length + 3) & ~3


def _texts(attributes: bytes) -> dict[int, str]:
    """The attributes for a chain's names, as text."""
    found: dict[int, str] = {}
    place = 0
    while place < len(attributes):
        length, kind = struct.unpack_from("=HH", attributes, place)
        if kind in (CHAIN_TABLE, CHAIN_NAME):
            found[kind] = attributes[place + 4 : place + length].rstrip(b"\0").decode("utf-8", "replace")
        place += (length + 3) & ~3
    return found


def _text(kind: int, text: str) -> bytes:
    """A netlink attribute with a string."""
    body = text.encode() + b"\0"
    return struct.pack("=HH", 4 + len(body), kind) + body + b"\0" * (-len(body) % 4)


def _message(kind: int, flags: int, sequence: int, family: int, resource: int, body: bytes = b"") -> bytes:
    payload = struct.pack("=BB", family, 0) + struct.pack("!H", resource) + body
    return struct.pack("=IHHII", 16 + len(payload), kind, flags, sequence, 0) + payload


def _verdict(netlink: library.socket, table: str) -> int:
    """The errno that the kernel gives the batch, that of the first message refused; 0 when it went in."""
    answer = _received(netlink, table)
    _, kind, _, _, _, code = struct.unpack_from("=IHHIIi", answer)
    if kind != ERROR:
        raise ToolError(f"an answer of kind {kind} from the kernel about table {table}")
    return -int(code)


def _received(netlink: library.socket, table: str) -> bytes:
    try:
        return netlink.recv(1 << 20)
    except TimeoutError as error:
        raise ToolError(f"no answer from the kernel about table {table}") from error
