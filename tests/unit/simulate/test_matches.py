"""What each condition says about a packet; that a kernel says the same is tests/netns/test_ruleset.py."""

from __future__ import annotations

import pytest

from meshnet.model.cidr import read_cidr
from meshnet.model.host import AddressSet, Member
from meshnet.model.rule import IdSpan
from meshnet.simulate.matches import UNSURE, _among, spanning, within
from tests.unit.simulate.pods import CLIENT, CLIENT6, POD, POD6, host, inward, outward, table, walk


def fits(words, flow, on=None):
    """Whether a rule fitted, or None where nobody knows."""
    chain = "OUTPUT" if flow.way == "out" else "PREROUTING"
    found = walk(table("mangle", f"-A {chain} {words} -j DROP"), flow, on)
    return None if found.end == "undecided" else found.end == "dropped"


ENTERS, SIX, LEAVES = inward(port=8080), inward(POD6, source=CLIENT6), outward(uid=7, gid=8, groups=(9, 10))


@pytest.mark.parametrize(
    ("words", "flow"),
    [
        ("-p tcp", ENTERS),
        (f"-s {CLIENT}", ENTERS),
        (f"-d {POD}/24", ENTERS),
        (f"-s {CLIENT6}/64", SIX),
        ("-i eth0", ENTERS),
        ("-i eth+", ENTERS),
        ("-p tcp --dport 8000:9000", ENTERS),
        ("-p tcp --sport 40000", ENTERS),
        ("-p tcp -m multiport --dports 1,2,8080", ENTERS),
        ("-p tcp -m multiport --ports 40000", ENTERS),
        ("-p tcp --syn", ENTERS),
        ("-m conntrack --ctstate INVALID,NEW", ENTERS),
        ("-m conntrack --ctdir ORIGINAL", ENTERS),
        ("-m state --state NEW", SIX),
        ("-m mark --mark 0x0/0xff", ENTERS),
        ("-m connmark --mark 0", ENTERS),
        ("-m addrtype --dst-type LOCAL", ENTERS),
        ("-m addrtype --dst-type UNICAST,LOCAL --limit-iface-in", ENTERS),
        ("-m iprange --src-range 10.1.0.0-10.1.0.9", ENTERS),
        ("-m owner --uid-owner 7", LEAVES),
        ("-m owner --uid-owner 5-9", LEAVES),
        ("-m owner --gid-owner 8", LEAVES),
        ("-m owner --gid-owner 10 --suppl-groups", LEAVES),
        ("-m owner --socket-exists", LEAVES),
        ("-m owner --uid-owner 7 --gid-owner 8", LEAVES),
    ],
)
def test_a_condition_fits_and_its_opposite_does_not(words, flow):
    assert fits(words, flow) is True
    said = words.split(" ")
    if "--ctdir" in said or "--suppl-groups" in said or said.count("--gid-owner") + said.count("--uid-owner") > 1:
        return  # what has no opposite of its own
    options = [place for place, word in enumerate(said) if word.startswith("-") and word != "--limit-iface-in"]
    assert fits(" ".join([*said[: options[-1]], "!", *said[options[-1] :]]), flow) is False


@pytest.mark.parametrize(
    ("words", "flow"),
    [
        ("-p udp", ENTERS),
        ("-i eth1", ENTERS),
        ("-i veth+", ENTERS),
        ("-p tcp --dport 8081:", ENTERS),
        ("-m conntrack --ctstate ESTABLISHED", ENTERS),
        ("-m conntrack --ctdir REPLY", ENTERS),
        ("-m mark --mark 0x1", ENTERS),
        ("-m owner --uid-owner 8", LEAVES),
        ("-m owner --gid-owner 9", LEAVES),
        ("-m owner --uid-owner 7 --gid-owner 7", LEAVES),
        ("-m addrtype --dst-type MULTICAST", ENTERS),
        ("-m socket --transparent", ENTERS),
        ("-f", ENTERS),
    ],
)
def test_a_condition_that_does_not_fit(words, flow):
    assert fits(words, flow) is False


@pytest.mark.parametrize("words", ["-m limit --limit 5/min", "-m set --match-set nobody dst", "-d example.org"])
def test_what_nobody_knows_is_undecided(words):
    assert fits(words, ENTERS) is None


def test_what_is_known_decides_before_what_is_not():
    assert fits("-m limit --limit 5/min -p udp", ENTERS) is False


def test_a_set_that_is_known():
    blocks = AddressSet("s", ("net",), (Member(read_cidr(f"{POD}/32")), Member(read_cidr("192.0.2.0/24"))))
    on = host(sets=(blocks,))
    assert fits("-m set --match-set s dst", ENTERS, on) is True
    assert fits("-m set --match-set s src", ENTERS, on) is False
    assert fits("-m set ! --match-set s src", ENTERS, on) is True


def test_a_range_of_ids_has_both_ends_and_may_be_turned_over():
    assert [_among(IdSpan(5, 9), number) for number in (4, 5, 9, 10)] == [False, True, True, False]
    assert [_among(IdSpan(5, 9, True), number) for number in (4, 5, 9, 10)] == [True, False, False, True]


def test_spans_and_blocks_in_any_order():
    inside = spanning(((90, 95), (80, 80), (1, 2)))
    assert [number for number in range(100) if inside(number)] == [1, 2, 80, *range(90, 96)]
    held = within((read_cidr("10.1.0.0/16"), read_cidr("10.0.0.0/16"), read_cidr("10.0.1.0/24")))
    assert [held(0x0A000000), held(0x0A01FFFF), held(0x0A020000), held(0x09FFFFFF)] == [True, True, False, False]
    assert not spanning(())(0) and not within(())(0)


def test_unsure_is_true_enough_to_be_looked_at():
    assert UNSURE
