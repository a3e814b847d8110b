"""A rule set as a namespace holds it: anybody's tables, chains and rules, one value for one rule of iptables.

A ``Program`` says what a spec means, in no backend's words and only as far as meshnet needs them; this is what a
tool loaded, ours or not, so that it can be simulated, compared and checked. Nothing is lost on the way: a match or a
target that meshnet doesn't know keeps its words, and whoever reads it says "undecided" instead of guessing.
"""

from __future__ import annotations

from meshnet.model.marks import FULL
from meshnet.model.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    from meshnet.model.cidr import Family

    End = Literal["source", "destination"]
    Ends = Literal["source", "destination", "either"]
    Way = Literal["in", "out"]

BUILT_IN = {
    "raw": ("PREROUTING", "OUTPUT"),
    "mangle": ("PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"),
    "nat": ("PREROUTING", "INPUT", "OUTPUT", "POSTROUTING"),
    "filter": ("INPUT", "FORWARD", "OUTPUT"),
    "security": ("INPUT", "FORWARD", "OUTPUT"),
}
"""The hooks of each table (net/ipv4/netfilter/iptable_*.c)."""

PROTOCOLS = {
    "all": 0,
    "icmp": 1,
    "tcp": 6,
    "udp": 17,
    "dccp": 33,
    "gre": 47,
    "esp": 50,
    "ah": 51,
    "ipv6-icmp": 58,
    "icmpv6": 58,
    "sctp": 132,
    "udplite": 136,
}
"""/etc/protocols, as far as rules name them; the tools print a number for all others."""

TCP_FLAGS = {"FIN": 1, "SYN": 2, "RST": 4, "PSH": 8, "ACK": 16, "URG": 32}
"""linux/tcp.h; ``ALL`` is every one of them and ``NONE`` none."""


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
class AddressRange:
    """xt_iprange."""

    end: End
    first: int
    last: int
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
    """xt_multiport: any of the spans; ``either`` asks about the source and the destination."""

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
    """One ``-m conntrack`` (or ``-m state``, which is its ``--ctstate``). ``states`` may name SNAT and DNAT."""

    states: tuple[str, ...] = ()
    states_negated: bool = False
    direction: Literal["", "ORIGINAL", "REPLY"] = ""
    old: bool = False


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
    """CT: conntrack's zone (None: of neither direction), or no tracking at all. The first one that is met holds."""

    notrack: bool = False
    original_zone: int | None = None
    reply_zone: int | None = None
    more: tuple[str, ...] = ()


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
    """TPROXY; ``address`` 0 is that of the interface, ``port`` 0 the packet's."""

    port: int
    address: int = 0
    number: int = 0
    mask: int = 0


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
        | AddressRange
        | InterfaceIs
        | PortIs
        | PortsAre
        | FlagsAre
        | IcmpIs
        | OwnerIs
        | PacketMark
        | ConnectionMark
        | ConnectionIs
        | SocketFound
        | AddressType
        | InSet
        | Fragment
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


@value
class HeldRule:
    """One rule. ``line`` is where its text stands (0: nowhere), and no part of what makes two rules the same."""

    conditions: tuple[Condition, ...]
    action: Action
    line: int = 0

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, HeldRule):
            return NotImplemented
        return self.conditions == other.conditions and self.action == other.action

    def __hash__(self) -> int:
        return hash((self.conditions, self.action))

    @property
    def comment(self) -> str:
        return next((item.text for item in self.conditions if isinstance(item, Comment)), "")


@value
class HeldChain:
    """``policy`` of a built-in chain, empty for any other."""

    name: str
    policy: str
    rules: tuple[HeldRule, ...]


@value
class HeldTable:
    name: str
    chains: tuple[HeldChain, ...]

    def chain(self, name: str) -> HeldChain | None:
        return next((chain for chain in self.chains if chain.name == name), None)


@value
class RuleSet:
    """Every table of one family, in the order in which they were printed."""

    family: Family
    tables: tuple[HeldTable, ...] = ()

    def table(self, name: str) -> HeldTable | None:
        return next((table for table in self.tables if table.name == name), None)
