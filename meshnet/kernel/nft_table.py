"""Which nftables tables there are, and taking an empty one away: over netlink, without the ``nft`` program.

``nft delete table`` would take a table with all that is in it, so that a rule which somebody adds between our look and
our delete is lost; the kernel's NLM_F_NONREC flag refuses instead. Chains and table go in one batch, so all or none.
"""

from __future__ import annotations

import _struct as struct
import errno
import posix

from meshnet.kernel.netlink import (
    ACK,
    NETFILTER,
    PROTOCOL_FAMILY,
    REQUEST,
    Netlink,
    attributes,
    message,
    text,
    text_attribute,
)
from meshnet.model.errors import PermissionMissing, ToolError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from meshnet.model.cidr import Family

BATCH_BEGIN, BATCH_END = 0x10, 0x11
SUBSYSTEM = 10
GET_TABLE, DELETE_TABLE = SUBSYSTEM << 8 | 1, SUBSYSTEM << 8 | 2
GET_CHAIN, DELETE_CHAIN = SUBSYSTEM << 8 | 4, SUBSYSTEM << 8 | 5
TABLE_NAME = CHAIN_TABLE = 1
TABLE_USERDATA = 6
CHAIN_NAME = 3
NON_RECURSIVE = 0x100
HEADER = 4  # bytes of a nfgenmsg
INET = 1  # NFPROTO_INET
"""linux/netlink.h, linux/netfilter/nfnetlink.h, linux/netfilter/nf_tables.h."""

COMMENT = 0
"""The kind of a comment in a table's and a rule's user data (NFTNL_UDATA_TABLE_COMMENT, NFTNL_UDATA_RULE_COMMENT)."""

ABSENT = (errno.EPROTONOSUPPORT, errno.EOPNOTSUPP, errno.EINVAL)
"""What a kernel says that has no nfnetlink at all, or no nf_tables in it (nfnetlink_rcv_msg)."""


def tables(family: Family) -> tuple[str, ...]:
    """The names of a family's tables in the current namespace, whoever made them; none when there is no nf_tables.

    Looking creates none. PermissionMissing without CAP_NET_ADMIN.
    """
    return tuple(name for name, _ in _listed(PROTOCOL_FAMILY[family]))


def inet_tables() -> tuple[tuple[str, str], ...]:
    """Name and comment of each table of family inet; errors as for ``tables``."""
    return tuple(_listed(INET))


def delete_table(family: Family, table: str, chains: Sequence[str] = ()) -> bool:
    """Delete a table of the current namespace with those of ``chains`` that it has, when it holds nothing else.

    False, and nothing is changed, when it holds more, a chain has a rule or is jumped to, or it isn't there.
    """
    kind = PROTOCOL_FAMILY[family]
    with Netlink(NETFILTER, f"table {table}") as netlink:
        # iptables-nft-save prints every built-in chain of a table, though only those exist that had a rule once
        listed = [attributes(body, HEADER) for body in netlink.dump(GET_CHAIN, _header(kind))]
        names = [text(item[CHAIN_NAME]) for item in listed if text(item[CHAIN_TABLE]) == table]
        bodies = [text_attribute(CHAIN_TABLE, table) + text_attribute(CHAIN_NAME, n) for n in names if n in chains]
        parts = [message(DELETE_CHAIN, REQUEST | NON_RECURSIVE, 0, _header(kind) + body) for body in bodies]
        last = _header(kind) + text_attribute(TABLE_NAME, table)
        parts.append(message(DELETE_TABLE, REQUEST | ACK | NON_RECURSIVE, 0, last))
        begin, end = (message(word, REQUEST, 0, _header(0, SUBSYSTEM)) for word in (BATCH_BEGIN, BATCH_END))
        code = netlink.carry_out(b"".join((begin, *parts, end)))
    if code == 0:
        return True
    if code in (errno.EBUSY, errno.ENOENT):
        return False
    if code == errno.EPERM:
        raise PermissionMissing(f"deleting table {table} needs CAP_NET_ADMIN", hint="run it as root")
    raise ToolError(f"can't delete the empty table {table}: {posix.strerror(code)}")


def _listed(family: int) -> list[tuple[str, str]]:
    try:
        with Netlink(NETFILTER, "nft tables") as netlink:
            bodies = netlink.dump(GET_TABLE, _header(family))
    except OSError as error:
        if error.errno in ABSENT:
            return []
        if error.errno == errno.EPERM:
            raise PermissionMissing("listing nft tables needs CAP_NET_ADMIN", hint="run it as root") from error
        raise ToolError(f"can't see which nft tables there are: {error.strerror}") from error
    found = (attributes(body, HEADER) for body in bodies)
    return [(text(item[TABLE_NAME]), comment(item.get(TABLE_USERDATA, b""))) for item in found]


def comment(data: bytes) -> str:
    """User data are entries of a kind, a length and as many bytes; nft puts comments there, and the kernel looks at
    none of it."""
    place = 0
    while place + 2 <= len(data):
        kind, length = data[place], data[place + 1]
        if kind == COMMENT:
            return text(data[place + 2 : place + 2 + length])
        place += 2 + length
    return ""


def _header(family: int, resource: int = 0) -> bytes:
    return struct.pack("=BB", family, 0) + struct.pack("!H", resource)
