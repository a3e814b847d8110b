from __future__ import annotations

import pytest

from meshnet.model.rule import AddressIs, Comment, Drop, PortIs, ProtocolIs
from meshnet.model.ruleset import HeldRule, RuleSet
from meshnet.parse.ruleset import read
from meshnet.render.saved import quote, rule_text, text_of


@pytest.mark.parametrize(
    ("word", "text"),
    [("a", "a"), ("", '""'), ("a b", '"a b"'), ('a"b', '"a\\"b"'), ("a\\b", '"a\\\\b"'), ("a'b", '"a\\\'b"')],
)
def test_words_that_need_quotes_have_them(word, text):
    assert quote(word) == text


@pytest.mark.parametrize("comment", ["x", "a b", 'a "b"', "back\\slash", "it's", "-j DROP", "#", ""])
def test_any_comment_comes_back(comment):
    text = f"*nat\n-A OUTPUT {rule_text(HeldRule((Comment(comment),), Drop()), 4)}\nCOMMIT\n"
    chain = read(text, 4).table("nat").chain("OUTPUT")
    assert [rule.comment for rule in chain.rules] == [comment]


def test_a_port_is_of_the_rule_s_protocol():
    assert (
        rule_text(HeldRule((ProtocolIs(17), PortIs("source", 1, 9)), Drop()), 4) == "-p udp -m udp --sport 1:9 -j DROP"
    )
    assert "-m tcp" in rule_text(HeldRule((PortIs("source", 1, 9),), Drop()), 4)
    assert "-m tcp" in rule_text(HeldRule((ProtocolIs(17, True), PortIs("source", 1, 9)), Drop()), 4)


@pytest.mark.parametrize(
    ("family", "network", "mask", "text"),
    [
        (4, 10 << 24, 0xFF000000, "10.0.0.0/8"),
        (4, 10 << 24, 0xFF00FF00, "10.0.0.0/255.0.255.0"),
        (4, 0, 0, "0.0.0.0/0"),
        (6, 0xFD << 120, 0xFF << 120, "fd00::/8"),
        (6, 1, 1, "::1/::1"),
    ],
)
def test_blocks_by_prefix_or_mask(family, network, mask, text):
    assert rule_text(HeldRule((AddressIs("source", network, mask, True),), Drop()), family) == f"! -s {text} -j DROP"


def test_a_whole_set_with_policies_and_both_kinds_of_chains():
    text = "*nat\n:OUTPUT DROP [0:0]\n:A - [0:0]\n-A OUTPUT -j A\n-A A\nCOMMIT\n*raw\n:OUTPUT ACCEPT [0:0]\nCOMMIT\n"
    again = text_of(read(text, 4))
    assert [line for line in again.splitlines() if line.startswith(("-A", "*", ":OUTPUT D", ":A"))] == [
        "*nat", ":OUTPUT DROP [0:0]", ":A - [0:0]", "-A OUTPUT -j A", "-A A", "*raw",
    ]  # fmt: skip
    assert text_of(read(again, 4)) == again
    assert text_of(RuleSet(6)) == ""
