"""Policy rules, routes and addresses of the namespace that the calling thread is in, asked of the kernel itself.

Over netlink and not through ``ip -json``: two processes and a JSON reader cost more than everything else on the way
to an apply that finds nothing to do. Addresses are text in the spelling of ``model/cidr``, whatever ``ip`` would print.
"""

from __future__ import annotations

import _struct as struct
import errno
import sys
from _socket import if_indextoname

from meshnet.kernel.netlink import PROTOCOL_FAMILY, ROUTE, Netlink, attributes, text
from meshnet.model.cidr import BITS, address_text
from meshnet.model.errors import ToolError
from meshnet.model.marks import FULL
from meshnet.model.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from meshnet.model.cidr import Family

GET_ADDRESS, GET_ROUTE, GET_RULE = 22, 26, 34
RTA_DST, RTA_OIF, RTA_GATEWAY, RTA_PRIORITY, RTA_TABLE = 1, 4, 5, 6, 15
IFA_ADDRESS, IFA_LOCAL = 1, 2
"""linux/rtnetlink.h, linux/if_addr.h."""

FRA_DST, FRA_SRC, FRA_IIFNAME, FRA_PRIORITY, FRA_FWMARK = 1, 2, 3, 6, 10
FRA_TABLE, FRA_FWMASK, FRA_OIFNAME, FRA_PROTOCOL = 15, 16, 17, 21
FIB_RULE_INVERT = 0x2
"""linux/fib_rules.h."""

LOOPBACK = 1
"""The index of ``lo`` in every namespace (LOOPBACK_IFINDEX; loopback_net_init insists on it)."""

GLOBAL = 0
"""RT_SCOPE_UNIVERSE of linux/rtnetlink.h."""

LINK_LOCAL4 = bytes((169, 254))
"""RFC 3927. Pods of an IPv6 cluster have one for their way out to IPv4; it has global scope, and nobody reaches it."""


@value
class SeenRule:
    """A policy rule. Empty text: that selector isn't there. ``mark`` is ``0xNUMBER/0xMASK``, a block has its length."""

    priority: int
    table: int
    protocol: int
    inverted: bool = False
    source: str = ""
    destination: str = ""
    mark: str = ""
    incoming: str = ""
    outgoing: str = ""


@value
class SeenRoute:
    """A route. ``kind`` is the number of its type (linux/rtnetlink.h, RTN_UNICAST …); empty text: it has no such thing.

    ``destination`` always has its length; ``metric`` is 0 where there is none.
    """

    kind: int
    destination: str
    table: int
    protocol: int
    gateway: str = ""
    device: str = ""
    metric: int = 0


@value
class SeenAddress:
    """An address with its prefix length, such as ``127.0.0.1/8``."""

    text: str
    on_loopback: bool
    is_global: bool


@value
class SeenRouting:
    """What one family of a namespace has; ``loopback`` are the addresses on ``lo``."""

    rules: tuple[SeenRule, ...] = ()
    routes: tuple[SeenRoute, ...] = ()
    loopback: tuple[str, ...] = ()


def read(family: Family, protocol: int = 0) -> SeenRouting:
    """Rules and routes of all tables that bear a protocol (0: any), and the addresses of ``lo``. ToolError."""
    try:
        with Netlink(ROUTE, f"IPv{family} rules and routes") as netlink:
            # Addresses first: what comes first on a socket comes in small pieces, and of rules one might be missed.
            held = _addresses(netlink, family)
            rules = [_rule(family, body) for body in _listed(netlink, GET_RULE, family, bytes(11))]
            # A gateway may hold a million routes of a routing daemon: the kernel leaves out those of other protocols.
            routes = _listed(netlink, GET_ROUTE, family, struct.pack("=4xB6x", protocol))
    except OSError as error:
        raise ToolError(f"can't read IPv{family} rules and routes: {error.strerror}") from error
    return SeenRouting(
        tuple(rule for rule in rules if protocol in (0, rule.protocol)),
        tuple(_route(family, body) for body in routes if protocol in (0, body[5])),
        tuple(item.text for item in held if item.on_loopback),
    )


