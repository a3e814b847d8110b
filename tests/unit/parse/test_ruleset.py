from __future__ import annotations

import random

import pytest

from meshnet.model.errors import RulesError
from meshnet.model.ruleset import (
    AddressIs,
    AddressType,
    Call,
    Comment,
    ConnectionIs,
    ConnectionMark,
    FlagsAre,
    HeldRule,
    IcmpIs,
    IdSpan,
    InSet,
    InterfaceIs,
    Note,
    Nothing,
    OwnerIs,
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
    SocketFound,
    ToSocket,
    Track,
    Translate,
    UnknownMatch,
    UnknownTarget,
)
from meshnet.parse.ruleset import hidden_tables, read
from meshnet.render.saved import text_of
from tests import conformance

TCP, UDP = ProtocolIs(6), ProtocolIs(17)
ALL = (1 << 128) - 1


def rule(words: str, family: int = 4) -> HeldRule:
    (made,) = rules(words, family)
    return made


def rules(words: str, family: int = 4) -> tuple[HeldRule, ...]:
    chain = read(f"*mangle\n:A - [0:0]\n:B - [0:0]\n-A A {words}\nCOMMIT\n", family).tables[0].chain("A")
    assert chain is not None
    return chain.rules


@pytest.mark.conformance
@pytest.mark.parametrize(("name", "family", "text"), conformance.saved(), ids=lambda item: str(item)[:60])
def test_parse_render_parse_is_the_identity(name: str, family: int, text: str) -> None:
    first = read(text, family, name)
    again = read(text_of(first), family, name)
    assert again == first
    assert text_of(again) == text_of(first)
    assert sum(len(chain.rules) for table in first.tables for chain in table.chains) == sum(
        line.startswith(("-A", "-I", "[")) for line in text.splitlines()
    )


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


TARGETS = [
    ("-j B", Call("B")),
    ("-g B", Call("B", goto=True)),
    ("-j MISSING", Call("MISSING")),
    ("", Nothing()),
    ("-j REJECT --reject-with tcp-reset", Reject("tcp-reset")),
    ("-j MARK --set-mark 0x10/0x1", PutMark(0x10, 0x11)),
    ("-j MARK --set-xmark 0x539/0xfff", PutMark(0x539, 0xFFF)),
    ("-j MARK --and-mark 0xff", PutMark(0, 0xFFFFFF00)),
    ("-j MARK --or-mark 0x4", PutMark(4, 4)),
    ("-j MARK --xor-mark 0x4", PutMark(4, 0)),
    ("-j CONNMARK --save-mark", SaveConnectionMark()),
    ("-j CONNMARK --save-mark --mask 0xff", SaveConnectionMark(255, 255)),
    ("-j CONNMARK --restore-mark --nfmask 0xf --ctmask 0xff", RestoreConnectionMark(15, 255)),
    ("-j CONNMARK --set-xmark 0x1/0x1", PutConnectionMark(1, 1)),
    ("-j CT --zone 2", Track(original_zone=2, reply_zone=2)),
    ("-j CT --zone-reply 3", Track(reply_zone=3)),
    ("-j CT --notrack", Track(notrack=True)),
    ("-j NOTRACK", Track(notrack=True)),
    ("-j REDIRECT --to-port 15053", Translate("REDIRECT", ports=(15053, 15053))),
    ("-j REDIRECT", Translate("REDIRECT")),
    ("-j DNAT --to-destination 10.0.0.1:80-90", Translate("DNAT", 10 << 24 | 1, 10 << 24 | 1, (80, 90))),
    ("-j DNAT --to-destination :8080", Translate("DNAT", ports=(8080, 8080))),
    ("-j SNAT --to-source 10.0.0.1-10.0.0.9", Translate("SNAT", 10 << 24 | 1, 10 << 24 | 9)),
    ("-j MASQUERADE --random", Translate("MASQUERADE", flags=("--random",))),
    ("-j TPROXY --tproxy-mark 1337/0xffffffff --on-port 15006", ToSocket(15006, 0, 1337, 0xFFFFFFFF)),
    ('-j LOG --log-prefix "-> "', Note(("LOG", "--log-prefix", "-> "))),
    ("-j NFLOG --nflog-group 5", Note(("NFLOG", "--nflog-group", "5"))),
    ("-j NFQUEUE --queue-num 1", UnknownTarget(("NFQUEUE", "--queue-num", "1"))),
    ("-j MARK --set-mark 1 --set-xmark 2", UnknownTarget(("MARK", "--set-mark", "1", "--set-xmark", "2"))),
]


@pytest.mark.parametrize(("words", "expected"), TARGETS, ids=lambda item: item if isinstance(item, str) else "")
def test_targets(words, expected) -> None:
    assert rule(words) == HeldRule((), expected)


@pytest.mark.parametrize("words", [words for words, _ in MATCHES + TARGETS])
def test_every_form_comes_back(words) -> None:
    first = read(f"*mangle\n:A - [0:0]\n-A A {words}\nCOMMIT\n", 4)
    assert read(text_of(first), 4) == first


def test_dnat_writes_ipv6_in_brackets() -> None:
    made = rule("-j DNAT --to-destination [fd00::1]:80", 6)
    assert made == HeldRule((), Translate("DNAT", 0xFD << 120 | 1, 0xFD << 120 | 1, (80, 80)))


