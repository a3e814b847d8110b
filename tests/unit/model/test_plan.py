from __future__ import annotations

import pytest

from meshnet.model.nft import NftChain, NftTable
from meshnet.model.plan import ChainText, ChangeSet, Plan, Step, TableText


def test_rules_are_those_of_all_chains_in_either_language():
    tables = (
        TableText(4, "nat", (ChainText("A", ("a", "b")), ChainText("B", ("c",))), ()),
        TableText(6, "raw", (ChainText("A", ("d",)),), ()),
    )
    nft = (NftTable("t", (), (NftChain("x", "", ("e",)), NftChain("y", "", ()))),)
    assert list(Plan(tables, nft=nft).rules()) == ["a", "b", "c", "d", "e"]
    assert list(Plan().rules()) == []


@pytest.mark.parametrize("family", [4, 6])
def test_a_step_of_one_family(family):
    assert Step("ip", family, "").one_family == family


def test_a_step_of_both_has_none():
    with pytest.raises(ValueError, match="nft"):
        _ = Step("nft", "inet", "").one_family


def test_in_sync_is_no_step():
    assert ChangeSet().empty
    assert ChangeSet((), ("+ a",)).empty
    assert not ChangeSet((Step("ip", 4, "x"),)).empty
