from __future__ import annotations

from meshnet.model.nft import UNKNOWN, NftChain, NftTable


def table(*rules, more=()):
    return NftTable("t", (), (NftChain("a", "", ("accept",)), NftChain("b", "", rules)), more)


def test_a_table_of_our_words_can_be_written_again():
    assert not table("drop", 'return comment "meshnet:x"').strange
    assert not NftTable("t", (), ()).strange


def test_one_rule_that_isn_t_makes_it_strange_wherever_it_stands():
    assert table("drop", f"meta l4proto tcp {UNKNOWN} quota) drop").strange


def test_what_stands_beside_sets_and_chains_does_too():
    assert table(more=("flags 0x1",)).strange
