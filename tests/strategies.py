"""Random valid specs, and the values that they are made of."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from meshnet.model.cidr import BITS, Cidr, network_of
from meshnet.model.marks import FULL
from meshnet.model.ports import PortRange
from meshnet.model.spec import (
    HIGHEST_ID,
    Dns,
    IdRange,
    Inbound,
    InterfaceNetwork,
    Interfaces,
    Marks,
    Nftables,
    Outbound,
    Passthrough,
    Routing,
    Sidecar,
    Spec,
    UserExclusion,
)
from meshnet.model.value import replace
from meshnet.spec.check import problems
from meshnet.spec.readers import KERNEL_TABLES

if TYPE_CHECKING:
    from meshnet.model.cidr import Family

MOST = 6
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789"

ports = st.integers(1, 65535)
ids = st.one_of(st.sampled_from((0, 1, 1000, 1337, HIGHEST_ID)), st.integers(0, HIGHEST_ID))
names = st.one_of(
    st.sampled_from(("on", "null", "no", "0", "1e3", "0x1f", "a-b", "y")),
    st.from_regex(r"[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?", fullmatch=True),
)


@st.composite
def port_ranges(draw: st.DrawFn) -> PortRange:
    first = draw(ports)
    if draw(st.booleans()):
        return PortRange(first, first)
    return PortRange(first, draw(st.integers(first, 65535)))


@st.composite
def cidrs(draw: st.DrawFn, families: tuple[Family, ...] = (4, 6)) -> Cidr:
    """A block of one of the families, from everything down to one address."""
    family = draw(st.sampled_from(families))
    bits = BITS[family]
    prefix = draw(st.one_of(st.sampled_from((0, 8, bits - 1, bits)), st.integers(0, bits)))
    usual = int(ipaddress.ip_address("10.0.0.0" if family == 4 else "2001:db8::"))
    address = draw(st.one_of(st.integers(0, (1 << bits) - 1), st.integers(usual, usual + 0xFFFF)))
    return network_of(family, address, prefix)


@st.composite
def addresses(draw: st.DrawFn, families: tuple[Family, ...] = (4, 6)) -> Cidr:
    """The block of one address that a host can have."""
    family = draw(st.sampled_from(families))
    low, high = ("1.0.0.0", "126.255.255.255") if family == 4 else ("2001:db8::", "2001:db8:ffff::")
    number = draw(st.integers(int(ipaddress.ip_address(low)), int(ipaddress.ip_address(high))))
    return Cidr(family, number, BITS[family])


@st.composite
def interfaces(draw: st.DrawFn) -> str:
    """``eth0`` and the like, names of full length, and beginnings with ``+``."""
    first = draw(st.sampled_from(("eth", "net", "tap", "vnet", "k6t-", "br_", "wg.", "e@")))
    name = first + draw(st.text(LETTERS, max_size=14 - len(first)))
    return name + draw(st.sampled_from(("", "+", "x")))


def some(entries: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    """No entry, one, or up to six different ones."""
    return st.lists(entries, max_size=MOST, unique=True).map(tuple)


def some_or_all(entries: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(st.just("*"), some(entries))


@st.composite
def marks(draw: st.DrawFn) -> tuple[Marks, int]:
    """Two marks, their mask, and a third mark under it for a sidecar of its own."""
    mask = draw(st.sampled_from((0xFFF, 0xFFF, FULL, 0xFF0000, 0x80000003)))
    numbers = draw(st.lists(st.integers(1, FULL).map(lambda number: number & mask), min_size=3, max_size=3))
    bits = [1 << place for place in range(32) if mask >> place & 1]
    found: list[int] = []
    for number, bit in zip(numbers, bits, strict=False):
        found.append(number if number and number not in found else next(b for b in (bit, *bits) if b not in found))
    return Marks(found[0], found[1], mask), found[2]


@st.composite
def sidecars(draw: st.DrawFn, mark: int) -> Sidecar:
    """Known by a uid, a gid, a mark, or any of these together."""
    by = draw(st.sets(st.sampled_from(("uids", "gids", "mark")), min_size=1))
    identities = st.lists(ids, min_size=1, max_size=3, unique=True).map(tuple)
    uids: tuple[int, ...] = draw(identities) if "uids" in by else ()
    gids: tuple[int, ...] = draw(identities) if "gids" in by else ()
    return Sidecar(uids, gids, mark if "mark" in by else None)


@st.composite
def inbounds(draw: st.DrawFn, families: tuple[Family, ...], listeners: list[int]) -> Inbound:
    mode = draw(st.sampled_from(("redirect", "tproxy", "tproxy", "none")))
    listener = PortRange(listeners[0], listeners[0])
    if mode == "redirect" and draw(st.booleans()):
        listener = PortRange(listeners[0], listeners[0] + draw(st.integers(0, 9)))
    return Inbound(
        mode=mode,  # type: ignore[arg-type]
        port=listener,
        ports=draw(some_or_all(port_ranges())),
        exclude_ports=draw(some(port_ranges())),
        exclude_sources=draw(some(cidrs(families))),
        tunnel_port=draw(st.sampled_from((None, listeners[1]))),
        original_source=draw(st.booleans()),
        own_pod=draw(st.sampled_from((True, True, False))),
    )


@st.composite
def outbounds(draw: st.DrawFn, families: tuple[Family, ...], listener: int) -> Outbound:
    exclude = draw(some(cidrs(families)))
    loopback = network_of(4, 127 << 24 | draw(st.integers(0, 0xFFFFFF)), draw(st.sampled_from((8, 16, 24, 32, 32))))
    included = draw(some_or_all(cidrs(families)))
    if included != "*":  # an entry that can't matter is a problem, so random ones are left out here
        dead = (*exclude, Cidr(6, 1, 128))
        included = tuple(block for block in included if block not in dead and not loopback.covers(block))
    return Outbound(
        mode=draw(st.sampled_from(("redirect", "redirect", "none"))),
        port=listener,
        cidrs=included,
        exclude_cidrs=exclude,
        ports=draw(some(port_ranges())),
        exclude_ports=draw(some(port_ranges())),
        groups=draw(some_or_all(ids)),
        exclude_groups=draw(some(ids)),
        exclude_users=draw(some(user_exclusions())),
        loopback_cidr=loopback,
    )


@st.composite
def id_ranges(draw: st.DrawFn) -> IdRange:
    first = draw(ids)
    return IdRange(first, draw(st.one_of(st.just(first), st.integers(first, min(first + 3, HIGHEST_ID)))))


@st.composite
def user_exclusions(draw: st.DrawFn) -> UserExclusion:
    uids = tuple(draw(st.lists(id_ranges(), min_size=1, max_size=2, unique=True)))
    some_ports = st.lists(st.one_of(st.just(PortRange(53, 53)), port_ranges()), min_size=1, max_size=3, unique=True)
    ports = draw(st.one_of(st.just("*"), some_ports.map(tuple)))
    return UserExclusion(uids, ports, draw(st.sampled_from(("tcp", "udp", "all"))))  # type: ignore[arg-type]


@st.composite
def networks(draw: st.DrawFn, families: tuple[Family, ...], taken: tuple[str, ...]) -> tuple[InterfaceNetwork, ...]:
    """Interfaces that no other entry is about, with a block of some of the families."""
    found: list[InterfaceNetwork] = []
    for name in draw(st.lists(interfaces(), max_size=3)):
        if any(_covers(one, name) or _covers(name, one) for one in (*taken, *(network.interface for network in found))):
            continue
        blocks = [draw(cidrs((family,)).filter(lambda block: not block.everything)) for family in families]
        found.append(InterfaceNetwork(name, tuple(blocks[: draw(st.integers(1, len(blocks)))])))
    return tuple(found)


@st.composite
def specs(draw: st.DrawFn) -> Spec:
    """A valid Spec, every field of which may be anything that a document may say."""
    families = draw(st.sampled_from(("auto", (4,), (6,), (4, 6), (6, 4))))
    allowed: tuple[Family, ...] = (4, 6) if families == "auto" else families  # type: ignore[assignment]
    # Listeners ten ports apart, so that a range of inbound ports meets no other one.
    tens = draw(st.lists(st.integers(1, 6552), min_size=4, max_size=4, unique=True))
    listeners = [ten * 10 for ten in tens]
    both, own = draw(marks())
    exclude = draw(some(interfaces()))
    guest = tuple(name for name in draw(some(interfaces())) if not any(_covers(wild, name) for wild in exclude))
    spec = Spec(
        name=draw(names),
        families=families,  # type: ignore[arg-type]
        sidecar=draw(sidecars(own)),
        inbound=draw(inbounds(allowed, listeners[:2])),
        outbound=draw(outbounds(allowed, listeners[2])),
        dns=Dns(draw(st.sampled_from(("off", "resolvers", "all"))), listeners[3], draw(some(addresses(allowed)))),
        interfaces=Interfaces(exclude, guest, draw(networks(allowed, (*exclude, *guest)))),
        passthrough=draw(passthroughs()),
        marks=both,
        routing=Routing(draw(st.integers(1, 0xFFFFFFFF).filter(lambda table: table not in (0, *KERNEL_TABLES)))),
        drop_invalid=draw(st.booleans()),
        enrol=draw(st.sampled_from(("new-connections", "any-segment"))),  # type: ignore[arg-type]
        nftables=Nftables(draw(st.sampled_from(("meshnet", "pod-1", "a_b")))),
    )
    if spec.outbound.mode == "none" and spec.dns.capture == "off" and draw(st.booleans()):
        spec = replace(spec, sidecar=Sidecar((), (), None))
    assert problems(spec) == []
    return spec


@st.composite
def passthroughs(draw: st.DrawFn) -> Passthrough:
    low, high = int(ipaddress.ip_address("127.0.0.2")), int(ipaddress.ip_address("127.255.255.254"))
    four = draw(st.one_of(st.just(low + 4), st.integers(low, high)))
    six = draw(st.one_of(st.just(6), st.integers(2, 0xFFFF), st.integers(0xFD << 120, (0xFE << 120) - 1)))
    return Passthrough(Cidr(4, four, 32), Cidr(6, six, 128))


def _covers(wild: str, name: str) -> bool:
    return name == wild or (wild.endswith("+") and name.startswith(wild[:-1]))
