"""Sets of the kernel that iptables' rules look into: read over netlink, written through ``ipset restore``."""

from __future__ import annotations

import _struct as struct
import errno
import posix
import time

from meshnet.kernel.netlink import (
    ACK,
    NETFILTER,
    REQUEST,
    Netlink,
    attribute,
    attributes,
    message,
    nested,
    text,
    text_attribute,
)
from meshnet.kernel.run import find, start
from meshnet.kernel.together import awaited
from meshnet.model.errors import PermissionMissing, ToolError
from meshnet.model.plan import SetText

TYPE_CHECKING = False
if TYPE_CHECKING:
    from meshnet.kernel.ports import Work
    from meshnet.kernel.run import Ran

MODULE = "/sys/module/ip_set"
"""There, built in or loaded, once any set was made. Asking an absent one by netlink would have it loaded."""

SUBSYSTEM = 6
DESTROY, LIST = SUBSYSTEM << 8 | 3, SUBSYSTEM << 8 | 7
PROTOCOL, NAME, TYPE, FAMILY, FLAGS, DATA, ADT = 1, 2, 3, 5, 6, 7, 8
IP, CIDR, PORT, PORT_TO = 1, 3, 4, 5
IPV4, IPV6 = 1, 2
NAMES_ONLY = 1 << 2
VERSION = 6
"""linux/netfilter/ipset/ip_set.h. Protocol 6 is what Linux 2.6.39 and all later ones speak."""

HEADER = 4  # bytes of a nfgenmsg
NESTED = 0x8000
INET, INET6 = 2, 10
ABSENT = (errno.EPROTONOSUPPORT, errno.EOPNOTSUPP, errno.EINVAL, errno.ENOENT)
PATIENCE = 1.5
"""Seconds. Rules that were deleted let go of their sets a moment later (nf_tables_trans_destroy_work)."""


def installed() -> bool:
    return find("ipset") is not None


def read(prefix: str) -> tuple[SetText, ...]:
    """The sets whose names begin so, with their members; none without sets in the kernel. Looking loads no module."""
    if posix.access("/sys/module", posix.F_OK) and not posix.access(MODULE, posix.F_OK):
        return ()
    try:
        with Netlink(NETFILTER, "sets") as netlink:
            asked = attribute(PROTOCOL, bytes((VERSION,))) + attribute(FLAGS | 0x4000, struct.pack("!I", NAMES_ONLY))
            listed = netlink.dump(LIST, _header() + asked, says_when_interrupted=True)
            names = [text(attributes(body, HEADER)[NAME]) for body in listed]
            return tuple(_read(netlink, name) for name in names if name.startswith(prefix))
    except OSError as error:
        if error.errno in ABSENT:
            return ()
        if error.errno == errno.EPERM:
            raise PermissionMissing("listing sets needs CAP_NET_ADMIN", hint="run it as root") from error
        raise ToolError(f"can't see which sets there are: {error.strerror}") from error


def begin(lines: str) -> Work[None]:
    """Start ``ipset restore``, and return at once; ``finish`` raises ToolError with the tool's words."""
    return awaited(start(["ipset", "restore"], text=lines), _restored)


def destroy(names: tuple[str, ...]) -> None:
    """Take sets away, over netlink: an image without ``ipset`` can be rid of what one with it has made.

    One that somebody's rule still looks into stays; whoever looks next tries again. PermissionMissing, ToolError.
    """
    deadline = time.monotonic() + PATIENCE
    left = list(names)
    with Netlink(NETFILTER, "sets") as netlink:
        while left := [name for name in left if not _destroyed(netlink, name)]:
            if time.monotonic() > deadline:
                return
            time.sleep(0.02)


def _destroyed(netlink: Netlink, name: str) -> bool:
    asked = attribute(PROTOCOL, bytes((VERSION,))) + text_attribute(NAME, name)
    code = netlink.carry_out(message(DESTROY, REQUEST | ACK, 0, _header() + asked))
    if code == errno.EPERM:
        raise PermissionMissing("taking sets away needs CAP_NET_ADMIN", hint="run it as root")
    return code in (0, errno.ENOENT)


def _read(netlink: Netlink, name: str) -> SetText:
    asked = attribute(PROTOCOL, bytes((VERSION,))) + text_attribute(NAME, name)
    kind, family, members = "", 0, []
    for body in netlink.dump(LIST, _header() + asked, says_when_interrupted=True):
        found = attributes(body, HEADER)
        kind = text(found[TYPE]) if TYPE in found else kind
        family = {INET: 4, INET6: 6}.get(found[FAMILY][0], 0) if FAMILY in found else family
        members += [_member(item) for item in nested(found.get(ADT, b""))]
    if kind == "bitmap:port":
        from meshnet.model.ranges import merged

        return SetText(name, kind, 0, merged(members))
    return SetText(name, kind, family, tuple(sorted(members)))


def _member(body: bytes) -> tuple[int, int]:
    """A block as (network, prefix), or ports as (first, last)."""
    found = attributes(body, 0)
    if PORT in found:
        first = int.from_bytes(found[PORT], "big")
        return first, int.from_bytes(found[PORT_TO], "big") if PORT_TO in found else first
    address = attributes(found.get(IP, b""), 0)
    packed = address.get(IPV4, address.get(IPV6, b""))
    return int.from_bytes(packed, "big"), found[CIDR][0] if CIDR in found else 8 * len(packed)


def _header() -> bytes:
    return struct.pack("=BBH", INET, 0, 0)


def _restored(ran: Ran) -> None:
    if not ran.ok:
        raise ToolError("ipset refused", hint="does this kernel have ip_set_hash_net?", detail=ran.err)
