"""Equal means equal for every packet; what isn't equal is shown by a packet that really makes the difference."""

from __future__ import annotations

import random

import pytest

from meshnet.model.flow import Flow
from meshnet.model.host import AddressSet, Member
from meshnet.model.ruleset import RuleSet
from meshnet.model.value import replace
from meshnet.parse.ruleset import read
from meshnet.simulate import compare as module
from meshnet.simulate.compare import Side, compare
from meshnet.simulate.walk import Pod
from tests.unit.simulate import mutations
from tests.unit.simulate.mutations import goldens, host, places, side, swaps, without
from tests.unit.simulate.pods import table


def rules(text: str, family: int = 4) -> RuleSet:
    return read(text, family)


def pair(one: str, other: str, family: int = 4):
    return compare(side(rules(one, family)), side(rules(other, family)))


def outcome(pod: Pod, flow: Flow):
    pod.forget()
    return module._outcome(pod.arrive(flow))


def random_flows(held: RuleSet, seed: random.Random, count: int) -> list[Flow]:
    known = mutations.constants(held, seed)
    made = []
    for _ in range(count):
        way = seed.choice(("in", "out"))
        made.append(
            Flow(
                way,
                4,
                seed.choice(("tcp", "tcp", "udp", "icmp")),
                seed.choice(known["address"]),
                seed.choice(known["address"]),
                seed.choice(known["port"]) & 0xFFFF,
                seed.choice(("eth0", "eth0", "eth1", "not-istio-nic")) if way == "in" else "",
                seed.choice(known["id"]) if way == "out" else None,
                seed.choice(known["id"]) if way == "out" else None,
                seed.choice(known["mark"]),
                seed.choice((40000, 53, 15053)),
                state=seed.choice(("NEW", "NEW", "ESTABLISHED", "INVALID", "RELATED")),
                transparent=True,
            )
        )
    return made


@pytest.mark.conformance
@pytest.mark.parametrize(("name", "held"), goldens(), ids=lambda item: item if isinstance(item, str) else "")
def test_a_rule_set_is_what_it_is_also_with_independent_neighbours_swapped(name: str, held: RuleSet) -> None:
    assert compare(side(held), side(held)).equal
    others = list(swaps(held))
    assert others, "there is always something to swap"
    for other in others:
        assert compare(side(held), side(other)).equal


@pytest.mark.conformance
@pytest.mark.parametrize(("name", "held"), goldens(), ids=lambda item: item if isinstance(item, str) else "")
def test_without_one_rule_random_packets_find_no_difference_that_it_denies(name: str, held: RuleSet) -> None:
    """Of 12 rules each: the claim "equal" against 300 packets made of the constants."""
    seed = random.Random(name)
    flows = random_flows(held, seed, 300)
    whole = Pod([held], module._with_links(host(), side(held), side(held), "eth0"))
    ends = [outcome(whole, flow) for flow in flows]
    different = 0
    for table_, chain, number in seed.sample(list(places(held)), 12):
        other = without(held, table_, chain, number)
        found = compare(side(held), side(other))
        if found.difference is not None:
            different += 1
            assert found.difference.what
            continue
        rest = Pod([other], module._with_links(host(), side(held), side(other), "eth0"))
        for flow, end in zip(flows, ends, strict=True):
            now = outcome(rest, flow)
            if "undecided" in (end[0], now[0]):
                continue  # two walks can't be compared where neither knows; compare asks for both answers
            assert now == end, f"{name}: rule {number + 1} of chain {chain}: {flow}"
    assert different


def test_the_plainest_packet_is_shown_with_both_paths() -> None:
    one = table(
        "nat", "-A PREROUTING -p tcp -m tcp --dport 8080 -j RETURN", "-A PREROUTING -p tcp -j REDIRECT --to-ports 1"
    )
    other = table("nat", "-A PREROUTING -p tcp -j REDIRECT --to-ports 1")
    difference = pair(one, other).difference
    assert difference is not None
    assert (difference.flow.port, difference.flow.way, difference.flow.mark, difference.more) == (8080, "in", 0, ())
    assert (difference.one.disposition, difference.other.disposition) == ("direct", "captured")


