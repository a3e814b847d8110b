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
from meshnet.model.spec import IdRange
from meshnet.render.iptables import render, rule_texts

TAIL = ' -m comment --comment "meshnet:t.x" -j '
MARK = Mark(0x539, 0xFFF)
TCP = Protocol("tcp")


def texts(*matches, target=None, family=4):
    addressed = family if any(isinstance(match, (Source, Destination)) for match in matches) else None
    rule = Rule("t.x", matches, target or Accept(), "inbound.mode", addressed)
    return [text.removesuffix("ACCEPT").removesuffix(TAIL) for text in rule_texts(rule, family)]


def ports(*words):
    return tuple(PortRange(*word) if isinstance(word, tuple) else PortRange(word, word) for word in words)


@pytest.mark.parametrize(
    ("match", "words"),
    [
        (TCP, "-p tcp"),
        (Source((read_cidr("10.0.0.0/8"),)), "-s 10.0.0.0/8"),
        (Source((read_cidr("10.0.0.1"),), negated=True), "! -s 10.0.0.1/32"),
        (Destination((read_cidr("127.0.0.0/8"),), negated=True), "! -d 127.0.0.0/8"),
        (InInterface(("eth+",)), "-i eth+"),
        (OutInterface(("lo",), negated=True), "! -o lo"),
        (Owner("uid", (5,)), "-m owner --uid-owner 5"),
        (MarkIs(MARK), "-m mark --mark 0x539/0xfff"),
        (MarkIs(MARK, negated=True), "-m mark ! --mark 0x539/0xfff"),
        (ConnmarkIs(MARK), "-m connmark --mark 0x539/0xfff"),
        (CtState(("INVALID",)), "-m conntrack --ctstate INVALID"),
        (CtState(("DNAT",), negated=True), "-m conntrack ! --ctstate DNAT"),
        (CtDirection("REPLY"), "-m conntrack --ctdir REPLY"),
        (SocketIs(), "-m socket"),
        (SocketIs(transparent=True), "-m socket --transparent"),
        (Syn(negated=True), "-m tcp ! --tcp-flags FIN,SYN,RST,ACK SYN"),
    ],
    ids=str,
)
def test_words_of_a_match(match, words):
    assert texts(match) == [words]


def test_each_range_of_users_is_a_rule():
    ranges = OwnerWithin((IdRange(5, 5), IdRange(106, 108)))
    assert texts(ranges) == ["-m owner --uid-owner 5", "-m owner --uid-owner 106-108"]


@pytest.mark.parametrize(
    ("target", "words"),
    [
        (Drop(), "DROP"),
        (Return(), "RETURN"),
        (Jump("MESHNET_A"), "MESHNET_A"),
        (SetMark(MARK), "MARK --set-xmark 0x539/0xfff"),
        (SaveMark(0xFFF), "CONNMARK --save-mark --nfmask 0xfff --ctmask 0xfff"),
        (RestoreMark(0xFFF), "CONNMARK --restore-mark --nfmask 0xfff --ctmask 0xfff"),
        (Zone(2), "CT --zone 2"),
        (Redirect(PortRange(15006, 15006)), "REDIRECT --to-ports 15006"),
        (Redirect(PortRange(15006, 15009)), "REDIRECT --to-ports 15006-15009"),
    ],
    ids=str,
)
def test_words_of_a_target(target, words):
    assert texts(target=target) == [TAIL.lstrip() + words]


def test_tproxy_names_the_unset_address_of_the_family():
    target = Tproxy(15006, MARK)
    for family, any_address in ((4, "0.0.0.0"), (6, "::")):
        (text,) = texts(TCP, target=target, family=family)
        assert text.endswith(f"TPROXY --on-port 15006 --on-ip {any_address} --tproxy-mark 0x539/0xfff")


def test_one_port_needs_no_multiport():
    assert texts(TCP, DestinationPorts(ports(80))) == ["-p tcp -m tcp --dport 80"]
    assert texts(Protocol("udp"), SourcePorts(ports((5, 9)), negated=True)) == ["-p udp -m udp ! --sport 5:9"]


def test_fifteen_ports_are_one_rule_and_sixteen_are_two():
    full = ",".join(str(number) for number in range(1, 16))
    assert texts(TCP, DestinationPorts(ports(*range(1, 16)))) == [f"-p tcp -m multiport --dports {full}"]
    assert texts(TCP, DestinationPorts(ports(*range(1, 17))))[1] == "-p tcp -m multiport --dports 16"


