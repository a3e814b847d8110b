from __future__ import annotations

from meshnet.doctor.advice import in_words_of
from meshnet.model.ruleset import RuleSet
from meshnet.parse.nft_ruleset import read as read_nft
from meshnet.parse.ruleset import read
from tests.unit.simulate.pods import table


def test_the_words_are_of_those_whose_rules_they_are() -> None:
    (nft,) = read_nft("table ip a {\n chain b {\n  tcp dport 80 drop\n }\n}\n")
    assert in_words_of(read(table("filter", "-A INPUT -j DROP"), 4), "-j", "jump") == "-j"
    assert in_words_of(nft, "-j", "jump") == "jump"
    assert in_words_of(RuleSet(4), "-j", "jump") == "-j"
