from __future__ import annotations

import pytest

from meshnet.model.rule import (
    AddressIs,
    AddressType,
    Comment,
    ConnectionIs,
    ConnectionMark,
    FlagsAre,
    IcmpIs,
    IdSpan,
    InSet,
    InterfaceIs,
    OwnerIs,
    PacketMark,
    PortIs,
    PortsAre,
    ProtocolIs,
    Return,
    SocketFound,
    UnknownMatch,
)
from meshnet.model.ruleset import HeldRule
from tests.unit.parse.rules import rule

TCP, UDP = ProtocolIs(6), ProtocolIs(17)
ALL = (1 << 128) - 1


MATCHES = [
    ("-p tcp", (TCP,)),
    ("-p 6", (TCP,)),
    ("-p all", ()),
    ("! -p udp", (ProtocolIs(17, True),)),
    ("-p ! udp", (ProtocolIs(17, True),)),
    ("-s 10.1.2.3/8", (AddressIs("source", 10 << 24, 0xFF000000),)),
    ("-d 10.0.0.0/255.0.255.0", (AddressIs("destination", 10 << 24, 0xFF00FF00),)),
    ("! -d 127.0.0.1", (AddressIs("destination", 0x7F000001, 0xFFFFFFFF, True),)),
    ("-d ! 127.0.0.1", (AddressIs("destination", 0x7F000001, 0xFFFFFFFF, True),)),
    ("-s example.org", (UnknownMatch(("-s", "example.org")),)),
    ("-i eth+ ! -o lo", (InterfaceIs("in", "eth+"), InterfaceIs("out", "lo", True))),
    ("-p tcp --dport 80", (TCP, PortIs("destination", 80, 80))),
    ("-p tcp -m tcp --dport ! 80", (TCP, PortIs("destination", 80, 80, True))),
    ("-p udp -m udp ! --sport 1000:", (UDP, PortIs("source", 1000, 65535, True))),
    ("-p tcp -m owner --uid-owner 5 --dport :80", (TCP, PortIs("destination", 0, 80), OwnerIs(IdSpan(5, 5)))),
    ("-p tcp -m multiport --dports 53,3000:5000", (TCP, PortsAre("destination", ((53, 53), (3000, 5000))))),
    ("-p tcp -m multiport ! --ports 1", (TCP, PortsAre("either", ((1, 1),), True))),
    ("-p tcp --syn", (TCP, FlagsAre(23, 2))),
    ("-p tcp -m tcp ! --tcp-flags FIN,SYN,RST,ACK SYN", (TCP, FlagsAre(23, 2, True))),
    ("-p icmp --icmp-type echo-request", (ProtocolIs(1), IcmpIs(8))),
    ("-p icmp -m icmp --icmp-type 3/4", (ProtocolIs(1), IcmpIs(3, 4, 4))),
    ("-m owner ! --uid-owner 106-108", (OwnerIs(IdSpan(106, 108, True)),)),
    ("-m owner --gid-owner 7 --suppl-groups", (OwnerIs(gid=IdSpan(7, 7), groups=True),)),
    ("-m owner --gid-owner java", (UnknownMatch(("-m", "owner", "--gid-owner", "java")),)),
    ("-m mark --mark 1337", (PacketMark(1337),)),
    ("-m mark ! --mark 0x1/0xff", (PacketMark(1, 255, True),)),
    ("-m connmark --mark 0x539", (ConnectionMark(1337),)),
    ("-m conntrack --ctstate RELATED,ESTABLISHED", (ConnectionIs(("RELATED", "ESTABLISHED")),)),
    ("-m conntrack ! --ctstate DNAT --ctdir REPLY", (ConnectionIs(("DNAT",), True, "REPLY"),)),
    ("-m state --state NEW", (ConnectionIs(("NEW",), old=True),)),
    ("-m conntrack --ctproto 6", (UnknownMatch(("-m", "conntrack", "--ctproto", "6")),)),
    ("-m socket --transparent", (SocketFound(True),)),
    ("-m addrtype ! --dst-type LOCAL", (AddressType(destination=("LOCAL",), destination_negated=True),)),
    ("-m set ! --match-set blocked src,dst", (InSet("blocked", ("src", "dst"), True),)),
    ('-m comment --comment "a \\"b\\" \\\\ c"', (Comment('a "b" \\ c'),)),
    ('-m comment --comment ""', (Comment(""),)),
    ("-m comment --comment -x", (Comment("-x"),)),
    ("-m limit --limit 5/min", (UnknownMatch(("-m", "limit", "--limit", "5/min")),)),
]


@pytest.mark.parametrize(("words", "expected"), MATCHES, ids=lambda item: item if isinstance(item, str) else "")
def test_matches(words, expected) -> None:
    assert rule(f"{words} -j RETURN") == HeldRule(expected, Return())
