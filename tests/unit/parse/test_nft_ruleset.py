"""Tables of nftables as rule sets: what their text says, where their chains stand, and of which family rules are."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from meshnet.compile.pipeline import compile_spec
from meshnet.model.errors import MeshnetError, RulesError
from meshnet.model.facts import Facts
from meshnet.model.hooks import Base
from meshnet.model.rule import AddressesAre, UnknownMatch, UnknownTarget
from meshnet.parse import nft_text
from meshnet.parse.nft_ruleset import of_table, read
from meshnet.parse.nft_text import is_nft, own_part
from meshnet.render import nftables
from meshnet.render.nft_text import table_text, transaction
from meshnet.spec.load import load_text
from tests.strategies import specs

CASES = sorted((Path(__file__).resolve().parents[2] / "cases").iterdir())
LISTED = """\
table inet pod { # handle 3
	comment "somebody's"
	set blocks {
		type ipv4_addr
		flags interval
		elements = { 10.0.0.0/8, 192.0.2.1,
			198.51.100.0-198.51.100.9 }
	}
	set seen {
		type ipv4_addr
		flags dynamic,timeout
	}
	map verdicts {
		type ipv4_addr : verdict
		elements = { 10.0.0.1 : drop }
	}

	chain pre {
		type filter hook prerouting priority mangle + 5; policy drop;
		ip saddr @blocks counter packets 1 bytes 60 accept # handle 7
		ip6 saddr { ::1,
			fd00::/8 } jump rest
		ip saddr @seen accept
		ip saddr vmap @verdicts
		meta l4proto tcp accept; meta l4proto udp drop
	}

	chain rest {
	}

	chain out {
		type route hook output priority -150
	}
}
table ip6 other {
	chain late {
		type nat hook postrouting priority srcnat; policy accept;
	}
}
"""


def test_a_text_as_nft_prints_it() -> None:
    four, six = read(LISTED)
    assert [table.name for table in four.tables] == ["inet pod"]
    assert [table.name for table in six.tables] == ["inet pod", "ip6 other"]
    pre, rest, out = four.tables[0].chains
    assert (pre.name, pre.policy, pre.base) == ("pre", "DROP", Base("filter", "PREROUTING", -145))
    assert (rest.policy, rest.base, out.policy, out.base) == ("", None, "ACCEPT", Base("route", "OUTPUT", -150))
    assert six.tables[1].chains[0].base == Base("nat", "POSTROUTING", 100)
    assert [(rule.line, rule.words) for rule in pre.rules] == [
        (20, "ip saddr @blocks accept"),
        (23, "ip saddr @seen accept"),
        (24, "ip saddr vmap @verdicts"),
        (25, "meta l4proto tcp accept"),
        (25, "meta l4proto udp drop"),
    ]
    first = pre.rules[0].conditions[0]
    assert isinstance(first, AddressesAre) and len(first.spans) == 3
    assert isinstance(pre.rules[1].conditions[0], UnknownMatch), "what is in such a set changes with every packet"
    assert isinstance(pre.rules[2].action, UnknownTarget)
    assert [(rule.line, rule.words) for rule in six.tables[0].chains[0].rules] == [
        (21, "ip6 saddr { ::1, fd00::/8 } jump rest"),
        (25, "meta l4proto tcp accept"),
        (25, "meta l4proto udp drop"),
    ]


@pytest.mark.parametrize(
    ("kind", "hook", "priority", "stage"),
    [
        ("filter", "PREROUTING", -300, "untracked"),
        ("filter", "PREROUTING", -150, "tracked"),
        ("nat", "PREROUTING", -150, "nat"),
        ("filter", "PREROUTING", 0, "translated"),
        ("filter", "INPUT", -300, "tracked"),
        ("filter", "INPUT", 0, "tracked"),
        ("filter", "INPUT", 101, "translated"),
        ("filter", "FORWARD", 300, "tracked"),
        ("route", "OUTPUT", -150, "tracked"),
        ("filter", "OUTPUT", 0, "translated"),
        ("filter", "POSTROUTING", 0, "tracked"),
    ],
)
def test_where_a_chain_is_entered(kind, hook: str, priority: int, stage: str) -> None:
    assert Base(kind, hook, priority).stage == stage


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("table inet a {\n chain b {\n  accept\n", "rules:3"),
        ("table inet a {\n}\ntable inet a {\n}\n", "table inet a once"),
        ("add rule inet a b accept\n", "whole tables"),
        ("table inet a { chain b { type filter hook ingress device eth0 priority 0; } }", "doesn't follow packets"),
        ("table inet a { chain b { type filter hook input priority soon; } }", "a priority that meshnet doesn't know"),
        ("table netdev a { }", "only inet, ip and ip6"),
        ("table", "rules:1"),
        ("*nat\nCOMMIT\n", "expected a table of nftables"),
    ],
)
def test_what_is_no_table(text: str, said: str) -> None:
    with pytest.raises(RulesError) as caught:
        read(text)
    assert said in " ".join(caught.value.lines())


def test_a_table_that_sleeps_and_one_of_arp_do_nothing() -> None:
    sleeping = "table inet a { flags dormant; chain b { type filter hook input priority 0; drop; } }"
    assert read(sleeping) == ()
    assert read("table arp a { chain b { drop; } }") == ()


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.name)
@pytest.mark.parametrize("traced", [False, True])
def test_a_rendered_table_is_known_throughout_and_its_text_is_the_same(path: Path, traced: bool) -> None:
    program = compile_spec(load_text((path / "spec.yaml").read_text(), "").spec, Facts())
    table = nftables.render(program, "pod", traced=traced)
    found = of_table(table)
    assert read(table_text(table)) == found == read(transaction([table], ["old"]))
    for held in found:
        for chain in held.tables[0].chains:
            for rule in chain.rules:
                assert not isinstance(rule.action, UnknownTarget), rule.words
                assert not any(isinstance(item, UnknownMatch) for item in rule.conditions), rule.words
                assert rule.comment.startswith("meshnet:")


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(specs())
def test_any_rendered_table_comes_back(spec) -> None:
    try:
        table = nftables.render(compile_spec(spec, Facts()), "pod")
    except MeshnetError:
        return
    assert read(table_text(table)) == of_table(table)


def test_the_part_of_a_compiled_plan_that_is_nft_s() -> None:
    plan = "# ip -4 -batch -\nroute add local default dev lo\n\n# nft -f -\nadd table inet a\ntable inet a {\n}\n"
    assert is_nft(plan) and own_part(plan).splitlines()[4:] == ["add table inet a", "table inet a {", "}"]
    assert [written.table.name for written in nft_text.read_tables(plan)] == ["a"]
    assert is_nft("#!/usr/sbin/nft -f\n\ntable ip a {}")
    for other in ("*nat\nCOMMIT\n", "apiVersion: meshnet/v1\n", "", "tables: 5", "# nft\n"):
        assert not is_nft(other)


def test_numbers_are_those_of_a_family() -> None:
    four, six = read("table inet a { chain b { ip6 saddr ::1 drop; ip saddr 10.0.0.1 drop; accept; } }")
    assert [rule.words for rule in four.tables[0].chains[0].rules] == ["ip saddr 10.0.0.1 drop", "accept"]
    assert [rule.words for rule in six.tables[0].chains[0].rules] == ["ip6 saddr ::1 drop", "accept"]


PIECES = st.one_of(
    st.sampled_from(
        ("table inet a {", "table ip b {", "chain c {", "set s {", "map m {", "}", "{", "\n", ";", '"', "#")
    ),
    st.sampled_from(("type filter hook input priority 0; policy drop;", "accept", "type ipv4_addr;", "flags interval")),
    st.sampled_from(("elements = {", "10.0.0.1", ",")),
    st.text(max_size=6),
)


@given(st.lists(PIECES, max_size=25))
def test_junk_is_refused_in_the_project_s_own_words(pieces: list[str]) -> None:
    try:
        found = read(" ".join(pieces))
    except RulesError as error:
        assert error.lines()[0].startswith("rules")
    else:
        assert all(held.family in (4, 6) for held in found)