OUT = "-A OUTPUT -p tcp -j REDIRECT --to-ports 1"
DIFFERENT = [
    ("mangle", "-A OUTPUT -m owner --uid-owner 7 -j DROP", "-A OUTPUT -m owner --uid-owner 8 -j DROP"),
    ("mangle", "-A OUTPUT -m owner --uid-owner 7-9 -j DROP", "-A OUTPUT -m owner --uid-owner 7-8 -j DROP"),
    ("mangle", "-A OUTPUT -m owner --gid-owner 7 --suppl-groups -j DROP", "-A OUTPUT -m owner --gid-owner 7 -j DROP"),
    ("mangle", "-A INPUT -m mark --mark 0x1/0x3 -j DROP", "-A INPUT -m mark --mark 0x1/0x1 -j DROP"),
    ("mangle", "-A PREROUTING -j MARK --set-mark 1", "-A PREROUTING -j MARK --or-mark 1"),
    ("mangle", "-A PREROUTING -j CONNMARK --set-mark 1", "-A PREROUTING -p tcp -j CONNMARK --set-mark 1"),
    ("mangle", "-A PREROUTING -m connmark --mark 3 -j DROP", "-A PREROUTING -m connmark --mark 4 -j DROP"),
    ("mangle", "-A PREROUTING -m conntrack --ctstate NEW -j DROP", "-A PREROUTING -p tcp --syn -j DROP"),
    (
        "mangle",
        "-A PREROUTING -m conntrack --ctdir REPLY -j DROP",
        "-A PREROUTING -m conntrack --ctdir ORIGINAL -j DROP",
    ),
    (
        "mangle",
        "-A PREROUTING -m conntrack --ctstate DNAT -j DROP",
        "-A PREROUTING -m conntrack --ctstate SNAT -j DROP",
    ),
    ("mangle", "-A PREROUTING -m socket -j DROP", "-A PREROUTING -m socket --transparent -j DROP"),
    ("mangle", "-A PREROUTING -i eth+ -j DROP", "-A PREROUTING -i eth0 -j DROP"),
    ("mangle", "-A POSTROUTING -o eth1 -j DROP", "-A POSTROUTING -o eth2 -j DROP"),
    ("mangle", "-A PREROUTING -p 47 -j DROP", "-A PREROUTING -p 50 -j DROP"),
    ("mangle", "-A PREROUTING -p icmp --icmp-type 8 -j DROP", "-A PREROUTING -p icmp --icmp-type 0 -j DROP"),
    ("mangle", "-A OUTPUT -m addrtype --dst-type LOCAL -j DROP", "-A OUTPUT -o lo -d 127.0.0.0/8 -j DROP"),
    ("mangle", "-A INPUT -s 10.0.0.0/255.0.0.255 -j DROP", "-A INPUT -s 10.0.0.0/8 -j DROP"),
    ("mangle", "-A INPUT -m iprange --src-range 10.0.0.1-10.0.0.9 -j DROP", "-A INPUT -s 10.0.0.0/29 -j DROP"),
    ("mangle", "-A INPUT -m limit --limit 1/s -j DROP", "-A INPUT -m limit --limit 2/s -j DROP"),
    ("mangle", "-A INPUT -m set --match-set a src -j DROP", "-A INPUT -m set --match-set b src -j DROP"),
    ("mangle", "-A INPUT -p udp -m multiport --ports 1,2 -j DROP", "-A INPUT -p udp -m multiport --dports 1,2 -j DROP"),
    ("nat", "-A PREROUTING -p tcp -j REDIRECT --to-ports 80-90", "-A PREROUTING -p tcp -j REDIRECT --to-ports 80-91"),
    ("nat", "-A OUTPUT -p tcp -j DNAT --to-destination 10.0.0.1", "-A OUTPUT -p tcp -j DNAT --to-destination 10.0.0.2"),
    ("nat", "-A POSTROUTING -j MASQUERADE", "-A POSTROUTING -j ACCEPT"),
    ("raw", "-A PREROUTING -p udp -j CT --zone 1", "-A PREROUTING -p udp -j CT --zone 2"),
    ("raw", "-A PREROUTING -p udp -j CT --notrack", "-A PREROUTING -p udp --sport 53 -j CT --notrack"),
    ("filter", ":INPUT DROP [0:0]", ":INPUT ACCEPT [0:0]"),
    ("filter", "-A INPUT -p tcp -j REJECT", "-A INPUT -p tcp -j DROP"),
    ("filter", "-A FORWARD -j DROP", "-A FORWARD -p tcp -j DROP"),
]


@pytest.mark.parametrize(("name", "one", "other"), DIFFERENT)
def test_small_differences_are_found(name: str, one: str, other: str) -> None:
    assert not pair(table(name, one), table(name, other)).equal
    assert not pair(table(name, other), table(name, one)).equal
    assert pair(table(name, one), table(name, one)).equal


