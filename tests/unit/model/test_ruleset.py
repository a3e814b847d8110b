from __future__ import annotations

from meshnet.model.rule import Accept, Comment, Drop, ProtocolIs
from meshnet.model.ruleset import HeldChain, HeldRule, HeldTable, RuleSet

TCP = ProtocolIs(6)


def test_a_rule_is_the_same_wherever_it_stands():
    one, other = HeldRule((TCP,), Accept(), 3), HeldRule((TCP,), Accept(), 9)
    assert one == other and hash(one) == hash(other)
    assert one != HeldRule((TCP,), Drop(), 3)
    assert one != HeldRule((), Accept(), 3)
    assert one != "a rule"


def test_a_rule_s_comment_is_the_first_one():
    assert HeldRule((TCP, Comment("a"), Comment("b")), Accept()).comment == "a"
    assert HeldRule((TCP,), Accept()).comment == ""


def test_tables_and_chains_by_their_names():
    chains = (HeldChain("A", "", ()), HeldChain("OUTPUT", "ACCEPT", ()))
    held = RuleSet(4, (HeldTable("nat", ()), HeldTable("raw", chains)))
    assert held.table("raw").chain("OUTPUT") == chains[1]
    assert (held.table("mangle"), held.table("nat").chain("A"), RuleSet(6).table("nat")) == (None, None, None)
