from __future__ import annotations

import pytest

from meshnet.compile.pipeline import compile_spec
from meshnet.model.cidr import read_cidr
from meshnet.model.facts import Facts
from meshnet.model.program import Destination, Return, Rule, Source
from meshnet.model.spec import Spec

FOUR, SIX = read_cidr("10.0.0.0/8"), read_cidr("fd00::/8")


def rule(*matches, family=None):
    return Rule("out.x", tuple(matches), Return(), "outbound", family)


@pytest.mark.parametrize("end", [Source, Destination])
@pytest.mark.parametrize(("family", "block"), [(4, SIX), (6, FOUR), (None, FOUR)])
def test_a_rule_that_names_a_block_is_of_its_family(end, family, block):
    with pytest.raises(ValueError, match=r"out\.x"):
        rule(end((block,)), family=family)


def test_the_second_block_is_looked_at_as_well():
    assert rule(Source((FOUR,)), family=4)
    with pytest.raises(ValueError):
        rule(Source((FOUR, SIX)), family=4)


def test_a_rule_without_a_family_is_of_both():
    assert rule().holds_for(4) and rule().holds_for(6)
    assert rule(family=6).holds_for(6) and not rule(family=6).holds_for(4)


def test_rules_of_a_program_are_those_of_all_chains():
    program = compile_spec(Spec(families=(4,)), Facts())
    assert len(program.rules()) == sum(len(chain.rules) for chain in program.chains) > 0