EIGHT = "-A INPUT -s 8.0.0.0/8 -j DROP"
F_MARK, AND_MARK = "-A INPUT -j MARK --set-mark 0xff", "-A PREROUTING -j MARK --and-mark 0xf0"
SAME = [
    ("filter", ("-A INPUT -p tcp --dport 80 -j DROP",), ("-A INPUT -p tcp -m multiport --dports 80 -j DROP",)),
    ("filter", ("-A INPUT -p tcp -j DROP", "-A INPUT -p tcp --dport 80 -j ACCEPT"), ("-A INPUT -p tcp -j DROP",)),
    ("filter", ("-A INPUT -s 8.0.0.0/9 -j DROP", "-A INPUT -s 8.128.0.0/9 -j DROP"), (EIGHT,)),
    ("filter", ("-A INPUT -j LOG",), ()),
    ("filter", ("-A INPUT -m limit --limit 1/s -j DROP",) * 2, ("-A INPUT -m limit --limit 1/s -j DROP",)),
    ("filter", (":A - [0:0]", "-A INPUT -j A", "-A A -p udp -j DROP"), ("-A INPUT -p udp -j DROP",)),
    ("filter", (":A - [0:0]", "-A INPUT -g A"), (":A - [0:0]",)),
    ("mangle", (F_MARK, "-A INPUT -m mark --mark 0x1/0x1 -j DROP"), (F_MARK, "-A INPUT -j DROP")),
    ("mangle", ("-A INPUT -j MARK --xor-mark 1", "-A INPUT -j MARK --xor-mark 1"), ()),
    ("mangle", (AND_MARK, "-A PREROUTING -m mark --mark 0x1/0xf -j DROP"), (AND_MARK,)),
    ("nat", ("-A OUTPUT -p tcp -j REDIRECT --to-ports 9",), ("-A OUTPUT -p tcp -j DNAT --to-destination 127.0.0.1:9",)),
    ("mangle", ("-A OUTPUT -i eth0 -j DROP",), ()),
]  # fmt: skip


@pytest.mark.parametrize(("name", "one", "other"), SAME)
def test_two_ways_to_say_one_thing(name: str, one: tuple[str, ...], other: tuple[str, ...]) -> None:
    found = pair(table(name, *one), table(name, *other))
    assert found.equal, found.difference


def test_ipv6() -> None:
    one = table("nat", "-A OUTPUT -d fd00::/8 -p tcp -j REDIRECT --to-ports 1")
    other = table("nat", "-A OUTPUT -d fd00::/9 -p tcp -j REDIRECT --to-ports 1")
    assert pair(one, one, 6).equal
    difference = pair(one, other, 6).difference
    assert difference is not None and difference.flow.destination >> 119 == 0xFD << 1 | 1


def test_known_sets() -> None:
    text = table("filter", "-A INPUT -m set --match-set s src -j DROP")
    blocks = [Member(block) for block in (module_block("10.0.0.0/8"), module_block("192.168.0.0/16"))]
    with_sets = [replace(host(), sets=(AddressSet("s", ("net",), tuple(blocks[:count])),)) for count in (1, 2)]
    sides = [Side(rules(text), each) for each in with_sets]
    assert compare(sides[0], sides[0]).equal
    spelled = rules(table("filter", "-A INPUT -s 10.0.0.0/8 -j DROP"))
    assert compare(sides[0], Side(spelled, with_sets[0])).equal


def test_known_sets_of_ports() -> None:
    """Each side has its own, as two specs have; a port that is missing in the middle of one is found."""
    text = table("filter", "-A INPUT -p tcp -m set --match-set {} dst -j DROP")
    sides = []
    for name, left_out in (("one", 0), ("two", 0), ("three", 1003)):
        members = tuple(Member(ports=(port, port)) for port in range(1001, 1031, 2) if port != left_out)
        sides.append(Side(rules(text.format(name)), replace(host(), sets=(AddressSet(name, ("port",), members),))))
    assert compare(sides[0], sides[1]).equal
    difference = compare(sides[0], sides[2]).difference
    assert difference is not None and difference.flow.port == 1003


def module_block(text: str):
    from meshnet.model.cidr import read_cidr

    return read_cidr(text)


def many(count: int, kind: str, left_out: int = -1, seed: random.Random | None = None) -> RuleSet:
    lines = [
        f"-A OUT -d 10.{number // 250}.{number % 250}.0/24 -j RETURN"
        if kind == "block"
        else f"-A OUT -p tcp -m tcp --dport {1000 + 7 * number} -j RETURN"
        for number in range(count)
        if number != left_out
    ]
    if seed is not None:
        seed.shuffle(lines)
    return rules(table("nat", ":OUT - [0:0]", "-A OUTPUT -p tcp -j OUT", *lines, OUT.replace("OUTPUT", "OUT")))


@pytest.mark.parametrize("kind", ["block", "port"])
def test_a_thousand_exclusions(kind: str) -> None:
    whole = many(1000, kind)
    assert compare(side(whole), side(many(1000, kind, seed=random.Random(1)))).equal
    difference = compare(side(whole), side(many(1000, kind, left_out=777))).difference
    assert difference is not None
    if kind == "block":
        assert difference.flow.destination >> 8 == (10 << 16 | 3 << 8 | 27)
    else:
        assert difference.flow.port == 1000 + 7 * 777


@pytest.mark.conformance
def test_a_real_rule_set_is_itself() -> None:
    held = dict(goldens())["tproxy.golden"]
    assert compare(side(held), side(held)).equal


def test_another_route_is_a_difference_too() -> None:
    held = rules(table("mangle", "-A OUTPUT -m mark --mark 1337 -j ACCEPT"))
    lost = replace(host(), lookups=())
    difference = compare(side(held), Side(held, lost)).difference
    assert difference is not None and difference.flow.mark == 1337