def test_a_range_takes_two_slots():
    seven = [(number, number + 1) for number in range(10, 80, 10)]
    assert len(texts(TCP, DestinationPorts(ports(*seven, 100)))) == 1
    split = texts(TCP, DestinationPorts(ports(*seven, (100, 101))))
    assert [text.rpartition(" ")[2] for text in split] == [",".join(f"{a}:{b}" for a, b in seven), "100:101"]


def test_negated_ports_are_matches_of_one_rule():
    """As two rules, each port would be outside of one of them, and every packet would match."""
    (text,) = texts(TCP, DestinationPorts(ports(*range(1, 17)), negated=True))
    assert text.count("-m multiport ! --dports") == 2


def test_owners_are_a_rule_each_and_negated_one_rule_for_all():
    assert texts(Owner("gid", (5, 6))) == ["-m owner --gid-owner 5", "-m owner --gid-owner 6"]
    assert texts(Owner("gid", (5, 6), negated=True)) == ["-m owner ! --gid-owner 5 -m owner ! --gid-owner 6"]


def test_several_values_of_several_matches_are_every_combination():
    blocks = (read_cidr("10.0.0.0/8"), read_cidr("192.0.2.0/24"))
    found = texts(Source(blocks), Owner("uid", (1, 2)))
    assert len(set(found)) == 4


def test_none_of_several_blocks_is_refused():
    blocks = (read_cidr("10.0.0.0/8"), read_cidr("192.0.2.0/24"))
    with pytest.raises(UnsupportedError, match="-d"):
        texts(Destination(blocks, negated=True))


def test_matches_in_the_order_in_which_they_are_printed():
    found = texts(
        MarkIs(MARK),
        DestinationPorts(ports(80)),
        TCP,
        OutInterface(("lo",)),
        Destination((read_cidr("::1"),)),
        family=6,
    )
    assert found == ["-d ::1/128 -o lo -p tcp -m tcp --dport 80 -m mark --mark 0x539/0xfff"]


BLOCKS = ("10.0.0.0/8", "12.0.0.0/8")


def test_interfaces_are_a_rule_each_in_the_order_in_which_they_were_named():
    assert texts(Destination(tuple(map(read_cidr, BLOCKS))), InInterface(("eth1", "eth0", "net+"))) == [
        f"-d {block} -i {name}" for block in BLOCKS for name in ("eth1", "eth0", "net+")
    ]


def test_none_of_several_interfaces_cannot_be_said():
    with pytest.raises(UnsupportedError, match="-o once"):
        texts(OutInterface(("eth0", "eth1"), negated=True))


def test_a_table_for_each_family_with_its_own_rules():
    four = Rule("nat.a", (Source((read_cidr("10.0.0.0/8"),)),), Accept(), "x", 4)
    both = Rule("nat.b", (), Accept(), "x")
    entry = Entry("nat", "OUTPUT", Rule("nat.out.entry", (), Jump("MESHNET_OUT"), ""))
    made = Program("p", (4, 6), (Chain("nat", "MESHNET_OUT", (four, both)),), (entry,))
    first, second = render(made)
    assert (first.family, second.family) == (4, 6)
    assert [len(table.chains[0].rules) for table in (first, second)] == [2, 1]
    (text,) = second.entries
    assert (text.hook, text.place) == ("OUTPUT", 1)
    assert text.rule == '-m comment --comment "meshnet:nat.out.entry" -j MESHNET_OUT'


def test_entries_are_numbered_hook_by_hook_and_some_go_behind():
    def entry(hook, name, *, first=True, family=None):
        return Entry("nat", hook, Rule(f"nat.{name}", (), Jump(name), "", family), first)

    entries = (
        entry("PREROUTING", "A"),
        entry("OUTPUT", "B"),
        entry("PREROUTING", "C", first=False),
        entry("PREROUTING", "D", family=6),
        entry("PREROUTING", "E"),
    )
    (table,) = render(Program("p", (4,), (Chain("nat", "A", ()),), entries))
    assert [(text.hook, text.rule[-1], text.place) for text in table.entries] == [
        ("PREROUTING", "A", 1),
        ("OUTPUT", "B", 1),
        ("PREROUTING", "C", 0),
        ("PREROUTING", "E", 2),
    ]
