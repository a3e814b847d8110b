"""What a simulator has to know of a namespace besides its rules: links, routes, policy rules, sockets and sets."""

from __future__ import annotations

from meshnet.model.cidr import Cidr
from meshnet.model.marks import Mark
from meshnet.model.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    from meshnet.model.cidr import Family
    from meshnet.model.plan import SetText
    from meshnet.model.program import Transport

    RouteKind = Literal["unicast", "local", "blackhole", "unreachable", "prohibit", "throw"]

LOCAL_TABLE, MAIN_TABLE, DEFAULT_TABLE = 255, 254, 253
"""linux/rtnetlink.h."""


@value
class Address:
    """An address on a link and the length of the network that comes with it."""

    family: Family
    number: int
    prefix: int


@value
class Link:
    """The settings are those in force, so ``all`` and the link's own taken together (ip-sysctl.rst)."""

    name: str
    addresses: tuple[Address, ...] = ()
    route_localnet: bool = False
    rp_filter: Literal[0, 1, 2] = 0
    src_valid_mark: bool = False
    accept_local: bool = False

    def first(self, family: Family) -> int | None:
        """The primary address, which REDIRECT and TPROXY take."""
        return next((address.number for address in self.addresses if address.family == family), None)


LOOPBACK_LINK = Link("lo", (Address(4, 0x7F000001, 8), Address(6, 1, 128)))


@value
class Route:
    """A route that somebody added; those of the links' own addresses come with the links."""

    block: Cidr
    link: str
    table: int = MAIN_TABLE
    kind: RouteKind = "unicast"
    source: int | None = None


@value
class Lookup:
    """A policy rule: which packets look into which table, or what becomes of them instead (``kind``)."""

    family: Family
    priority: int
    table: int
    mark: Mark | None = None
    source: Cidr | None = None
    destination: Cidr | None = None
    in_link: str = ""
    out_link: str = ""
    uids: tuple[int, int] | None = None
    negated: bool = False
    kind: Literal["", "blackhole", "unreachable", "prohibit"] = ""


@value
class Listener:
    """A socket that waits. ``address`` None is the wildcard; ``family`` None is a socket of IPv6 that serves both."""

    name: str
    transport: Transport
    port: int
    family: Family | None = None
    address: int | None = None
    transparent: bool = False
    uid: int = 0
    gid: int = 0


@value
class Member:
    """One entry of a set: a block, a span of ports (all if None), or both."""

    block: Cidr | None = None
    ports: tuple[int, int] | None = None
    protocol: int | None = None


@value
class AddressSet:
    """An ipset; ``dimensions`` is the part of its type behind the colon, such as ``("net", "port")``."""

    name: str
    dimensions: tuple[str, ...]
    members: tuple[Member, ...]


def address_set(made: SetText) -> AddressSet:
    """A set that was rendered, or read back."""
    if made.type == "bitmap:port":
        return AddressSet(made.name, ("port",), tuple(Member(ports=ports) for ports in made.members))
    family: Family = 6 if made.family == 6 else 4
    blocks = (Cidr(family, network, prefix) for network, prefix in made.members)
    return AddressSet(made.name, ("net",), tuple(Member(block) for block in blocks))


@value
class Host:
    """``assume``: whoever isn't listed among the listeners is taken to be there: an application on every port that is
    addressed, and a transparent socket on every port that TPROXY names."""

    links: tuple[Link, ...] = (LOOPBACK_LINK,)
    routes: tuple[Route, ...] = ()
    lookups: tuple[Lookup, ...] = ()
    listeners: tuple[Listener, ...] = ()
    sets: tuple[AddressSet, ...] = ()
    forwards: tuple[Family, ...] = ()
    assume: bool = True

    def link(self, name: str) -> Link | None:
        return next((link for link in self.links if link.name == name), None)
