"""Rules of nftables in the words of every version, as conditions and actions; what isn't known stays as it is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshnet.model.nft import NftSet
from meshnet.model.ranges import name_number
from meshnet.model.rule import (
    Accept,
    AddressesAre,
    AddressIs,
    AddressType,
    AnyOf,
    Call,
    Comment,
    ConnectionIs,
    ConnectionMark,
    Drop,
    FlagsAre,
    IcmpIs,
    InterfaceIs,
    Note,
    Nothing,
    PacketMark,
    PortIs,
    PortsAre,
    ProtocolIs,
    PutConnectionMark,
    PutMark,
    Reject,
    RestoreConnectionMark,
    Return,
    SaveConnectionMark,
    SenderIs,
    SocketFound,
    ToSocket,
    Track,
    Translate,
    UnknownMatch,
    UnknownTarget,
)
from meshnet.parse.nft_phrases import read_rule

TCP, UDP = ProtocolIs(6), ProtocolIs(17)
PORTS = ((80, 80), (9000, 9100))
SETS = {
    "ports": NftSet("ports", "inet_service", PORTS),
    "blocks": NftSet("blocks", "ipv4_addr", ((10 << 24, (11 << 24) - 1), (0x7F000001, 0x7F000001))),
    "links": NftSet("links", "ifname", ((name_number("a"),) * 2, (name_number("bc"),) * 2)),
    "users": NftSet("users", "uid", ((0, 0), (7, 9))),
}
TEN = ((10 << 24, (11 << 24) - 1), (0x7F000001, 0x7F000001))


def said(words: str):
    return read_rule(words, SETS)


QUESTIONS = [
    ("meta l4proto tcp", (TCP,)),
    ("meta l4proto != 17", (ProtocolIs(17, True),)),
    ("meta l4proto { tcp, udp }", (AnyOf((TCP, UDP)),)),
    ("meta l4proto tcp tcp dport 80", (TCP, PortIs("destination", 80, 80))),
    ("tcp dport 80", (TCP, PortIs("destination", 80, 80))),
    ("udp sport != 1000-2000", (UDP, PortIs("source", 1000, 2000, True))),
    ("tcp dport @ports", (TCP, PortsAre("destination", PORTS))),
    ("tcp dport != { 80, 9000-9100 }", (TCP, PortsAre("destination", PORTS, True))),
    ("th dport 53", (PortsAre("destination", ((53, 53),)),)),
    ("iifname lo", (InterfaceIs("in", "lo"),)),
    ('oifname != "eth*"', (InterfaceIs("out", "eth+", True),)),
    ('iif "lo"', (InterfaceIs("in", "lo"),)),
    ('iifname { "a", "b*" }', (AnyOf((InterfaceIs("in", "a"), InterfaceIs("in", "b+"))),)),
    ("iifname @links", (AnyOf((InterfaceIs("in", "a"), InterfaceIs("in", "bc"))),)),
    ("oifname != @links", (AnyOf((InterfaceIs("out", "a"), InterfaceIs("out", "bc")), True),)),
    ("meta skuid 1337", (SenderIs("uid", ((1337, 1337),)),)),
    ('skuid != "root"', (SenderIs("uid", ((0, 0),), True),)),
    ("meta skuid @users", (SenderIs("uid", ((0, 0), (7, 9))),)),
    ("meta skgid { 5, 3-4 }", (SenderIs("gid", ((3, 4), (5, 5))),)),
    ("meta mark 0x00000539", (PacketMark(1337),)),
    ("meta mark & 0x00000fff != 0x00000539", (PacketMark(1337, 0xFFF, True),)),
    ("mark and 0x4000 == 0x4000", (PacketMark(0x4000, 0x4000),)),
    ("meta mark { 0x1, 0x2 }", (AnyOf((PacketMark(1), PacketMark(2))),)),
    ("ct mark & 0xfff == 0x539", (ConnectionMark(1337, 0xFFF),)),
    ("ct state established,related", (ConnectionIs(("ESTABLISHED", "RELATED")),)),
    ("ct state { new, invalid }", (ConnectionIs(("INVALID", "NEW")),)),
    ("ct state != new", (ConnectionIs(("NEW",), True),)),
    ("ct state & (invalid | new) == 0", (ConnectionIs(("INVALID", "NEW"), True),)),
    ("ct state ! invalid", (ConnectionIs(("INVALID",), True),)),
    ("ct status dnat", (ConnectionIs(("DNAT",), tracked=True),)),
    ("ct status & dnat == 0", (ConnectionIs(("DNAT",), True, tracked=True),)),
    ("ct status ! dnat", (ConnectionIs(("DNAT",), True, tracked=True),)),
    ("ct direction original", (ConnectionIs(direction="ORIGINAL"),)),
    ("ct direction != original", (ConnectionIs(direction="REPLY"),)),
    ("socket transparent 1", (SocketFound(True, True),)),
    ("socket transparent <= 1", (SocketFound(False, True),)),
    ("fib daddr type local", (AddressType(destination=("LOCAL",)),)),
    ("fib saddr type != local", (AddressType(source=("LOCAL",), source_negated=True),)),
    ("tcp flags & (fin | syn | rst | ack) == syn", (TCP, FlagsAre(23, 2))),
    ("tcp flags != syn / fin,syn,rst,ack", (TCP, FlagsAre(23, 2, True))),
    ("tcp flags & syn != syn", (TCP, FlagsAre(2, 2, True))),
]


@pytest.mark.parametrize(("words", "expected"), QUESTIONS, ids=lambda item: item if isinstance(item, str) else "")
def test_questions(words, expected) -> None:
    found = said(f'{words} counter packets 5 bytes 300 return comment "meshnet:a"')
    assert found.conditions == (*expected, Comment("meshnet:a"))
    assert (found.families, found.action, found.words) == ((4, 6), Return(), f"{words} return")


OF_ONE_FAMILY = [
    ("ip daddr 10.1.2.3/8", 4, (AddressIs("destination", 10 << 24, 0xFF000000),)),
    ("ip saddr != 127.0.0.1", 4, (AddressIs("source", 0x7F000001, 0xFFFFFFFF, True),)),
    ("ip daddr 10.0.0.1-10.0.0.9", 4, (AddressesAre("destination", ((10 << 24 | 1, 10 << 24 | 9),)),)),
    ("ip daddr 10.0.0.0-10.0.0.255", 4, (AddressIs("destination", 10 << 24, 0xFFFFFF00),)),
    ("ip saddr @blocks", 4, (AddressesAre("source", TEN),)),
    ("ip daddr != { 127.0.0.1, 10.0.0.0/8 }", 4, (AddressesAre("destination", TEN, True),)),
    ("ip6 daddr ::1", 6, (AddressIs("destination", 1, (1 << 128) - 1),)),
    ("ip protocol udp", 4, (UDP,)),
    ("meta nfproto ipv6", 6, ()),
    ("meta nfproto != ipv6", 4, ()),
    ("meta protocol ip", 4, ()),
    ("icmp type echo-request", 4, (ProtocolIs(1), IcmpIs(8))),
    ("icmpv6 type { 135, 136 }", 6, (ProtocolIs(58), AnyOf((IcmpIs(135), IcmpIs(136))))),
]


@pytest.mark.parametrize(("words", "family", "expected"), OF_ONE_FAMILY, ids=lambda item: str(item)[:40])
def test_questions_that_one_family_alone_fits(words, family, expected) -> None:
    found = said(f"{words} accept")
    assert (found.families, found.conditions, found.action) == ((family,), expected, Accept())
    assert said(f"ip saddr 10.0.0.1 ip6 daddr {words} accept").families == (), "and nobody fits both"


ACTIONS = [
    ("", Nothing()),
    ("continue", Nothing()),
    ("drop", Drop()),
    ("jump b", Call("b")),
    ("goto b", Call("b", goto=True)),
    ("reject", Reject()),
    ("reject with icmpx type port-unreachable", Reject("icmpx port-unreachable")),
    ("meta mark set 0x5", PutMark(5)),
    ("meta mark set meta mark & 0xfffff000 | 0x539", PutMark(0x539, 0xFFF)),
    ("meta mark set meta mark & 0xfffff539 | 0x00000539", PutMark(0x539, 0xFFF)),
    ("meta mark set mark or 0x4", UnknownTarget(("meta", "mark", "set", "mark", "or", "0x4"))),
    ("meta mark set meta mark or 0x4", PutMark(4, 4)),
    ("meta mark set meta mark ^ 0x4", PutMark(4, 0)),
    ("meta mark set ct mark", RestoreConnectionMark()),
    ("meta mark set ct mark & 0xff", RestoreConnectionMark(0xFFFFFFFF, 0xFF)),
    ("ct mark set meta mark", SaveConnectionMark()),
    ("ct mark set ct mark & 0xfffff000 | 0x539", PutConnectionMark(0x539, 0xFFF)),
    ("ct zone set 2", Track(original_zone=2, reply_zone=2, again=True)),
    ("notrack", Track(notrack=True)),
    ("redirect to :15001", Translate("REDIRECT", ports=(15001, 15001))),
    ("redirect to :1-9 random,persistent", Translate("REDIRECT", ports=(1, 9), flags=("--random", "--persistent"))),
    ("masquerade fully-random", Translate("MASQUERADE", flags=("--fully-random",))),
    ('log prefix "in.a" snaplen 20 group 1337', Note(("log",))),
    ('log prefix "a" drop', Drop()),
    ("meta nftrace set 1", Note(("nftrace",))),
    ("tproxy to :15006 meta mark set 0x539 accept", ToSocket(15006, 0, 0x539, 0xFFFFFFFF, True)),
    ("tproxy to :15006 accept", ToSocket(15006, goes_on=True)),
    ("tproxy to :15006", UnknownTarget(("tproxy", "to", ":15006"))),
    ("meta mark set 0x1 accept", UnknownTarget(("meta", "mark", "set", "0x1", "accept"))),
    ("vmap { 1 : drop }", UnknownTarget(("vmap", "{", "1", ":", "drop", "}"))),
]


@pytest.mark.parametrize(("words", "expected"), ACTIONS, ids=lambda item: item if isinstance(item, str) else "")
def test_actions(words, expected) -> None:
    found = said(f"counter {words}")
    assert (found.families, found.conditions, found.action) == ((4, 6), (), expected)


def test_targets_of_one_family() -> None:
    dnat = said("dnat ip to 10.0.0.1:80")
    assert (dnat.families, dnat.action) == ((4,), Translate("DNAT", 10 << 24 | 1, 10 << 24 | 1, (80, 80)))
    snat = said("snat to [fd00::1]:80")
    assert (snat.families, snat.action) == ((6,), Translate("SNAT", 0xFD << 120 | 1, 0xFD << 120 | 1, (80, 80)))
    assert said("tproxy ip6 to [::1]:5 accept").families == (6,)


UNKNOWN = [
    ("limit rate over 5/minute burst 5 packets drop", (), ("limit", "rate", "over"), Drop()),
    ("tcp dport 80 ct count over 2 jump b", (TCP, PortIs("destination", 80, 80)), ("ct", "count"), Call("b")),
    ("ip daddr . tcp dport @pairs accept", (), ("ip", "daddr", "."), Accept()),
    ('iifname vmap { "lo" : accept } drop', (), ("iifname", "vmap"), Drop()),
    ("iifname . oifname { lo . eth0 } accept", (), ("iifname", ".", "oifname"), Accept()),
    ("tcp dport @nothing return", (), ("tcp", "dport", "@nothing"), Return()),
    ("tcp dport @blocks return", (), ("tcp", "dport", "@blocks"), Return()),
    ('meta skuid "somebody" accept', (), ("meta", "skuid"), Accept()),
    ("fib daddr type broadcast drop", (), ("fib", "daddr"), Drop()),
    ("ct mark != { 1, 2 } accept", (), ("ct", "mark"), Accept()),
    ("tcp dport 8080-80x accept", (), ("tcp", "dport"), Accept()),
]


@pytest.mark.parametrize(("words", "known", "begins", "action"), UNKNOWN, ids=lambda item: str(item)[:40])
def test_what_isn_t_known_is_kept_with_all_behind_it(words, known, begins, action) -> None:
    found = said(words)
    *front, last = found.conditions
    assert tuple(front) == known and isinstance(last, UnknownMatch)
    assert last.words[: len(begins)] == begins and found.action == action


@pytest.mark.parametrize(
    "words",
    [
        "ct state vmap { established : accept, invalid : drop }",
        "numgen random mod 2 vmap { 0 : jump a, 1 : jump b }",
        "dnat to numgen inc mod 2 map { 0 : 10.0.0.1, 1 : 10.0.0.2 }",
        "meta mark set meta mark | 0x1 & 0x2",
        "queue to 1",
        "meta mark set 0x1 ip saddr 10.0.0.1 accept",
        "(not meshnet's words: bitwise 1=00)",
        "tcp dport",
    ],
)
def test_a_rule_that_may_do_anything(words: str) -> None:
    assert isinstance(said(words).action, UnknownTarget)


WORDS = (
    *(
        "meta",
        "ct",
        "ip",
        "ip6",
        "tcp",
        "udp",
        "th",
        "mark",
        "set",
        "state",
        "dport",
        "saddr",
        "iifname",
        "skuid",
        "80",
    ),
    *("80", "l4proto", "0x1", "10.0.0.1", "::1", "@ports", "@blocks", *"{}()|&,/.-", "==", "!=", "tproxy", "redirect"),
    *(
        "to",
        ":80",
        "accept",
        "jump",
        "goto",
        "a",
        "counter",
        "packets",
        "log",
        "prefix",
        "dnat",
        "socket",
        "transparent",
    ),
    *("fib", "type", "local", "flags", "syn", "-1", "99999999999", "map", "vmap", "comment"),
)


@given(st.lists(st.one_of(st.sampled_from(WORDS), st.text(max_size=4)), max_size=12))
def test_any_words_are_a_rule(words: list[str]) -> None:
    found = said(" ".join(words))
    assert set(found.families) <= {4, 6}
