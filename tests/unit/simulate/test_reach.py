"""A rule that is said to be out of reach is hit by nothing, and the rules without it do the same."""

from __future__ import annotations

import random

import pytest

from meshnet.model.ruleset import RuleSet
from meshnet.parse.ruleset import read
from meshnet.simulate import compare as module
from meshnet.simulate.around import elsewhere
from meshnet.simulate.compare import compare
from meshnet.simulate.reach import LONG, Place, unreached
from meshnet.simulate.walk import Pod
from tests.unit.simulate.mutations import goldens, host, side, without
from tests.unit.simulate.pods import table
from tests.unit.simulate.test_compare import random_flows


def found(text: str, family: int = 4):
    held = read(text, family)
    return unreached(held, (host(), elsewhere(held, host())))


def told(text: str, family: int = 4) -> list[tuple[Place, tuple[Place, ...]]]:
    return [(item.place, item.takers) for item in found(text, family) if not item.doubt]


def at(chain: str, number: int, name: str = "mangle") -> Place:
    return Place(name, chain, number)


def test_a_rule_behind_one_that_takes_everything() -> None:
    text = table("mangle", "-A PREROUTING -p tcp -j ACCEPT", "-A PREROUTING -p tcp -m tcp --dport 80 -j DROP")
    assert told(text) == [(at("PREROUTING", 2), (at("PREROUTING", 1),))]


def test_two_rules_that_take_everything_together() -> None:
    text = table(
        "mangle",
        "-A OUTPUT -p tcp -m tcp --dport 0:99 -j ACCEPT",
        "-A OUTPUT -p tcp -m tcp --dport 100:65535 -j RETURN",
        "-A OUTPUT -p tcp -m owner --uid-owner 7 -j DROP",
        "-A OUTPUT -p udp -j DROP",
    )
    assert told(text) == [(at("OUTPUT", 3), (at("OUTPUT", 1), at("OUTPUT", 2)))]


def test_what_takes_in_a_chain_below_is_told_by_the_rule_that_leads_there() -> None:
    text = table(
        "nat",
        ":IN - [0:0]",
        "-A OUTPUT -p tcp -j IN",
        "-A OUTPUT -p tcp -m owner --uid-owner 7 -j REDIRECT --to-ports 1",
        "-A IN -p tcp -j REDIRECT --to-ports 2",
    )
    assert told(text) == [(at("OUTPUT", 2, "nat"), (at("OUTPUT", 1, "nat"),))]


def test_what_the_rules_that_lead_there_keep_out() -> None:
    text = table(
        "mangle",
        ":T - [0:0]",
        "-A PREROUTING -p tcp -m tcp --dport 22 -j RETURN",
        "-A PREROUTING -p tcp -j T",
        "-A T -p tcp -m tcp --dport 22 -j DROP",
        "-A T -p udp -j DROP",
        "-A T -j DROP",
    )
    assert told(text) == [(at("T", 1), (at("PREROUTING", 1),)), (at("T", 2), ())]


def test_what_another_table_took() -> None:
    text = table("raw", "-A PREROUTING -p udp -j DROP") + table("mangle", "-A INPUT -p udp -i eth0 -j ACCEPT")
    assert told(text) == [(at("INPUT", 1), (at("PREROUTING", 1, "raw"),))]


def test_an_end_in_an_earlier_hook_of_the_table_takes_nothing_from_a_later_one() -> None:
    text = table("mangle", "-A PREROUTING -j ACCEPT", "-A INPUT -p tcp -j ACCEPT", "-A INPUT -p tcp -j DROP")
    assert told(text) == [(at("INPUT", 2), (at("INPUT", 1),))]


def test_a_port_that_was_translated_on_the_way() -> None:
    text = table("nat", "-A PREROUTING -p tcp -m tcp --dport 80 -j REDIRECT --to-ports 15006") + table(
        "filter", "-A INPUT -i eth0 -p tcp -m tcp --dport 80 -m conntrack --ctstate NEW -j DROP"
    )
    assert told(text) == [(at("INPUT", 1, "filter"), (at("PREROUTING", 1, "nat"),))]
    assert told(text.replace("NEW", "RELATED")) == []


def test_a_chain_that_nothing_leads_to_is_told_once() -> None:
    text = table("mangle", ":LOST - [0:0]", "-A LOST -p tcp -j DROP", "-A LOST -p udp -j DROP", "-A INPUT -j ACCEPT")
    (only,) = found(text)
    assert (only.place, only.loose, only.takers) == (at("LOST", 1), True, ())


def test_of_a_chain_behind_a_rule_out_of_reach_only_that_rule_is_told() -> None:
    text = table("mangle", ":T - [0:0]", "-A INPUT -j ACCEPT", "-A INPUT -p tcp -j T", "-A T -p tcp -j DROP")
    assert told(text) == [(at("INPUT", 2), (at("INPUT", 1),))]


def test_a_goto_doesn_t_come_back() -> None:
    text = table("mangle", ":T - [0:0]", "-A INPUT -p tcp -g T", "-A INPUT -p tcp -j DROP", "-A T -p udp -j DROP")
    assert (at("INPUT", 2), (at("INPUT", 1),)) in told(text)


