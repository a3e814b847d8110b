from __future__ import annotations

import pytest

from meshnet.model.errors import RulesError
from meshnet.parse.nft_text import is_nft, own_part, read_tables

TABLE = """# written by hand
table inet mine {
	comment "a { b"
	set blocks {
		type ipv4_addr
		flags interval
		elements = { 10.0.0.0/8,
				127.0.0.1 }
	}
	set filled {
		type ipv4_addr
		flags dynamic
	}
	chain in {
		type filter hook input priority filter; policy drop;
		tcp dport { 80, 443 } accept; counter drop # all else
		ip saddr @blocks comment "x; } y" accept
	}
	chain out { }
}
"""


@pytest.mark.parametrize(
    ("text", "ours"),
    [
        (TABLE, True),
        ("\n\ntable ip a {\n}\n", True),
        ("flush ruleset\n", True),
        ("add table inet a\n", True),
        ("# iptables-restore\n*nat\nCOMMIT\n# nft -f -\nadd table inet a\n", True),
        ("*nat\nCOMMIT\n", False),
        ("table: 1\n", False),
        ("tables\n", False),
        ("", False),
    ],
)
def test_whose_text_it_is(text: str, ours: bool) -> None:
    assert is_nft(text) is ours


def test_sets_chains_and_the_lines_of_rules() -> None:
    (found,) = read_tables(TABLE)
    table = found.table
    assert (found.family, table.name) == ("inet", "mine")
    assert [(item.name, item.ranges) for item in table.sets] == [
        ("blocks", ((10 << 24, (11 << 24) - 1), (0x7F000001, 0x7F000001)))
    ]
    into, out = table.chains
    assert into.head == "type filter hook input priority filter; policy drop;"
    assert into.rules == (
        "tcp dport { 80, 443 } accept",
        "counter drop",
        'ip saddr @blocks comment "x; } y" accept',
    )
    assert (out.name, out.head, out.rules) == ("out", "", ())
    assert found.lines == {("in", 0): 16, ("in", 1): 16, ("in", 2): 17}


def test_a_plan_s_other_steps_are_left_out_and_lines_kept() -> None:
    plan = (
        "# ip -batch\nrule add\u2028a\n# nft -f -\ntable inet a {\n chain b {\n  drop\n }\n}\n# ip -batch\nroute add\n"
    )
    assert [len(text.split("\n")) for text in (own_part(plan), plan)] == [11, 11]
    (found,) = read_tables(plan)
    assert found.lines == {("b", 0): 6}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("table inet a {\n chain b {\n", "rules:2: expected }: the text is cut off"),
        ("table inet a {\n chain b {\n }\n chain b {\n }\n}\n", "expected chain b once"),
        ("table a {\n}\ntable ip a {\n}\n", "expected table ip a once"),
        ("add rule inet a b drop\n", "expected whole tables"),
        ("table inet a {\n set {\n }\n}\n", "rules:2: expected the name of a set"),
    ],
)
def test_what_isn_t_understood_as_a_whole(text: str, said: str) -> None:
    with pytest.raises(RulesError) as caught:
        read_tables(text)
    assert said in str(caught.value)
