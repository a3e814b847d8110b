"""What a rule asks of a packet: the options of each match to a condition, or to its own words if it isn't known."""

from __future__ import annotations

from meshnet.model.protocols import PROTOCOLS, TCP_FLAGS
from meshnet.model.rule import (
    AddressesAre,
    AddressIs,
    AddressType,
    Comment,
    ConnectionIs,
    ConnectionMark,
    FlagsAre,
    Fragment,
    IcmpIs,
    IdSpan,
    InSet,
    InterfaceIs,
    OwnerIs,
    PacketMark,
    PortIs,
    PortsAre,
    ProtocolIs,
    SocketFound,
    UnknownMatch,
)
from meshnet.parse.numbers import HIGHEST_ID, NotKnown, address, block, masked, number, ports, span
from meshnet.parse.options import Malformed, Option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from meshnet.model.cidr import Family
    from meshnet.model.rule import Condition, End
    from meshnet.parse.options import Block

    Reader = Callable[[list[Option], Family], list[Condition]]

WITH_PORTS = ("tcp", "udp", "sctp", "dccp", "udplite")
STATES = ("INVALID", "NEW", "ESTABLISHED", "RELATED", "UNTRACKED", "SNAT", "DNAT")
ICMP_NAMES = {
    "echo-reply": 0, "pong": 0, "destination-unreachable": 3, "source-quench": 4, "redirect": 5, "echo-request": 8,
    "ping": 8, "router-advertisement": 9, "router-solicitation": 10, "time-exceeded": 11, "ttl-exceeded": 11,
    "parameter-problem": 12, "timestamp-request": 13, "timestamp-reply": 14,
}  # fmt: skip
ICMP6_NAMES = {
    "destination-unreachable": 1, "packet-too-big": 2, "time-exceeded": 3, "ttl-exceeded": 3, "parameter-problem": 4,
    "echo-request": 128, "ping": 128, "echo-reply": 129, "pong": 129, "router-solicitation": 133,
    "router-advertisement": 134, "neighbour-solicitation": 135, "neighbor-solicitation": 135,
    "neighbour-advertisement": 136, "neighbor-advertisement": 136, "redirect": 137,
}  # fmt: skip
ADDRESS_TYPES = (
    "UNSPEC", "UNICAST", "LOCAL", "BROADCAST", "ANYCAST", "MULTICAST", "BLACKHOLE", "UNREACHABLE", "PROHIBIT",
    "THROW", "NAT", "XRESOLVE",
)  # fmt: skip


def own(option: Option, family: Family) -> list[Condition]:
    """The conditions of one option of the rule itself; the address options are read by ``addresses``."""
    text = option.values[0] if option.values else ""
    match option.name:
        case "-p":
            return _protocol(text, option)
        case "-i":
            return [InterfaceIs("in", text, option.negated)]
        case "-o":
            return [InterfaceIs("out", text, option.negated)]
        case "-f":
            return [Fragment(option.negated)]
        case "-s" | "-d":
            return [one_address(option.name, text, option.negated, family)]
        case _:
            return []  # -4, -6 and -c say nothing about packets


def one_address(flag: str, text: str, negated: bool, family: Family) -> Condition:
    """A name in an address's place would have been resolved when the rule was loaded: nobody knows to what."""
    try:
        network, mask = block(text, family)
    except NotKnown:
        if ":" in text if family == 4 else text[:1].isdigit() and ":" not in text:
            raise Malformed(f"an address of IPv{family} behind {flag}") from None
        return UnknownMatch((*(("!",) if negated else ()), flag, text))
    return AddressIs("source" if flag == "-s" else "destination", network, mask, negated)


def _protocol(text: str, option: Option) -> list[Condition]:
    word = text.lower()
    try:
        kind = PROTOCOLS[word] if word in PROTOCOLS else number(text, 255)
    except NotKnown:
        return [UnknownMatch(option.words())]
    if kind == 0:
        if option.negated:
            raise Malformed("a protocol that packets have behind ! -p") from None
        return []
    return [ProtocolIs(kind, option.negated)]


