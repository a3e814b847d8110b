from __future__ import annotations

import pytest

from meshnet.model.cidr import read_cidr
from meshnet.model.errors import UnsupportedError
from meshnet.model.marks import Mark
from meshnet.model.ports import PortRange
from meshnet.model.program import (
    Accept,
    Chain,
    ConnmarkIs,
    CtDirection,
    CtState,
    Destination,
    DestinationPorts,
    Drop,
    Entry,
    InInterface,
    Jump,
    MarkIs,
    OutInterface,
    Owner,
    OwnerWithin,
    Program,
    Protocol,
    Redirect,
    RestoreMark,
    Return,
    Rule,
    SaveMark,
    SetMark,
    SocketIs,
    Source,
    SourcePorts,
    Syn,
    Tproxy,
    Zone,
)
from meshnet.model.ranges import range_text
from meshnet.model.spec import IdRange
from meshnet.render.nft_text import table_text, transaction
from meshnet.render.nftables import program_id, render

MARK = Mark(0x539, 0xFFF)
FULL = Mark(0x539)
TCP = Protocol("tcp")


def ports(*words):
    return tuple(PortRange(*word) if isinstance(word, tuple) else PortRange(word, word) for word in words)


def blocks(*words):
    return tuple(read_cidr(word) for word in words)


def rule(*matches, target=None, family=None, rule_id="nat.x"):
    addressed = [match for match in matches if isinstance(match, (Source, Destination))]
    family = addressed[0].cidrs[0].family if addressed else family
    return Rule(rule_id, matches, target or Accept(), "inbound.mode", family)


def chains(*rules, families=(4, 6)):
    made = render(Program("p", families, (Chain("nat", "MESHNET_X", rules),)), "meshnet")
    return {chain.name: chain.rules for chain in made.chains}


def texts(*matches, target=None, family=None, families=(4, 6)):
    found = chains(rule(*matches, target=target, family=family), families=families)["nat_x"]
    return [text.removesuffix(' comment "meshnet:nat.x"') for text in found]


@pytest.mark.parametrize(
    ("match", "words"),
    [
        (TCP, "meta l4proto tcp"),
        (Source(blocks("10.0.0.0/8")), "ip saddr 10.0.0.0/8"),
        (Destination(blocks("10.0.0.1/32")), "ip daddr 10.0.0.1"),
        (Destination(blocks("127.0.0.0/8"), True), "ip daddr != 127.0.0.0/8"),
        (Destination(blocks("fd00::/8")), "ip6 daddr fd00::/8"),
        (Destination(blocks("10.0.0.0/9", "10.128.0.0/9")), "ip daddr 10.0.0.0/8"),
        (Source(blocks("10.0.0.0/9", "10.128.0.0/10")), "ip saddr 10.0.0.0-10.191.255.255"),
        (Source(blocks("10.0.0.0/8", "12.0.0.0/8")), "ip saddr @inbound_mode_ipv4"),
        (Source(blocks("10.0.0.0/8", "12.0.0.0/8"), True), "ip saddr != @inbound_mode_ipv4"),
        (Source(blocks("fd00::/16", "fd02::/16")), "ip6 saddr @inbound_mode_ipv6"),
        (InInterface(("eth0",)), 'iifname "eth0"'),
        (InInterface(("net+",), True), 'iifname != "net*"'),
        (OutInterface(("lo",)), 'oifname "lo"'),
        (InInterface(("eth0", "eth1")), "iifname @inbound_mode"),
        (OutInterface(("eth0", "eth1"), True), "oifname != @inbound_mode"),
        (InInterface(("eth0", "eth0")), 'iifname "eth0"'),
        (InInterface(("net1", "net+", "net1+")), 'iifname "net*"'),
        (InInterface(("eth0", "net+", "eth1"), True), 'iifname != @inbound_mode iifname != "net*"'),
        (Owner("uid", (1337,)), "meta skuid 1337"),
        (Owner("gid", (5, 7)), "meta skgid @inbound_mode"),
        (Owner("gid", (5, 6)), "meta skgid 5-6"),
        (OwnerWithin((IdRange(5, 9), IdRange(11, 11))), "meta skuid @inbound_mode"),
        (OwnerWithin((IdRange(5, 9),)), "meta skuid 5-9"),
        (MarkIs(MARK), "meta mark & 0xfff == 0x539"),
        (MarkIs(MARK, True), "meta mark & 0xfff != 0x539"),
        (MarkIs(FULL), "meta mark 0x539"),
        (MarkIs(FULL, True), "meta mark != 0x539"),
        (ConnmarkIs(MARK), "ct mark & 0xfff == 0x539"),
        (CtState(("INVALID",)), "ct state invalid"),
        (CtState(("RELATED", "ESTABLISHED")), "ct state established,related"),
        (CtState(("NEW",), True), "ct state != new"),
        (CtState(("NEW", "RELATED"), True), "ct state & (related | new) == 0"),
        (CtState(("DNAT",)), "ct status dnat"),
        (CtState(("DNAT",), True), "ct status & dnat == 0"),
        (CtDirection("REPLY"), "ct direction reply"),
        (SocketIs(), "socket transparent <= 1"),
        (SocketIs(transparent=True), "socket transparent 1"),
    ],
)
def test_matches(match, words):
    assert texts(match) == [f"{words} counter accept"]


