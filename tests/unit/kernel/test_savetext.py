from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshnet.kernel.savetext import sections, words
from meshnet.model.errors import ToolError
from meshnet.parse.words import split


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("-A X -j DROP", ["-A", "X", "-j", "DROP"]),
        ('-m comment --comment "a b" -j X', ["-m", "comment", "--comment", "a b", "-j", "X"]),
        (r'--comment "say \"hi\" \\"', ["--comment", 'say "hi" \\']),
        ('--comment ""', ["--comment", ""]),
        ('--comment a"b c"d', ["--comment", "ab cd"]),
        ("", []),
    ],
)
def test_words_are_cut_as_the_tools_cut_them(line, found):
    assert words(line) == found


@pytest.mark.parametrize("cut", [words, split])
@given(st.lists(st.tuples(st.booleans(), st.text('ab-\\"', min_size=1, max_size=4)), max_size=5))
def test_words_come_back_however_they_were_quoted(cut, items):
    """A plain word may stay bare; whichever stand in quotes, one or many, the same words are found."""
    quoted = [
        '"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"' if in_quotes or set(word) & set('\\"') else word
        for in_quotes, word in items
    ]
    assert cut(" ".join(quoted)) == [word for _, word in items]


def test_an_open_quote_is_refused():
    with pytest.raises(ToolError, match="quote"):
        words('--comment "a')


def test_tables_chains_and_rules_are_told_apart():
    first, second = sections(
        "# Generated\n*nat\n:OUTPUT ACCEPT [1:2]\n:MINE - [0:0]\n[3:4] -A OUTPUT -j MINE\nCOMMIT\n"
        "*raw\n:OUTPUT ACCEPT [0:0]\nCOMMIT\n"
    )
    assert (first.table, first.chains, first.lines) == (
        "nat",
        {"OUTPUT": "ACCEPT", "MINE": "-"},
        ["-A OUTPUT -j MINE"],
    )
    assert not first.empty
    assert second.empty


@pytest.mark.parametrize("line", [":OUTPUT DROP [0:0]", ":MINE - [0:0]", "-A OUTPUT -j DROP"])
def test_a_table_with_anything_in_it_is_not_empty(line):
    assert not sections(f"*nat\n{line}\nCOMMIT\n")[0].empty


def test_a_comment_may_hold_what_ends_lines_elsewhere():
    rule = '-A OUTPUT -m comment --comment "a\u2028b\x0cc" -j ACCEPT'
    (section,) = sections(f"*nat\n:OUTPUT ACCEPT [0:0]\n{rule}\nCOMMIT\n")
    assert section.lines == [rule]
