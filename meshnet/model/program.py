"""The program: what a spec means in netfilter and routing, in no backend's words.

A rule that names addresses belongs to their family; every other rule holds for each family of the program. A match
with several values is one match (any of them; negated: none of them): a backend writes one rule per value, or a set.
"""

from __future__ import annotations

from meshnet.model.cidr import Cidr
from meshnet.model.marks import Mark
from meshnet.model.names import NFT_TABLE
from meshnet.model.ports import PortRange
from meshnet.model.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    from meshnet.model.cidr import Family
    from meshnet.model.spec import IdRange

    Table = Literal["raw", "mangle", "nat"]
    Hook = Literal["PREROUTING", "OUTPUT"]
    Transport = Literal["tcp", "udp"]
    State = Literal["INVALID", "NEW", "ESTABLISHED", "RELATED", "DNAT"]

TABLES: tuple[Table, ...] = ("raw", "mangle", "nat")
"""In the order in which a packet meets them (uapi/linux/netfilter_ipv4.h: -300, -150, -100)."""


@value
class Protocol:
    name: Transport


@value
class Source:
    cidrs: tuple[Cidr, ...]
    negated: bool = False


@value
class Destination:
    cidrs: tuple[Cidr, ...]
    negated: bool = False


@value
class InInterface:
    """A name that ends in ``+`` stands for every name with that beginning."""

    names: tuple[str, ...]
    negated: bool = False


@value
class OutInterface:
    names: tuple[str, ...]
    negated: bool = False


@value
class SourcePorts:
    ports: tuple[PortRange, ...]
    negated: bool = False


@value
class DestinationPorts:
    ports: tuple[PortRange, ...]
    negated: bool = False


@value
class Owner:
    """Credentials of the socket that sent the packet; only in OUTPUT (net/netfilter/xt_owner.c)."""

    kind: Literal["uid", "gid"]
    ids: tuple[int, ...]
    negated: bool = False


@value
class OwnerWithin:
    """The user of the socket that sent the packet is in one of the ranges; only in OUTPUT, as ``Owner``."""

    ranges: tuple[IdRange, ...]


@value
class MarkIs:
    mark: Mark
    negated: bool = False


@value
class ConnmarkIs:
    mark: Mark
    negated: bool = False


@value
class CtState:
    """Any of the states. ``DNAT``: the destination was translated; of a first packet that isn't known before nat."""

    states: tuple[State, ...]
    negated: bool = False


@value
class CtDirection:
    direction: Literal["ORIGINAL", "REPLY"]


@value
class SocketIs:
    """A socket for this very packet exists here; ``transparent``: and it may use foreign addresses."""

    transparent: bool = False


@value
class Syn:
    """The first segment of a TCP connection: SYN set, ACK, RST and FIN clear."""

    negated: bool = False


@value
class Accept:
    pass


@value
class Drop:
    pass


@value
class Return:
    pass


@value
class Jump:
    chain: str


@value
class SetMark:
    mark: Mark


@value
class SaveMark:
    """The packet's mark into the connection's, under the mask."""

    mask: int


@value
class RestoreMark:
    """The connection's mark into the packet's, under the mask."""

    mask: int


@value
class Zone:
    number: int


@value
class Redirect:
    ports: PortRange


@value
class Tproxy:
    """Hand the packet to the transparent socket on ``port``, whatever its destination, and mark it."""

    port: int
    mark: Mark


if TYPE_CHECKING:
    Match = (
        Protocol
        | Source
        | Destination
        | InInterface
        | OutInterface
        | SourcePorts
        | DestinationPorts
        | Owner
        | OwnerWithin
        | MarkIs
        | ConnmarkIs
        | CtState
        | CtDirection
        | SocketIs
        | Syn
    )
    Target = Accept | Drop | Return | Jump | SetMark | SaveMark | RestoreMark | Zone | Redirect | Tproxy


@value
class Rule:
    """``id`` names table, direction, pass and step; ``origin`` is the path in the spec that it comes from."""

    id: str
    matches: tuple[Match, ...]
    target: Target
    origin: str
    family: Family | None = None

    def __post_init__(self) -> None:
        for match in self.matches:
            if isinstance(match, (Source, Destination)):
                for cidr in match.cidrs:
                    if cidr.family != self.family:
                        raise ValueError(f"rule {self.id} is for {self.family} and names {cidr}")

    def holds_for(self, family: Family) -> bool:
        return self.family is None or self.family == family


@value
class Chain:
    table: Table
    name: str
    rules: tuple[Rule, ...]


@value
class Entry:
    """A rule in a built-in chain, the way into ours; ``first``: ahead of what others have there, else behind it."""

    table: Table
    hook: Hook
    rule: Rule
    first: bool = True


@value
class PolicyRule:
    """Packets with ``mark`` look up ``table`` first."""

    family: Family
    mark: Mark
    table: int


@value
class LocalRoute:
    """In ``table``, ``block`` is local: its packets are delivered here, whoever they are for."""

    block: Cidr
    table: int


@value
class LoopbackAddress:
    """An address that must be on ``lo``, since a socket can't bind it otherwise."""

    address: Cidr
    table: int


@value
class Program:
    """Everything that has to be in a namespace for one spec; the order of chains and rules is the order of meaning.

    ``nft_table``: what the table is called, where there is one table for all of it.
    """

    name: str
    families: tuple[Family, ...]
    chains: tuple[Chain, ...] = ()
    entries: tuple[Entry, ...] = ()
    policy_rules: tuple[PolicyRule, ...] = ()
    local_routes: tuple[LocalRoute, ...] = ()
    loopback_addresses: tuple[LoopbackAddress, ...] = ()
    nft_table: str = NFT_TABLE

    def rules(self) -> tuple[Rule, ...]:
        return tuple(rule for chain in self.chains for rule in chain.rules)
