from __future__ import annotations

import pytest

from meshnet.model.cidr import read_cidr
from meshnet.model.host import AddressSet, Host, Member
from meshnet.parse.ruleset import read
from meshnet.simulate.space import Dimension, Questions, addresses, classes, ids, marks, ports
from tests.unit.simulate.pods import host, number, table


def questions(*rules, family=4, on=None):
    return Questions([read(table("mangle", *(f"-A OUTPUT {rule}" for rule in rules)), family)], on or Host(), family)


def kinds(values, *asked):
    """Which questions each value answers yes to; no two values the same."""
    found = [tuple(question(value) for question in asked) for value in values]
    assert len(set(found)) == len(found)
    return set(found)


def test_values_that_no_question_tells_apart_are_one():
    assert classes([1, 2, 3, 4], [lambda n: n > 2]) == [1, 3]
    assert classes([5, 6], []) == [5]
    assert classes([], [lambda n: True]) == []


def test_a_mask_answers_which_classes_a_question_is_true_of():
    dimension = Dimension("port", [80, 443, 22])
    assert dimension.everything == 0b111
    assert dimension.mask_of("web", lambda port: port in (80, 443)) == 0b011
    assert dimension.mask_of("web", lambda port: False) == 0b011, "asked once"


def test_ports_on_both_sides_of_each_span():
    found = ports(questions("-p tcp --dport 80:90", "-p tcp -m multiport --dports 443,1000:"), "destination", [1])
    several = kinds(found, lambda n: 80 <= n <= 90, lambda n: n == 443 or n >= 1000)
    assert several == {(False, False), (True, False), (False, True)}


def test_the_first_value_stands_for_the_ordinary_class():
    assert ports(questions("-p tcp --dport 80"), "destination", [4711])[0] == 4711


@pytest.mark.parametrize(
    ("family", "block", "inside"), [(4, "10.0.0.0/8", "10.255.255.255"), (6, "fd00::/8", "fd00::1")]
)
def test_addresses_inside_and_outside_of_a_block(family, block, inside):
    asked = read_cidr(block)
    found = addresses(questions(f"-d {block}", family=family), "destination", [number(inside)])
    assert {asked.holds(family, value) for value in found} == {True, False}
    assert found[0] == number(inside)


def test_blocks_of_a_set_are_asked_about_too():
    made = AddressSet("s", ("net",), (Member(read_cidr("10.9.0.0/16")),))
    asked = questions("-m set --match-set s dst", on=Host(sets=(made,)))
    assert any(read_cidr("10.9.0.0/16").holds(4, value) for value in addresses(asked, "destination", [1]))


def test_a_namespace_s_own_addresses_are_apart():
    found = addresses(questions(on=host()), "destination", [number("8.8.8.8")])
    assert {number("10.1.0.2"), number("127.0.0.0")} & set(found)


def test_an_identity_that_is_named_and_one_that_is_not():
    found = ids(questions("-m owner --uid-owner 1337", "-m owner --gid-owner 5-9"), "uid")
    assert 1337 in found and any(value != 1337 for value in found)
    found = ids(questions("-m owner --gid-owner 5-9"), "gid")
    assert any(5 <= value <= 9 for value in found) and any(not 5 <= value <= 9 for value in found)


def test_marks_that_a_rule_asks_for():
    found = marks(questions("-m mark --mark 0x539/0xfff -j ACCEPT", "-m mark ! --mark 0x1/0x1 -j ACCEPT"))
    assert {(value & 0xFFF == 0x539, value & 1 == 1) for value in found} == {
        (False, False),
        (False, True),
        (True, True),
    }


def test_without_a_question_there_is_one_mark():
    assert marks(questions("-j ACCEPT")) == [0]