@pytest.mark.parametrize(
    ("match", "words"),
    [
        (DestinationPorts(ports(80)), "tcp dport 80"),
        (DestinationPorts(ports((9000, 9100))), "tcp dport 9000-9100"),
        (DestinationPorts(ports(80, 81)), "tcp dport 80-81"),
        (DestinationPorts(ports(80, 443)), "tcp dport @inbound_mode"),
        (DestinationPorts(ports(80, 443), True), "tcp dport != @inbound_mode"),
        (SourcePorts(ports(53)), "tcp sport 53"),
        (Syn(), "tcp flags & (fin | syn | rst | ack) == syn"),
        (Syn(True), "tcp flags & (fin | syn | rst | ack) != syn"),
    ],
)
def test_what_needs_a_protocol(match, words):
    assert texts(match, TCP) == [f"meta l4proto tcp {words} counter accept"]


@pytest.mark.parametrize(
    ("target", "words"),
    [
        (Accept(), "accept"),
        (Drop(), "drop"),
        (Return(), "return"),
        (Jump("MESHNET_Y"), "jump nat_y"),
        (Jump("ISTIO_OUTPUT"), "jump nat_istio_output"),
        (SetMark(MARK), "meta mark set meta mark & 0xfffff000 | 0x539"),
        (SetMark(Mark(0, 0xFFF)), "meta mark set meta mark & 0xfffff000"),
        (SetMark(FULL), "meta mark set 0x539"),
        (Zone(2), "ct zone set 2"),
        (Redirect(PortRange(15001, 15001)), "redirect to :15001"),
        (Redirect(PortRange(15006, 15009)), "redirect to :15006-15009"),
    ],
)
def test_targets(target, words):
    assert texts(TCP, target=target) == [f"meta l4proto tcp counter {words}"]


def test_a_copied_mark_is_the_one_that_was_asked_for():
    saved = texts(MarkIs(MARK), target=SaveMark(0xFFF))
    assert saved == ["meta mark & 0xfff == 0x539 counter ct mark set ct mark & 0xfffff000 | 0x539"]
    restored = texts(ConnmarkIs(FULL), target=RestoreMark(0xFFFFFFFF))
    assert restored == ["ct mark 0x539 counter meta mark set 0x539"]
    part = texts(ConnmarkIs(FULL), target=RestoreMark(0xFF))
    assert part == ["ct mark 0x539 counter meta mark set meta mark & 0xffffff00 | 0x39"]


@pytest.mark.parametrize(
    "matches", [(), (MarkIs(MARK, True),), (MarkIs(Mark(0x39, 0xFF)),), (ConnmarkIs(MARK),)], ids=lambda item: str(item)
)
def test_a_mark_that_is_unknown_cannot_be_copied(matches):
    with pytest.raises(UnsupportedError, match=r"nat\.x copies a mark"):
        texts(*matches, target=SaveMark(0xFFF))


def test_what_tproxy_finds_no_listener_for_is_dropped():
    """iptables' TPROXY drops it; nft's goes on to the next rule, and the application would get the call."""
    found = chains(rule(TCP, target=Tproxy(15006, MARK)))["nat_x"]
    assert found == (
        "meta l4proto tcp counter tproxy to :15006 meta mark set meta mark & 0xfffff000 | 0x539 accept "
        'comment "meshnet:nat.x"',
        'meta l4proto tcp counter drop comment "meshnet:nat.x.no-listener"',
    )
    six = texts(TCP, Destination(blocks("::1/128"), True), target=Tproxy(1, FULL))
    assert six[0] == "ip6 daddr != ::1 meta l4proto tcp counter tproxy ip6 to :1 meta mark set 0x539 accept"


def test_everybody_but_some_is_whoever_has_no_owner_too():
    """``skgid !=`` gives up on a packet that no process sent; ``! --gid-owner`` holds for it."""
    others = rule(Owner("gid", (5,), negated=True), target=Return(), rule_id="nat.others")
    assert chains(others, rule(TCP, target=Drop())) == {
        "nat_x": (
            'meta skgid 5 counter goto nat_x_2 comment "meshnet:nat.others"',
            'counter return comment "meshnet:nat.others.no-owner"',
        ),
        "nat_x_2": ('meta l4proto tcp counter drop comment "meshnet:nat.x"',),
    }


def test_everybody_but_some_of_one_family_leaves_the_other_alone():
    others = rule(Owner("gid", (5,), negated=True), target=Return(), family=4)
    assert [text.rpartition(" comment ")[0] for text in chains(others)["nat_x"]] == [
        "meta nfproto ipv4 meta skgid 5 counter goto nat_x_2",
        "meta nfproto ipv4 counter return",
        "counter goto nat_x_2",
    ]


def test_a_family_is_said_where_no_address_says_it():
    assert texts(TCP, family=4) == ["meta nfproto ipv4 meta l4proto tcp counter accept"]
    assert texts(Destination(blocks("0.0.0.0/0"))) == ["meta nfproto ipv4 counter accept"]
    assert texts(Destination(blocks("::/0"), True)) == [], "none of all addresses: never"
    assert texts(TCP, family=6, families=(4,)) == []


