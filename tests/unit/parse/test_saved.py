from __future__ import annotations

import pytest

from meshnet.model.errors import ToolError
from meshnet.parse.saved import SavedChain, SavedRule, parse
from tests import conformance

SMALL = "# a comment\n*nat\n:OUTPUT ACCEPT [0:0]\n:A - [0:0]\n-A OUTPUT -j A\n-A A\nCOMMIT\n"


@pytest.mark.conformance
@pytest.mark.parametrize("path", conformance.files("iptables-save"), ids=lambda path: path.stem)
def test_nothing_of_a_real_rule_set_is_lost(path):
    text = path.read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line.startswith(("-A ", "["))]
    tables = parse(text)
    assert [f"-A {rule.chain} {rule.words}" for table in tables for rule in table.rules] == lines
    assert sum(len(table.chains) for table in tables) == sum(line.startswith(":") for line in text.splitlines())
    assert len(tables) == sum(line.startswith("*") for line in text.splitlines())


def test_chains_policies_and_rules():
    (table,) = parse(SMALL)
    assert table.name == "nat"
    assert table.chains == (SavedChain("OUTPUT", "ACCEPT"), SavedChain("A", "-"))
    assert table.rules == (SavedRule("OUTPUT", "-j A"), SavedRule("A", ""))


@pytest.mark.parametrize("letter", ["\u2028", "\x0c", "\x1c", "\x85", "\r"])
def test_a_comment_may_hold_what_ends_lines_elsewhere(letter):
    """One such comment, of anybody's rule, would have kept meshnet out of the pod."""
    words = f'-m comment --comment "a{letter}b" -j A'
    (table,) = parse(SMALL.replace("-j A", words))
    assert table.rules[0] == SavedRule("OUTPUT", words)


def test_counters_are_packets_and_no_part_of_the_rule():
    (table,) = parse("*nat\n:OUTPUT ACCEPT [7:420]\n[3:180] -A OUTPUT -p tcp -j RETURN\nCOMMIT\n")
    assert table.rules == (SavedRule("OUTPUT", "-p tcp -j RETURN", 3),)


def test_tables_don_t_share_chains():
    first, second = parse(SMALL + SMALL.replace("*nat", "*raw"))
    assert (first.name, second.name) == ("nat", "raw")
    assert first.rules == second.rules


@pytest.mark.parametrize(
    ("text", "line"),
    [("*nat\nwhat is this\nCOMMIT\n", 2), ("*nat\n:A - [0:0]\n[x:1] -A A\nCOMMIT\n", 3)],
    ids=["no line of it", "no counters"],
)
def test_a_line_that_is_none_is_named(text, line):
    with pytest.raises(ToolError, match=f"line {line} ") as caught:
        parse(text)
    assert caught.value.detail == text.splitlines()[line - 1]


def test_half_a_rule_set_is_none():
    """A tool that was killed while it printed: what is missing would be taken for what isn't there."""
    with pytest.raises(ToolError, match="inside table nat"):
        parse("*nat\n:A - [0:0]\n-A A -j RETURN\n")


def test_nothing_is_no_table():
    assert parse("# empty\n\n") == ()
