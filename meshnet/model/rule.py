"""What one rule asks of a packet, and what it does: one value for one match or target of iptables, or phrase of nft.

Nothing is lost on the way: a match or a target that meshnet doesn't know keeps its words, and whoever reads it says
"undecided" instead of guessing.
"""

from __future__ import annotations

from meshnet.model.marks import FULL
from meshnet.model.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    End = Literal["source", "destination"]
    Ends = Literal["source", "destination", "either"]
    Way = Literal["in", "out"]


@value
class ProtocolIs:
    number: int
    negated: bool = False


@value
class AddressIs:
    """``network`` under ``mask``; iptables takes any mask, not only prefixes."""

    end: End
    network: int
    mask: int
    negated: bool = False


@value
class AddressesAre:
    """xt_iprange, which has one span, or a set of nftables: sorted spans that don't touch one another."""

    end: End
    spans: tuple[tuple[int, int], ...]
    negated: bool = False


@value
class InterfaceIs:
    """A trailing ``+`` stands for any rest."""

    way: Way
    name: str
    negated: bool = False


@value
class PortIs:
    """The protocol's own match (xt_tcpudp): one span, both ends included."""

    end: End
    first: int
    last: int
    negated: bool = False


@value
class PortsAre:
    """xt_multiport, or a set of nftables: any of the spans; ``either`` asks about the source and the destination."""

    end: Ends
    spans: tuple[tuple[int, int], ...]
    negated: bool = False


@value
class FlagsAre:
    """Of the TCP flags under ``mask`` exactly those of ``wanted`` are set."""

    mask: int
    wanted: int
    negated: bool = False


@value
class IcmpIs:
    """``number`` None is any type; codes ``first`` to ``last``."""

    number: int | None
    first: int = 0
    last: int = 255
    negated: bool = False


@value
class IdSpan:
    first: int
    last: int
    negated: bool = False


@value
class OwnerIs:
    """One ``-m owner``, which is asked as a whole: what has no socket fits only what is negated throughout."""

    uid: IdSpan | None = None
    gid: IdSpan | None = None
    groups: bool = False
    socket: bool | None = None


@value
class SenderIs:
    """nftables' ``meta skuid`` and ``skgid``: what no process sent fits neither them nor their negation."""

    kind: Literal["uid", "gid"]
    spans: tuple[tuple[int, int], ...]
    negated: bool = False


@value
class PacketMark:
    number: int
    mask: int = FULL
    negated: bool = False


@value
class ConnectionMark:
    number: int
    mask: int = FULL
    negated: bool = False


@value
class ConnectionIs:
    """One ``-m conntrack`` (or ``-m state``, which is its ``--ctstate``). ``states`` may name SNAT and DNAT; with
    ``tracked`` (nftables' ``ct status``) only what has a connection fits, their negation included."""

    states: tuple[str, ...] = ()
    states_negated: bool = False
    direction: Literal["", "ORIGINAL", "REPLY"] = ""
    old: bool = False
    tracked: bool = False


@value
class SocketFound:
    """xt_socket; a wildcard listener counts only under ``nowildcard``."""

    transparent: bool = False
    nowildcard: bool = False
    restore_mark: bool = False


@value
class AddressType:
    """xt_addrtype: what the local routing table says about an address; ``limit`` to one of the two interfaces."""

    source: tuple[str, ...] = ()
    source_negated: bool = False
    destination: tuple[str, ...] = ()
    destination_negated: bool = False
    limit: Literal["", "in", "out"] = ""


@value
class InSet:
    """ipset; ``sides`` are ``src`` or ``dst`` for each of the set's dimensions."""

    name: str
    sides: tuple[str, ...]
    negated: bool = False


@value
class Fragment:
    """A fragment that isn't the first one. Conntrack has put fragments together ahead of every rule."""

    negated: bool = False


@value
class AnyOf:
    """A set of nftables whose values no other condition takes together."""

    options: tuple[Condition, ...]
    negated: bool = False


@value
class Comment:
    text: str


@value
class UnknownMatch:
    """A match that meshnet doesn't know, or knows in part, in its own words."""

    words: tuple[str, ...]


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
class Call:
    """``-j CHAIN``, or ``-g CHAIN`` which doesn't come back to where it was."""

    chain: str
    goto: bool = False


@value
class Reject:
    reason: str = ""


@value
class PutMark:
    """MARK: ``mark & ~mask ^ number`` (xt_mark.c), of which all other forms of the option are cases."""

    number: int
    mask: int = FULL


@value
class PutConnectionMark:
    """CONNMARK --set-xmark."""

    number: int
    mask: int = FULL


@value
class SaveConnectionMark:
    packet_mask: int = FULL
    connection_mask: int = FULL


@value
class RestoreConnectionMark:
    packet_mask: int = FULL
    connection_mask: int = FULL


@value
class Track:
    """CT: conntrack's zone (None: of neither direction), or no tracking at all. The first one that is met holds; only
    nftables' zone (``again``) has what was not to be tracked tracked after all."""

    notrack: bool = False
    original_zone: int | None = None
    reply_zone: int | None = None
    more: tuple[str, ...] = ()
    again: bool = False


@value
class Translate:
    """A target of nat. ``first`` None keeps the address (REDIRECT and MASQUERADE choose it themselves)."""

    kind: Literal["REDIRECT", "DNAT", "SNAT", "MASQUERADE"]
    first: int | None = None
    last: int | None = None
    ports: tuple[int, int] | None = None
    shift: int | None = None
    flags: tuple[str, ...] = ()


@value
class ToSocket:
    """TPROXY; ``address`` 0 is that of the interface, ``port`` 0 the packet's. What finds no transparent socket is
    dropped, or meets the next rule (``goes_on``, nftables)."""

    port: int
    address: int = 0
    number: int = 0
    mask: int = 0
    goes_on: bool = False


@value
class Note:
    """A target that changes nothing a verdict depends on, and goes on: LOG, NFLOG and their like, in its words."""

    words: tuple[str, ...]


@value
class UnknownTarget:
    words: tuple[str, ...]


@value
class Nothing:
    """A rule without a target: it only counts."""


if TYPE_CHECKING:
    Condition = (
        ProtocolIs
        | AddressIs
        | AddressesAre
        | InterfaceIs
        | PortIs
        | PortsAre
        | FlagsAre
        | IcmpIs
        | OwnerIs
        | SenderIs
        | PacketMark
        | ConnectionMark
        | ConnectionIs
        | SocketFound
        | AddressType
        | InSet
        | Fragment
        | AnyOf
        | Comment
        | UnknownMatch
    )
    Action = (
        Accept
        | Drop
        | Return
        | Call
        | Reject
        | PutMark
        | PutConnectionMark
        | SaveConnectionMark
        | RestoreConnectionMark
        | Track
        | Translate
        | ToSocket
        | Note
        | UnknownTarget
        | Nothing
    )