def test_one_family_alone_says_so_at_the_door():
    entry = Entry("nat", "OUTPUT", rule(target=Jump("MESHNET_X")))
    made = render(Program("p", (6,), (Chain("nat", "MESHNET_X", (rule(TCP),)),), (entry,)), "meshnet")
    doors = [chain for chain in made.chains if chain.head]
    assert [chain.rules for chain in doors] == [('meta nfproto ipv6 counter jump nat_x comment "meshnet:nat.x"',)]


@pytest.mark.parametrize(
    ("table", "hook", "name", "head"),
    [
        ("raw", "PREROUTING", "raw_prerouting", "type filter hook prerouting priority -300; policy accept;"),
        ("raw", "OUTPUT", "raw_output", "type filter hook output priority -300; policy accept;"),
        ("mangle", "PREROUTING", "mangle_prerouting", "type filter hook prerouting priority -150; policy accept;"),
        ("mangle", "OUTPUT", "mangle_output", "type route hook output priority -150; policy accept;"),
        ("nat", "PREROUTING", "nat_prerouting", "type nat hook prerouting priority -100; policy accept;"),
        ("nat", "OUTPUT", "nat_output", "type nat hook output priority -100; policy accept;"),
    ],
)
def test_base_chains(table, hook, name, head):
    made = render(Program("p", (4, 6), (), (Entry(table, hook, rule(target=Drop())),)), "meshnet")
    assert [(chain.name, chain.head) for chain in made.chains] == [(name, head)]


def test_rules_share_a_set_of_the_same_values():
    one, other = DestinationPorts(ports(1, 3)), DestinationPorts(ports(3, 1))
    third = DestinationPorts(ports(1, 5))
    rules = (rule(TCP, one), rule(TCP, other), rule(TCP, third))
    made = render(Program("p", (4, 6), (Chain("nat", "MESHNET_X", rules),)), "meshnet")
    assert [(item.name, item.type, item.ranges) for item in made.sets] == [
        ("inbound_mode", "inet_service", ((1, 1), (3, 3))),
        ("inbound_mode_2", "inet_service", ((1, 1), (5, 5))),
    ]


def test_both_directions_share_a_set_of_names():
    rules = (rule(InInterface(("eth1", "eth0"))), rule(OutInterface(("eth0", "eth1"))))
    made = render(Program("p", (4, 6), (Chain("nat", "MESHNET_X", rules),)), "meshnet")
    (found,) = made.sets
    assert (found.name, found.type) == ("inbound_mode", "ifname")
    assert [range_text("ifname", *pair) for pair in found.ranges] == ['"eth0"', '"eth1"']
    lines = [line.strip() for line in table_text(made).splitlines()]
    assert lines[2:6] == ["set inbound_mode {", "type ifname", "elements = {", '"eth0", "eth1"']


def test_a_beginning_of_names_is_a_rule_of_its_own():
    """nft 0.9.7, the oldest that is supported, takes no ``net*`` into a set."""
    assert texts(InInterface(("net+", "eth0", "tun+", "eth1")), TCP) == [
        "iifname @inbound_mode meta l4proto tcp counter accept",
        'iifname "net*" meta l4proto tcp counter accept',
        'iifname "tun*" meta l4proto tcp counter accept',
    ]
    assert texts(InInterface(("net+", "eth0"))) == ['iifname "eth0" counter accept', 'iifname "net*" counter accept']
    both = texts(InInterface(("a", "b+")), OutInterface(("c+", "d")))
    assert both == [
        f"iifname {came} oifname {goes} counter accept" for came in ('"a"', '"b*"') for goes in ('"d"', '"c*"')
    ]


def test_tracing_puts_a_rule_in_front_of_each():
    made = render(Program("p", (4, 6), (Chain("nat", "MESHNET_X", (rule(TCP),)),)), "meshnet", traced=True)
    assert made.chains[0].rules == (
        'meta l4proto tcp log prefix "nat.x" snaplen 20 group 1337 comment "meshnet:nat.x"',
        'meta l4proto tcp counter accept comment "meshnet:nat.x"',
    )


def test_one_transaction():
    made = render(Program("p", (4, 6), (Chain("nat", "MESHNET_X", (rule(TCP),)),)), "meshnet")
    lines = transaction((made,), ("old",)).splitlines()
    assert lines[:4] == [
        "add table inet old",
        "delete table inet old",
        "add table inet meshnet",
        "delete table inet meshnet",
    ]
    assert lines[4:6] == ["table inet meshnet {", '\tcomment "meshnet:table"']
    assert "\n".join(lines[4:]) == table_text(made)


def test_a_rule_s_text_leads_back_to_the_program():
    found = chains(rule(TCP, target=Tproxy(1, MARK)), rule(Owner("uid", (1,), negated=True), target=Return()))
    assert {program_id(text) for rules in found.values() for text in rules} == {"nat.x"}
    assert program_id("tcp dport 1 drop") == ""