def test_marks_that_a_rule_has_set() -> None:
    text = table(
        "mangle",
        "-A PREROUTING -p tcp -j MARK --set-mark 7",
        "-A PREROUTING -p tcp -m mark --mark 7 -j ACCEPT",
        "-A PREROUTING -p tcp -m mark --mark 8 -j DROP",
    )
    assert told(text) == [(at("PREROUTING", 3), ())]


UNKNOWN = [
    ("-A INPUT -m geoip --cc XX -j ACCEPT", "-A INPUT -p tcp -j DROP"),
    ("-A INPUT -m set --match-set nobody src -j ACCEPT", "-A INPUT -p tcp -j DROP"),
    ("-A INPUT -m set ! --match-set nobody src -j ACCEPT", "-A INPUT -m set --match-set nobody src -j DROP"),
]


@pytest.mark.parametrize("lines", UNKNOWN)
def test_a_match_that_nobody_knows_hides_nothing(lines: tuple[str, ...]) -> None:
    assert found(table("mangle", *lines)) == ()


DOUBTFUL = [
    ("-A INPUT -p tcp -j SYNPROXY --mss 1460", "-A INPUT -p tcp -m tcp --dport 80 -j DROP"),
    ("-A INPUT -p tcp -m tcp --tcp-flags FIN FIN -j DROP",),
    ("-A INPUT -p icmp -m icmp --icmp-type 3/4 -j DROP",),
    ("-A INPUT -f -j DROP",),
    ("-A OUTPUT -m owner ! --socket-exists -j DROP",),
    ("-A INPUT -m addrtype --dst-type ANYCAST -j DROP",),
]


@pytest.mark.parametrize("lines", DOUBTFUL)
def test_what_can_t_be_told_isn_t_told(lines: tuple[str, ...]) -> None:
    (only,) = found(table("mangle", *lines))
    assert only.doubt and only.place.number == len(lines)


def test_a_segment_in_the_middle_of_a_connection_reaches_nat() -> None:
    syn = "--tcp-flags FIN,SYN,RST,ACK SYN"
    assert found(table("nat", f"-A OUTPUT -p tcp -m tcp ! {syn} -j RETURN", "-A OUTPUT -p tcp -j RETURN")) == ()


def test_sysctls_and_the_pod_s_address_don_t_matter() -> None:
    assert found(table("mangle", "-A INPUT -d 198.51.100.0/24 -j DROP", "-A FORWARD -p tcp -j DROP")) == ()
    assert found(table("mangle", "-A INPUT -i eth0 -s 127.0.0.0/8 -j DROP")) == ()
    assert found(table("nat", "-A OUTPUT -s 127.0.0.6/32 -o net1 -j RETURN")) == ()
    assert found(table("nat", "-A OUTPUT -d 10.96.0.10/32 -o eth0 -p udp -j REDIRECT --to-ports 53")) == ()


def test_ipv6() -> None:
    text = table("mangle", "-A INPUT -s 2001:db8::/32 -j ACCEPT", "-A INPUT -s 2001:db8:1::/48 -j DROP")
    assert told(text, 6) == [(at("INPUT", 2), (at("INPUT", 1),))]


def test_of_a_long_list_the_entries_inside_others() -> None:
    lines = [f"-A OUTPUT -d 10.{n}.0.0/16 -j RETURN" for n in range(LONG)]
    more = ["-A OUTPUT -d 10.3.4.0/24 -j RETURN", "-A OUTPUT -d 10.200.0.0/16 -j RETURN", "-A OUTPUT -p tcp -j ACCEPT"]
    assert told(table("mangle", *lines, *more)) == [(at("OUTPUT", LONG + 1), (at("OUTPUT", 4),))]


def test_a_long_list_that_is_out_of_reach() -> None:
    lines = [f"-A OUTPUT -d 10.{n}.0.0/16 -j RETURN" for n in range(LONG)]
    assert told(table("mangle", "-A OUTPUT -j ACCEPT", *lines)) == [(at("OUTPUT", 2), (at("OUTPUT", 1),))]


@pytest.mark.conformance
@pytest.mark.parametrize(("name", "held"), goldens(), ids=lambda item: item if isinstance(item, str) else "")
def test_without_such_a_rule_nothing_is_different_and_no_packet_meets_it(name: str, held: RuleSet) -> None:
    """``compare`` says so for every packet, and 300 random ones don't meet it."""
    told = unreached(held, (host(), elsewhere(held, host())))
    pod = Pod([held], module._with_links(host(), side(held), side(held), "eth0"))
    met = set()
    for flow in random_flows(held, random.Random(name), 300):
        met |= {(hop.table, hop.chain, hop.number) for hop in pod.walk(flow).hops if hop.rule is not None}
    for item in told:
        place = item.place
        assert (place.table, place.chain, place.number) not in met
        if item.doubt:
            continue
        tables = [one.name for one in held.tables]
        chains = [one.name for one in held.tables[tables.index(place.table)].chains]
        where = tables.index(place.table), chains.index(place.chain), place.number - 1
        assert compare(side(held), side(without(held, *where))).equal, f"{name}: {place}"
        for taker in item.takers:
            assert taker != place