def test_several_addresses_are_several_rules() -> None:
    found = rules("-s 10.0.0.1,10.0.0.2 -j RETURN")
    assert [item.conditions for item in found] == [
        (AddressIs("source", 10 << 24 | number, 0xFFFFFFFF),) for number in (1, 2)
    ]


def test_built_in_chains_needn_t_be_declared_and_order_is_the_tool_s() -> None:
    held = read("*nat\n-A OUTPUT -j ACCEPT\n-I OUTPUT -j DROP\n-I OUTPUT 2 -j RETURN\nCOMMIT\n", 4)
    chain = held.tables[0].chain("OUTPUT")
    assert chain is not None and chain.policy == "ACCEPT"
    assert [type(item.action).__name__ for item in chain.rules] == ["Drop", "Return", "Accept"]


def test_counters_unknown_tables_and_lines() -> None:
    held = read("# note\n*foreign\n:X DROP [3:180]\n[3:180] -A X -m what --is this\nCOMMIT\n", 4)
    (chain,) = held.tables[0].chains
    assert (held.tables[0].name, chain.policy) == ("foreign", "DROP")
    assert chain.rules[0].conditions == (UnknownMatch(("-m", "what", "--is", "this")),)
    assert chain.rules[0].line == 4


def test_a_table_that_the_tool_could_not_print_is_named() -> None:
    assert hidden_tables("# Table `foo' is incompatible, use 'nft' tool.\n*nat\nCOMMIT\n") == ("foo",)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("*nat\n:OUTPUT ACCEPT [0:0]\n", "x:2: ends inside table nat: expected COMMIT; is the file cut off?"),
        ("table ip nat {\n", "x:1: expected a table (*nat)"),
        ("-A OUTPUT -j ACCEPT\n", "x:1: expected a table (*nat) first"),
        ("*nat\n-A NOWHERE -j ACCEPT\nCOMMIT\n", "x:2: expected chain NOWHERE of table nat declared before"),
        ("*nat\n-A OUTPUT -p tcp --dport\nfoo\nCOMMIT\n", "x:3: expected a table"),
        ("*nat\n-A OUTPUT -j\nCOMMIT\n", "x:2: expected a value behind -j"),
        ("*nat\n-A OUTPUT ! ! -p tcp\nCOMMIT\n", "x:2: expected one ! and not two"),
        ("*nat\n*raw\nCOMMIT\n", "x:2: expected COMMIT at the end of table nat"),
        ("*nat\n:OUTPUT what\nCOMMIT\n", "x:2: expected a chain as in"),
        ("*nat\n[x] -A OUTPUT\nCOMMIT\n", "x:2: expected counters"),
        ("*nat\n-A OUTPUT -j ACCEPT -j DROP\nCOMMIT\n", "x:2: expected one target"),
        ("*nat\n-I OUTPUT 3 -j ACCEPT\nCOMMIT\n", "x:2: expected a place from 1 to 1"),
        ("*nat\n-A OUTPUT -d ::1 -j ACCEPT\nCOMMIT\n", "x:2: expected an address of IPv4 behind -d"),
        ("*nat\n:\nCOMMIT\n", "x:2: expected a chain as in"),
        ("*nat\n-A OUTPUT -p mark --mark 1\nCOMMIT\n", "x:2: expected a match (-m) before --mark"),
        ("*nat\n-A OUTPUT -p tcp -c\nCOMMIT\n", "x:2: expected a value behind -c"),
        ("*nat\n-A OUTPUT ACCEPT\nCOMMIT\n", "x:2: expected an option such as -p"),
    ],
)
def test_what_is_no_rule_set_is_named_with_its_line(text: str, said: str) -> None:
    with pytest.raises(RulesError) as caught:
        read(text, 4, "x")
    assert any(problem.startswith(said) for problem in caught.value.problems), caught.value.problems


SPOILT = (
    "! -p tcp --dport -j -m owner \\ -s 10.0.0.0/8 1: : []:8 -g *nat COMMIT --ctstate -I 99 --match-set --to-ports "
    "9-1 / 0x 8/999 -f -c \x00"
)
PIECES = (*SPOILT.split(" "), '"')


def test_spoilt_lines_are_refused_or_come_back_as_they_were_read() -> None:
    """Words dropped, doubled and replaced at random: no other way to fail than to say so, and nothing gets lost."""
    seed = random.Random(1)
    read_ones = 0
    for _ in range(3000):
        words, _ = seed.choice(MATCHES)
        target, _ = seed.choice(TARGETS)
        line = f"-A A {words} {target}".split(" ")
        for _ in range(seed.randrange(1, 3)):
            place = seed.randrange(len(line))
            line[place : place + seed.randrange(2)] = [seed.choice(PIECES)] * seed.randrange(2)
            line = line or ["-A"]
        text = f"*mangle\n:A - [0:0]\n:B - [0:0]\n{' '.join(line)}\nCOMMIT\n"
        try:
            held = read(text, 4)
        except RulesError:
            continue
        read_ones += 1
        assert read(text_of(held), 4) == held, line
    assert read_ones > 300


def test_a_comment_may_hold_what_ends_lines_elsewhere() -> None:
    held = read('*nat\n-A OUTPUT -m comment --comment "a\u2028b\x0cc" -j ACCEPT\nCOMMIT\n', 4)
    (rule,) = (rule for chain in held.tables[0].chains for rule in chain.rules)
    assert rule.comment == "a\u2028b\x0cc"
    assert read(text_of(held), 4) == held
