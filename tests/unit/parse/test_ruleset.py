from __future__ import annotations

import random

import pytest

from meshnet.model.errors import RulesError
from meshnet.model.rule import (
    AddressIs,
    UnknownMatch,
)
from meshnet.parse.ruleset import hidden_tables, read
from meshnet.render.saved import text_of
from tests import conformance
from tests.unit.parse.rules import rules
from tests.unit.parse.test_matches import MATCHES
from tests.unit.parse.test_targets import TARGETS


@pytest.mark.conformance
@pytest.mark.parametrize(("name", "family", "text"), conformance.saved(), ids=lambda item: str(item)[:60])
def test_parse_render_parse_is_the_identity(name: str, family: int, text: str) -> None:
    first = read(text, family, name)
    again = read(text_of(first), family, name)
    assert again == first
    assert text_of(again) == text_of(first)
    assert sum(len(chain.rules) for table in first.tables for chain in table.chains) == sum(
        line.startswith(("-A", "-I", "[")) for line in text.splitlines()
    )


@pytest.mark.parametrize("words", [words for words, _ in MATCHES + TARGETS])
def test_every_form_comes_back(words) -> None:
    first = read(f"*mangle\n:A - [0:0]\n-A A {words}\nCOMMIT\n", 4)
    assert read(text_of(first), 4) == first


def test_several_addresses_are_several_rules() -> None:
    found = rules("-s 10.0.0.1,10.0.0.2 -j RETURN")
    assert [item.conditions for item in found] == [
        (AddressIs("source", 10 << 24 | number, 0xFFFFFFFF),) for number in (1, 2)
    ]


def test_built_in_chains_needn_t_be_declared_and_order_is_the_tool_s() -> None:
    held = read("*nat\n-A OUTPUT -j ACCEPT\n-I OUTPUT -j DROP\n-I OUTPUT 2 -j RETURN\nCOMMIT\n", 4)
    chain = held.tables[0].chain("OUTPUT")
    assert chain is not None and chain.policy == "ACCEPT"
    assert [type(item.action).__name__ for item in chain.rules] == ["Drop", "Return", "Accept"]


def test_counters_unknown_tables_and_lines() -> None:
    held = read("# note\n*foreign\n:X DROP [3:180]\n[3:180] -A X -m what --is this\nCOMMIT\n", 4)
    (chain,) = held.tables[0].chains
    assert (held.tables[0].name, chain.policy) == ("foreign", "DROP")
    assert chain.rules[0].conditions == (UnknownMatch(("-m", "what", "--is", "this")),)
    assert chain.rules[0].line == 4


def test_a_table_that_the_tool_could_not_print_is_named() -> None:
    assert hidden_tables("# Table `foo' is incompatible, use 'nft' tool.\n*nat\nCOMMIT\n") == ("foo",)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("*nat\n:OUTPUT ACCEPT [0:0]\n", "x:2: ends inside table nat: expected COMMIT; is the file cut off?"),
        ("table ip nat {\n", "x:1: expected a table (*nat)"),
        ("-A OUTPUT -j ACCEPT\n", "x:1: expected a table (*nat) first"),
        ("*nat\n-A NOWHERE -j ACCEPT\nCOMMIT\n", "x:2: expected chain NOWHERE of table nat declared before"),
        ("*nat\n-A OUTPUT -p tcp --dport\nfoo\nCOMMIT\n", "x:3: expected a table"),
        ("*nat\n-A OUTPUT -j\nCOMMIT\n", "x:2: expected a value behind -j"),
        ("*nat\n-A OUTPUT ! ! -p tcp\nCOMMIT\n", "x:2: expected one ! and not two"),
        ("*nat\n*raw\nCOMMIT\n", "x:2: expected COMMIT at the end of table nat"),
        ("*nat\n:OUTPUT what\nCOMMIT\n", "x:2: expected a chain as in"),
        ("*nat\n[x] -A OUTPUT\nCOMMIT\n", "x:2: expected counters"),
        ("*nat\n-A OUTPUT -j ACCEPT -j DROP\nCOMMIT\n", "x:2: expected one target"),
        ("*nat\n-I OUTPUT 3 -j ACCEPT\nCOMMIT\n", "x:2: expected a place from 1 to 1"),
        ("*nat\n-A OUTPUT -d ::1 -j ACCEPT\nCOMMIT\n", "x:2: expected an address of IPv4 behind -d"),
        ("*nat\n:\nCOMMIT\n", "x:2: expected a chain as in"),
        ("*nat\n-A OUTPUT -p mark --mark 1\nCOMMIT\n", "x:2: expected a match (-m) before --mark"),
        ("*nat\n-A OUTPUT -p tcp -c\nCOMMIT\n", "x:2: expected a value behind -c"),
        ("*nat\n-A OUTPUT ACCEPT\nCOMMIT\n", "x:2: expected an option such as -p"),
    ],
)
def test_what_is_no_rule_set_is_named_with_its_line(text: str, said: str) -> None:
    with pytest.raises(RulesError) as caught:
        read(text, 4, "x")
    assert any(problem.startswith(said) for problem in caught.value.problems), caught.value.problems


SPOILT = (
    "! -p tcp --dport -j -m owner \\ -s 10.0.0.0/8 1: : []:8 -g *nat COMMIT --ctstate -I 99 --match-set --to-ports "
    "9-1 / 0x 8/999 -f -c \x00"
)
PIECES = (*SPOILT.split(" "), '"')


def test_spoilt_lines_are_refused_or_come_back_as_they_were_read() -> None:
    """Words dropped, doubled and replaced at random: no other way to fail than to say so, and nothing gets lost."""
    seed = random.Random(1)
    read_ones = 0
    for _ in range(3000):
        words, _ = seed.choice(MATCHES)
        target, _ = seed.choice(TARGETS)
        line = f"-A A {words} {target}".split(" ")
        for _ in range(seed.randrange(1, 3)):
            place = seed.randrange(len(line))
            line[place : place + seed.randrange(2)] = [seed.choice(PIECES)] * seed.randrange(2)
            line = line or ["-A"]
        text = f"*mangle\n:A - [0:0]\n:B - [0:0]\n{' '.join(line)}\nCOMMIT\n"
        try:
            held = read(text, 4)
        except RulesError:
            continue
        read_ones += 1
        assert read(text_of(held), 4) == held, line
    assert read_ones > 300


def test_a_comment_may_hold_what_ends_lines_elsewhere() -> None:
    held = read('*nat\n-A OUTPUT -m comment --comment "a\u2028b\x0cc" -j ACCEPT\nCOMMIT\n', 4)
    (rule,) = (rule for chain in held.tables[0].chains for rule in chain.rules)
    assert rule.comment == "a\u2028b\x0cc"
    assert read(text_of(held), 4) == held