def addresses(family: Family) -> tuple[SeenAddress, ...]:
    """Every address of a family that an interface has. ToolError."""
    try:
        with Netlink(ROUTE, f"IPv{family} addresses") as netlink:
            return _addresses(netlink, family)
    except OSError as error:
        raise ToolError(f"can't read IPv{family} addresses: {error.strerror}") from error


def _addresses(netlink: Netlink, family: Family) -> tuple[SeenAddress, ...]:
    return tuple(_address(family, body) for body in _listed(netlink, GET_ADDRESS, family, bytes(7)))


def _listed(netlink: Netlink, kind: int, family: Family, rest: bytes) -> list[bytes]:
    """What the kernel lists of a family; nothing when it hasn't got that family.

    Without IPv6 in the kernel it answers about addresses and routes with those of IPv4 (rtnl_dump_all), so that each
    answer is asked for its family.
    """
    number = PROTOCOL_FAMILY[family]
    try:
        return [body for body in netlink.dump(kind, bytes((number,)) + rest) if body[0] == number]
    except OSError as error:
        if error.errno in (errno.EAFNOSUPPORT, errno.EOPNOTSUPP):
            return []
        raise


def _rule(family: Family, body: bytes) -> SeenRule:
    """fib_rule_hdr and its attributes (fib_nl_fill_rule in net/core/fib_rules.c)."""
    _, to_bits, from_bits, _, table, _, _, _, flags = struct.unpack_from("=8BI", body)
    found = attributes(body, 12)
    mark = ""
    if FRA_FWMARK in found or FRA_FWMASK in found:
        mark = f"{_number(found, FRA_FWMARK):#x}/{_number(found, FRA_FWMASK, FULL):#x}"
    return SeenRule(
        _number(found, FRA_PRIORITY),
        _number(found, FRA_TABLE, table),
        found.get(FRA_PROTOCOL, b"\0")[0],
        bool(flags & FIB_RULE_INVERT),
        _block(family, found[FRA_SRC], from_bits) if FRA_SRC in found else "",
        _block(family, found[FRA_DST], to_bits) if FRA_DST in found else "",
        mark,
        text(found.get(FRA_IIFNAME, b"")),
        text(found.get(FRA_OIFNAME, b"")),
    )


def _route(family: Family, body: bytes) -> SeenRoute:
    """rtmsg and its attributes (fib_dump_info in net/ipv4/fib_semantics.c, rt6_fill_node in net/ipv6/route.c)."""
    _, bits, _, _, table, protocol, _, kind = struct.unpack_from("=8B", body)
    found = attributes(body, 12)
    return SeenRoute(
        kind,
        _block(family, found.get(RTA_DST, bytes(BITS[family] // 8)), bits),
        _number(found, RTA_TABLE, table),
        protocol,
        _address_text(family, found[RTA_GATEWAY]) if RTA_GATEWAY in found else "",
        _name(_number(found, RTA_OIF)),
        _number(found, RTA_PRIORITY),
    )


def _address(family: Family, body: bytes) -> SeenAddress:
    """ifaddrmsg and its attributes; with a peer on the other end, IFA_ADDRESS is the peer's."""
    _, bits, _, scope, index = struct.unpack_from("=4BI", body)
    found = attributes(body, 8)
    own = found[IFA_LOCAL] if IFA_LOCAL in found else found[IFA_ADDRESS]
    is_global = scope == GLOBAL and (family == 6 or own[:2] != LINK_LOCAL4)
    return SeenAddress(_block(family, own, bits), index == LOOPBACK, is_global)


def _number(found: dict[int, bytes], kind: int, otherwise: int = 0) -> int:
    return int.from_bytes(found[kind], sys.byteorder) if kind in found else otherwise


def _block(family: Family, body: bytes, bits: int) -> str:
    return f"{_address_text(family, body)}/{bits}"


def _address_text(family: Family, body: bytes) -> str:
    return address_text(family, int.from_bytes(body, "big"))


def _name(index: int) -> str:
    """The name of an interface; empty for none, and for one that went away meanwhile and took its routes along."""
    try:
        return if_indextoname(index) if index else ""
    except OSError:
        return ""