def read_match(found: Block, family: Family) -> list[Condition]:
    reader = READERS.get(found.name)
    if found.flag == "-p" and found.name not in OF_PROTOCOLS:
        if found.options:
            raise Malformed(f"a match (-m) before {found.options[0].name}")
        return []
    if reader is None:
        return [UnknownMatch(found.words())]
    try:
        return reader(list(found.options), family)
    except NotKnown:
        return [UnknownMatch(found.words())]


def _one(option: Option) -> str:
    if len(option.values) != 1:
        raise NotKnown
    return option.values[0]


def _transport(options: list[Option], family: Family) -> list[Condition]:
    del family
    made: list[Condition] = []
    for option in options:
        match option.name:
            case "--sport" | "--source-port":
                made.append(PortIs("source", *ports(_one(option)), option.negated))
            case "--dport" | "--destination-port":
                made.append(PortIs("destination", *ports(_one(option)), option.negated))
            case "--tcp-flags":
                made.append(_flags(option))
            case "--syn":
                made.append(FlagsAre(23, 2, option.negated))
            case _:
                raise NotKnown
    return made


def _flags(option: Option) -> FlagsAre:
    if len(option.values) != 2:
        raise NotKnown
    mask, wanted = (_flag_bits(text) for text in option.values)
    return FlagsAre(mask, wanted, option.negated)


def _flag_bits(text: str) -> int:
    bits = 0
    for name in text.split(","):
        if name == "ALL":
            bits |= 63
        elif name in TCP_FLAGS:
            bits |= TCP_FLAGS[name]
        elif name != "NONE":
            raise NotKnown
    return bits


def _multiport(options: list[Option], family: Family) -> list[Condition]:
    del family
    ends = {"--sports": "source", "--source-ports": "source", "--dports": "destination", "--ports": "either"}
    ends["--destination-ports"] = "destination"
    if len(options) != 1 or options[0].name not in ends:
        raise NotKnown
    spans = tuple(ports(text) for text in _one(options[0]).split(","))
    return [PortsAre(ends[options[0].name], spans, options[0].negated)]  # type: ignore[arg-type]


def _icmp(option_name: str, names: dict[str, int]) -> Reader:
    def read(options: list[Option], family: Family) -> list[Condition]:
        del family
        made: list[Condition] = []
        for option in options:
            if option.name != option_name:
                raise NotKnown
            text = _one(option)
            kind, slash, code = text.partition("/")
            if text in ("any", "255") and option_name == "--icmp-type":
                made.append(IcmpIs(None, negated=option.negated))
                continue
            first = number(code, 255) if slash else 0
            read_kind = names[kind] if kind in names else number(kind, 255)
            made.append(IcmpIs(read_kind, first, first if slash else 255, option.negated))
        return made

    return read


def _owner(options: list[Option], family: Family) -> list[Condition]:
    del family
    uid = gid = socket = None
    groups = False
    for option in options:
        match option.name:
            case "--uid-owner":
                uid = IdSpan(*span(_one(option), "-", HIGHEST_ID), option.negated)
            case "--gid-owner":
                gid = IdSpan(*span(_one(option), "-", HIGHEST_ID), option.negated)
            case "--socket-exists":
                socket = not option.negated
            case "--suppl-groups":
                groups = True
            case _:
                raise NotKnown
    return [OwnerIs(uid, gid, groups, socket)]


def _mark(kind: type[PacketMark] | type[ConnectionMark]) -> Reader:
    def read(options: list[Option], family: Family) -> list[Condition]:
        del family
        if len(options) != 1 or options[0].name != "--mark":
            raise NotKnown
        return [kind(*masked(_one(options[0])), options[0].negated)]

    return read


