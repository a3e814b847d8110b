from __future__ import annotations

from itertools import pairwise

import pytest

from meshnet.model.errors import RulesError
from meshnet.model.ruleset import RuleSet
from meshnet.parse.ruleset import read
from meshnet.simulate.chains import MOST_DEPTH, check
from tests.unit.simulate.pods import inward, outward, path, table, walk


def problems(*lines):
    with pytest.raises(RulesError) as refused:
        check(read(table("nat", *lines), 4))
    return refused.value.problems


def test_what_the_kernel_would_take():
    check(read(table("nat", ":A - [0:0]", ":B - [0:0]", "-A OUTPUT -j A", "-A A -j B", "-A OUTPUT -g B"), 4))
    check(RuleSet(4))


def test_every_jump_into_the_dark_is_named_with_its_line():
    found = sorted(problems(":A - [0:0]", "-A A -j GONE", "-A OUTPUT -g AWAY", "-A A -j OUTPUT"))
    assert [line.split(":")[0] for line in found] == ["line 3", "line 4", "line 5"]
    assert "GONE" in found[0] and "AWAY" in found[1] and "built-in chain OUTPUT" in found[2]


@pytest.mark.parametrize(
    ("lines", "circle"),
    [
        ((":A - [0:0]", "-A A -j A"), "A -> A"),
        ((":A - [0:0]", ":B - [0:0]", "-A A -j B", "-A B -g A"), "A -> B -> A"),
        ((":A - [0:0]", ":B - [0:0]", ":C - [0:0]", "-A A -j B", "-A A -j C", "-A C -j B", "-A B -j C"), "B -> C -> B"),
    ],
)
def test_a_circle_is_shown(lines, circle):
    (found,) = problems(*lines)
    assert circle in found


def test_two_ways_to_one_chain_are_no_circle():
    check(read(table("nat", *(f":{n} - [0:0]" for n in "ABCD"), "-A A -j B", "-A A -j C", "-A B -j D", "-A C -j D"), 4))


def test_too_deep():
    names = [f"C{n}" for n in range(MOST_DEPTH + 2)]
    lines = [f":{name} - [0:0]" for name in names] + [f"-A {a} -j {b}" for a, b in pairwise(names)]
    (found,) = problems(*lines)
    assert f"more than {MOST_DEPTH} deep" in found


def test_a_chain_that_returns_goes_on_behind_its_call_and_goto_does_not():
    rules = table(
        "nat", ":A - [0:0]", "-A PREROUTING {} A", "-A PREROUTING -j DROP", "-A A -p tcp -j RETURN", "-A A -j ACCEPT"
    )
    assert path(walk(rules.format("-j"), inward())) == ["nat PREROUTING 1", "nat A 1", "nat PREROUTING 2"]
    assert path(walk(rules.format("-g"), inward())) == ["nat PREROUTING 1", "nat A 1"]


def test_a_policy_decides_at_the_end_of_a_built_in_chain():
    found = walk(table("filter", ":OUTPUT DROP [0:0]", "-A OUTPUT -p udp -j ACCEPT"), outward())
    assert (found.end, found.hops[-1].verdict) == ("dropped", "policy DROP")
    assert walk(table("filter", ":OUTPUT DROP [0:0]", "-A OUTPUT -p tcp -j ACCEPT"), outward()).end == "left"


def test_a_policy_that_nobody_knows_is_undecided():
    assert walk(table("filter", ":OUTPUT QUEUE [0:0]"), outward()).end == "undecided"
