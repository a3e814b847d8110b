"""The table of a spec's fields: the one place that decoding, dumping, the JSON Schema and the reference read.

A field's default is that of the value class in ``model/spec``; its attribute is its key in snake case.
"""

from __future__ import annotations

from meshnet.model.cidr import read_cidr
from meshnet.model.ports import read_port, read_ports
from meshnet.model.spec import (
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
from meshnet.model.value import value
from meshnet.spec import readers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

API_VERSION, KIND = "meshnet/v1", "Interception"


@value
class Kind:
    """A kind of word. ``text`` is whether it may stand in quotes; ``says`` goes behind "not" in a message."""

    key: str
    says: str
    example: str
    read: Callable[[str], object]
    text: bool = True


@value
class One:
    """One word; ``optional`` makes null a value (none)."""

    kind: Kind
    optional: bool = False


@value
class Many:
    """A list of words, or the one word ``word`` in place of it; ``least`` is how many entries a list needs."""

    kind: Kind
    word: str = ""
    least: int = 0


@value
class Section:
    made: Callable[..., Any]
    fields: tuple[Field, ...]


@value
class Each:
    """A list of sections. ``needs`` are the keys that none of them may lack; ``example`` is one that has only these."""

    entry: Section
    needs: tuple[str, ...]
    example: object


@value
class Field:
    key: str
    shape: One | Many | Section | Each
    says: str

    @property
    def attribute(self) -> str:
        return "".join("_" + letter.lower() if letter.isupper() else letter for letter in self.key)


def family(word: str) -> int:
    return 6 if readers.choice("ipv4", "ipv6")(word) == "ipv6" else 4


PORT = Kind("port", "a port", "80", read_port)
PORTS = Kind("ports", "a port or a range", "9000-9100", read_ports)
CIDR = Kind("cidr", "a CIDR", "10.0.0.0/8", read_cidr)
ADDRESS = Kind("address", "an address", "10.0.0.10", readers.read_single)
LOOPBACK = Kind("loopbackCidr", "a loopback block", "127.0.0.1/32", readers.read_loopback)
PASSTHROUGH4 = Kind("passthroughIpv4", "a loopback address", "127.0.0.6", readers.read_passthrough4)
PASSTHROUGH6 = Kind("passthroughIpv6", "an IPv6 address", "::6", readers.read_passthrough6)
ID = Kind("id", "a user or group id", "1337", readers.read_id, text=False)
IDS = Kind("ids", "an id or a range", "106-108", readers.read_ids)
MARK = Kind("mark", "a mark", "0x539", readers.read_mark)
TABLE = Kind("table", "a routing table", "133", readers.read_table, text=False)
FLAG = Kind("flag", "true or false", "true", readers.read_flag, text=False)
NAME = Kind("name", "a name", "nginx", readers.read_name)
INTERFACE = Kind("interface", "an interface name", "eth0", readers.read_interface)
FAMILY = Kind("family", "a family", "ipv4", family)
INBOUND_MODE = Kind("inboundMode", "a mode", "tproxy", readers.choice("redirect", "tproxy", "none"))
OUTBOUND_MODE = Kind("outboundMode", "a mode", "redirect", readers.choice("redirect", "none"))
PROFILE = Kind("profile", "a profile", "istio", readers.choice("meshnet", "istio"))
TRANSPORT = Kind("transport", "a transport", "tcp", readers.choice("tcp", "udp", "all"))
ENROL = Kind("enrol", "a word", "new-connections", readers.choice("new-connections", "any-segment"))
NFT_TABLE = Kind("nftTable", "a table's name", "meshnet", readers.read_nft_table)
CAPTURE = Kind("dnsCapture", "a kind of capture", "resolvers", readers.choice("off", "resolvers", "all"))

SIDECAR = (
    Field("uids", Many(ID), "User ids of the proxy; what their processes send is never captured."),
    Field("gids", Many(ID), "Group ids of the proxy; what their processes send is never captured."),
    Field(
        "mark",
        One(MARK, optional=True),
        "Packet mark that the proxy sets on its own sockets, a number within marks.mask; null when it sets none.",
    ),
)

INBOUND = (
    Field(
        "mode",
        One(INBOUND_MODE),
        "How traffic to the pod reaches the proxy: redirect rewrites the destination, tproxy hands the connection "
        "over as it is, none leaves inbound traffic alone.",
    ),
    Field(
        "port",
        One(PORTS),
        "Port on which the proxy takes inbound connections; with redirect also a range, such as 15006-15009.",
    ),
    Field("ports", Many(PORTS, word="*"), 'Destination ports that are captured: "*" for all, an empty list for none.'),
    Field("excludePorts", Many(PORTS), "Destination ports that are never captured; wins over ports."),
    Field("excludeSources", Many(CIDR), "Blocks of client addresses whose connections are never captured."),
    Field(
        "tunnelPort",
        One(PORT, optional=True),
        "Port of the proxy's own tunnel listener, which peers dial directly and which is not captured; null for none.",
    ),
    Field(
        "originalSource",
        One(FLAG),
        "Whether the application sees the client's address; false shows it the passthrough address.",
    ),
    Field(
        "ownPod",
        One(FLAG),
        "Whether the proxy's calls to the pod's own addresses are captured as if a client had called; false leaves "
        "them alone, for a proxy that hands connections over to such an address without mark or passthrough address.",
    ),
)

EXCLUDED_USER = (
    Field("uids", Many(IDS, least=1), "User ids whose processes' traffic is meant."),
    Field("ports", Many(PORTS, word="*", least=1), 'Destination ports that are meant: "*" for all.'),
    Field(
        "transport",
        One(TRANSPORT),
        "Which packets are meant: tcp, udp (DNS queries, nothing else is captured), or all.",
    ),
)

OUTBOUND = (
    Field("mode", One(OUTBOUND_MODE), "How the pod's own traffic reaches the proxy; none leaves it alone."),
    Field("port", One(PORT), "Port on which the proxy takes outbound connections."),
    Field("cidrs", Many(CIDR, word="*"), 'Destination blocks that are captured: "*" for all, an empty list for none.'),
    Field("excludeCidrs", Many(CIDR), "Destination blocks that are never captured; wins over cidrs and ports."),
    Field("ports", Many(PORTS), "Destination ports that are captured whatever cidrs says."),
    Field("excludePorts", Many(PORTS), "Destination ports that are never captured; wins over cidrs and ports."),
    Field(
        "groups",
        Many(ID, word="*"),
        'Group ids whose processes are captured: "*" for all; with a list, every other process is left alone.',
    ),
    Field("excludeGroups", Many(ID), "Group ids whose processes are never captured; wins over groups."),
    Field(
        "excludeUsers",
        Each(Section(UserExclusion, EXCLUDED_USER), ("uids",), UserExclusion((IdRange(106, 108),))),
        "Users whose processes are never captured, altogether or on some ports and by one transport.",
    ),
    Field(
        "loopbackCidr",
        One(LOOPBACK),
        "IPv4 block in 127.0.0.0/8 that counts as the pod's own loopback and always stays direct.",
    ),
)

DNS = (
    Field(
        "capture",
        One(CAPTURE),
        'Which DNS queries (port 53, UDP and TCP) go to the proxy: "off" for none, resolvers for those to the '
        "resolvers below, all for every one.",
    ),
    Field("port", One(PORT), "Port on which the proxy answers DNS queries."),
    Field(
        "resolvers",
        Many(ADDRESS),
        "Addresses of the resolvers whose queries are captured; an empty list takes those of the namespace's "
        "resolv.conf.",
    ),
)

NETWORK = (
    Field("interface", One(INTERFACE), "The interface; a trailing + stands for any rest of the name."),
    Field("cidrs", Many(CIDR, least=1), "The network behind it: one block of each family that it has."),
)

INTERFACES = (
    Field(
        "exclude",
        Many(INTERFACE),
        "Interfaces whose traffic is left alone in both directions; a trailing + stands for any rest of the name.",
    ),
    Field(
        "guest",
        Many(INTERFACE),
        "Interfaces behind which virtual machines live: what enters by them is captured as outbound traffic.",
    ),
    Field(
        "networks",
        Each(
            Section(InterfaceNetwork, NETWORK),
            ("interface", "cidrs"),
            InterfaceNetwork("docker0", (read_cidr("172.17.0.0/16"),)),
        ),
        "Interfaces with a network of their own, such as a bridge of containers: what enters by them and goes beyond "
        "that network is captured as outbound traffic, all else as inbound traffic.",
    ),
)

PASSTHROUGH = (
    Field(
        "ipv4",
        One(PASSTHROUGH4),
        "IPv4 address that the proxy binds when it hands a connection to the application without the client's address.",
    ),
    Field("ipv6", One(PASSTHROUGH6), "The same for IPv6; it is put on the loopback interface."),
)

MARKS = (
    Field("inbound", One(MARK), "Mark of inbound connections, 32 bits within mask."),
    Field("outbound", One(MARK), "Mark of outbound connections, 32 bits within mask."),
    Field("mask", One(MARK), "The bits of a packet's mark that meshnet reads and writes; all others stay as they are."),
)

ROUTING = (
    Field(
        "table",
        One(TABLE),
        "Number of the routing table that holds the local route for tproxy and the original source.",
    ),
)

NFTABLES = (Field("table", One(NFT_TABLE), "Name of the table of family inet that the backend nftables writes."),)

FIELDS = (
    Field("name", One(NAME), "Name of the interception, a DNS label."),
    Field(
        "profile",
        One(PROFILE),
        "Whose rules the namespace gets: meshnet's own, or exactly those that istio-iptables writes (profiles.md says "
        "where the two differ).",
    ),
    Field(
        "families",
        Many(FAMILY, word="auto", least=1),
        "Address families that get rules: auto for those that the namespace has, or a list of ipv4 and ipv6.",
    ),
    Field("sidecar", Section(Sidecar, SIDECAR), "How the proxy's own traffic is known, so that it is not captured."),
    Field("inbound", Section(Inbound, INBOUND), "Traffic that enters the pod."),
    Field("outbound", Section(Outbound, OUTBOUND), "Traffic that the pod's processes send."),
    Field("dns", Section(Dns, DNS), "DNS queries of the pod's processes."),
    Field("interfaces", Section(Interfaces, INTERFACES), "Network interfaces with a meaning of their own."),
    Field("passthrough", Section(Passthrough, PASSTHROUGH), "Source addresses that say: this packet has been proxied."),
    Field("marks", Section(Marks, MARKS), "Packet and connection marks, hexadecimal or decimal."),
    Field("routing", Section(Routing, ROUTING), "Policy routing."),
    Field("dropInvalid", One(FLAG), "Whether packets that conntrack finds invalid are dropped."),
    Field(
        "enrol",
        One(ENROL),
        "Which connections are captured: new-connections leaves those alone that were open before the rules came; "
        "any-segment looks at each segment, and such a connection breaks when it is taken up in mid-stream.",
    ),
    Field("nftables", Section(Nftables, NFTABLES), "What the backend nftables alone needs to know."),
)

SPEC = Section(Spec, FIELDS)
HEAD = {"apiVersion": API_VERSION, "kind": KIND}
HEAD_SAYS = {
    "apiVersion": "Version of this document's form.",
    "kind": "What the document describes.",
}