def _states(option: Option) -> tuple[str, ...]:
    found = tuple(_one(option).split(","))
    if not all(state in STATES for state in found):
        raise NotKnown
    return found


def _conntrack(options: list[Option], family: Family) -> list[Condition]:
    del family
    states: tuple[str, ...] = ()
    negated, direction = False, ""
    for option in options:
        if option.name == "--ctstate":
            states, negated = _states(option), option.negated
        elif option.name == "--ctdir" and not option.negated and _one(option) in ("ORIGINAL", "REPLY"):
            direction = _one(option)
        else:
            raise NotKnown
    return [ConnectionIs(states, negated, direction)]  # type: ignore[arg-type]


def _state(options: list[Option], family: Family) -> list[Condition]:
    del family
    if len(options) != 1 or options[0].name != "--state":
        raise NotKnown
    return [ConnectionIs(_states(options[0]), options[0].negated, old=True)]


def _socket(options: list[Option], family: Family) -> list[Condition]:
    del family
    names = {option.name for option in options}
    if not names <= {"--transparent", "--nowildcard", "--restore-skmark"}:
        raise NotKnown
    return [SocketFound("--transparent" in names, "--nowildcard" in names, "--restore-skmark" in names)]


def _types(option: Option) -> tuple[str, ...]:
    found = tuple(_one(option).split(","))
    if not all(kind in ADDRESS_TYPES for kind in found):
        raise NotKnown
    return found


def _addrtype(options: list[Option], family: Family) -> list[Condition]:
    del family
    made = AddressType()
    for option in options:
        source, destination = (made.source, made.source_negated), (made.destination, made.destination_negated)
        limit = made.limit
        match option.name:
            case "--src-type":
                source = (_types(option), option.negated)
            case "--dst-type":
                destination = (_types(option), option.negated)
            case "--limit-iface-in":
                limit = "in"
            case "--limit-iface-out":
                limit = "out"
            case _:
                raise NotKnown
        made = AddressType(*source, *destination, limit)
    return [made]


def _set(options: list[Option], family: Family) -> list[Condition]:
    del family
    if len(options) != 1 or options[0].name != "--match-set" or len(options[0].values) != 2:
        raise NotKnown
    name, sides = options[0].values
    return [InSet(name, tuple(sides.split(",")), options[0].negated)]


def _comment(options: list[Option], family: Family) -> list[Condition]:
    del family
    if len(options) != 1 or options[0].name != "--comment":
        raise NotKnown
    return [Comment(_one(options[0]))]


def _range(options: list[Option], family: Family) -> list[Condition]:
    made: list[Condition] = []
    for option in options:
        if option.name not in ("--src-range", "--dst-range"):
            raise NotKnown
        first, dash, last = _one(option).partition("-")
        low = address(first, family)
        high = address(last, family) if dash else low
        end: End = "source" if option.name == "--src-range" else "destination"
        made.append(AddressesAre(end, ((low, high),), option.negated))
    return made


OF_PROTOCOLS = (*WITH_PORTS, "icmp", "1", "icmp6", "icmpv6", "ipv6-icmp", "58", "6", "17")
"""Protocols whose own match comes with ``-p``."""

READERS: dict[str, Reader] = {
    **dict.fromkeys(WITH_PORTS, _transport),
    **dict.fromkeys(("icmp", "1"), _icmp("--icmp-type", ICMP_NAMES)),
    **dict.fromkeys(("icmp6", "icmpv6", "ipv6-icmp", "58"), _icmp("--icmpv6-type", ICMP6_NAMES)),
    "6": _transport,
    "17": _transport,
    "multiport": _multiport,
    "owner": _owner,
    "mark": _mark(PacketMark),
    "connmark": _mark(ConnectionMark),
    "conntrack": _conntrack,
    "state": _state,
    "socket": _socket,
    "addrtype": _addrtype,
    "set": _set,
    "comment": _comment,
    "iprange": _range,
}
