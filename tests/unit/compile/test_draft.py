from __future__ import annotations

from meshnet.compile.draft import OUT, PRE, Draft
from meshnet.model.cidr import read_cidr
from meshnet.model.program import Accept, Jump, Return
from meshnet.model.spec import Spec


def draft(*families):
    return Draft(Spec(), families or (4, 6))


def chains(of):
    return [(chain.table, chain.name) for chain in of.finish().chains]


def test_the_table_is_part_of_the_id():
    made = draft()
    made.add(("nat", OUT), "out.x", (), Accept(), "outbound.mode")
    (rule,) = made.finish().rules()
    assert rule.id == "nat.out.x"


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
    assert made.finish().entries == ()


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
