from __future__ import annotations

import pytest

from meshnet.compile.draft import OUT, PRE, Draft
from meshnet.model.cidr import read_cidr
from meshnet.model.ports import PortRange
from meshnet.model.program import Accept, CtState, Jump, Redirect, Return
from meshnet.model.spec import Spec


def draft(*families):
    return Draft(Spec(), families or (4, 6))


KEPT = "nat.out.translation.keep"


def chains(of):
    """Those that hold more than what is in every program without a redirection."""
    return [(chain.table, chain.name) for chain in of.finish().chains if [rule.id for rule in chain.rules] != [KEPT]]


def test_the_table_is_part_of_the_id():
    made = draft()
    made.add(("nat", OUT), "out.x", (), Accept(), "outbound.mode")
    assert [rule.id for rule in made.finish().rules()] == ["nat.out.x", KEPT]


def test_a_chain_of_nothing_but_returns_is_dropped():
    made = draft()
    made.add(("nat", PRE), "a", (), Return(), "x")
    assert chains(made) == []


def test_a_jump_to_nowhere_takes_its_chain_along():
    made = draft()
    made.add(("nat", PRE), "a", (), Jump("MESHNET_A"), "x")
    made.add(("nat", "MESHNET_A"), "b", (), Jump("MESHNET_B"), "x")
    made.add(("nat", "MESHNET_B"), "c", (), Return(), "x")
    assert chains(made) == []
    assert [entry.rule.id for entry in made.finish().entries] == ["nat.out.entry"]


def test_a_chain_that_nobody_jumps_to_is_dropped():
    made = draft()
    made.add(("nat", OUT), "a", (), Accept(), "x")
    made.add(("nat", "MESHNET_A"), "b", (), Accept(), "x")
    assert chains(made) == [("nat", OUT)]


def test_a_jump_stays_inside_its_table():
    made = draft()
    made.add(("nat", OUT), "a", (), Jump("MESHNET_A"), "x")
    made.add(("mangle", "MESHNET_A"), "b", (), Accept(), "x")
    assert chains(made) == []


def test_a_family_without_a_redirection_has_a_rule_that_asks_conntrack():
    """What another spec has redirected goes on only as long as nat has a chain, and conntrack a user."""
    made = draft()
    made.add(("nat", OUT), "a", (), Redirect(PortRange(15001, 15001)), "x", 4)
    kept = made.finish().rules()[-1]
    assert (kept.id, kept.family, kept.matches) == (KEPT, 6, (CtState(("NEW",)),))
    made.add(("nat", OUT), "b", (), Redirect(PortRange(15001, 15001)), "x")
    assert KEPT not in [rule.id for rule in made.finish().rules()]


@pytest.mark.parametrize("families", [(4,), (6,), (4, 6)])
def test_without_any_redirection_one_rule_is_for_all_families(families):
    (rule,) = draft(*families).finish().rules()
    assert (rule.id, rule.family) == (KEPT, None)


def test_chains_and_entries_in_the_order_of_the_packet():
    made = draft()
    for table in ("nat", "mangle", "raw"):
        for chain in (PRE, OUT):
            made.add((table, chain), "a", (), Accept(), "x")
    program = made.finish()
    assert [chain.table for chain in program.chains] == ["raw", "raw", "mangle", "mangle", "nat", "nat"]
    assert [entry.rule.id for entry in program.entries][:2] == ["raw.in.entry", "raw.out.entry"]


def test_blocks_by_family_and_only_of_our_families():
    four, six = read_cidr("10.0.0.0/8"), read_cidr("2001:db8::/32")
    assert draft().blocks([six, four]) == [(4, (four,)), (6, (six,))]
    assert draft(4).blocks([six]) == []
