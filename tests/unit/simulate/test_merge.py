from __future__ import annotations

import pytest

from meshnet.model.rule import InSet, PortsAre
from meshnet.parse.ruleset import read
from meshnet.simulate.merge import merged
from tests.unit.simulate.pods import table


def chain(*rules, family=4, fewest=3):
    held, sets = merged(read(table("nat", *(f"-A OUTPUT {rule}" for rule in rules)), family), "m", fewest)
    return held.table("nat").chain("OUTPUT").rules, sets


def test_a_run_of_blocks_is_one_rule_about_a_set():
    rules, (made,) = chain(*(f"-d 10.{n}.0.0/16 -p tcp -j RETURN" for n in range(3)), "-j DROP")
    assert len(rules) == 2
    (asked,) = (item for item in rules[0].conditions if isinstance(item, InSet))
    assert (asked.name, asked.sides, rules[0].line) == ("m0", ("dst",), 2)
    assert [str(member.block) for member in made.members] == ["10.0.0.0/16", "10.1.0.0/16", "10.2.0.0/16"]


def test_sources_of_ipv6_too():
    _, (made,) = chain(*(f"-s fd0{n}::/16 -j ACCEPT" for n in range(3)), family=6)
    assert made.members[0].block.family == 6


def test_ports_are_one_rule_about_all_of_them():
    rules, sets = chain(*(f"-p tcp --dport {n}:{n + 1} -j RETURN" for n in (10, 20, 30)))
    (asked,) = (item for item in rules[0].conditions if isinstance(item, PortsAre))
    assert (len(rules), sets, asked.spans) == (1, (), ((10, 11), (20, 21), (30, 31)))


@pytest.mark.parametrize(
    "rules",
    [
        ["-d 10.{n}.0.0/16 -j MARK --set-mark 1"],
        ["! -d 10.{n}.0.0/16 -j RETURN"],
        ["-d 10.{n}.0.0/255.0.255.0 -j RETURN"],
        ["-d 10.{n}.0.0/16 -j RETURN", "-s 10.{n}.0.0/16 -j RETURN"],
        ["-d 10.{n}.0.0/16 -j RETURN", "-d 10.{n}.0.0/16 -j DROP"],
        ["-d 10.{n}.0.0/16 -j RETURN", "-d 10.{n}.0.0/16 -p tcp -j RETURN"],
        ["-p udp -j RETURN"],
    ],
)
def test_what_can_t_be_merged_stays_as_it_is(rules):
    given = [rule.format(n=n) for n in range(3) for rule in rules]
    found, sets = chain(*given)
    assert (len(found), sets) == (len(given), ())


def test_too_few_stay():
    assert len(chain("-d 10.0.0.0/16 -j RETURN", "-d 10.1.0.0/16 -j RETURN")[0]) == 2
    assert len(chain("-d 10.0.0.0/16 -j RETURN", "-d 10.1.0.0/16 -j RETURN", fewest=2)[0]) == 1


def test_a_second_run_has_a_set_of_its_own_and_what_stands_between_stays_between():
    rules, sets = chain(
        *(f"-d 10.{n}.0.0/16 -j RETURN" for n in range(3)),
        "-p udp -j DROP",
        *(f"-d 11.{n}.0.0/16 -j RETURN" for n in range(3)),
    )
    assert ([item.name for item in sets], len(rules)) == (["m0", "m1"], 3)


def test_comments_keep_no_rules_apart():
    rules, _ = chain(*(f'-d 10.{n}.0.0/16 -m comment --comment "{n}" -j RETURN' for n in range(3)))
    assert len(rules) == 1
