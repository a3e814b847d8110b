from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshnet.parse.words import canonical, comment_of, same_rule, split, target_of

OPTIONS = (
    "-s 10.0.0.0/8",
    "! -d 127.0.0.1/32",
    "-o lo",
    "-p tcp",
    "-m tcp --dport 80",
    "-m owner ! --uid-owner 5",
    "-m mark --mark 0x539/0xfff",
    '-m comment --comment "meshnet:a b"',
)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("-p tcp -m tcp --dport 80 -j RETURN", "-p tcp --dport 80 -j RETURN"),
        ("-d 127.0.0.1/32 -j RETURN", "-d 127.0.0.1 -j RETURN"),
        ("-d ::1/128 -j RETURN", "-d ::1 -j RETURN"),
        ("! -d ::1 -j RETURN", "-d ! ::1 -j RETURN"),
        ("-m mark --mark 1337 -j RETURN", "-m mark --mark 0x539/0xffffffff -j RETURN"),
        ("-p 6 -j RETURN", "--protocol tcp --jump RETURN"),
        ("-p tcp -j REDIRECT --to-port 15006", "-p tcp -j REDIRECT --to-ports 15006"),
        ("-j MARK --set-mark 0x1", "-j MARK --set-xmark 0x1/0xffffffff"),
        ("-m conntrack --ctstate NEW,RELATED -j DROP", "-m conntrack --ctstate RELATED,NEW -j DROP"),
        (
            "-p tcp -j TPROXY --on-port 5 --on-ip 0.0.0.0 --tproxy-mark 0x539/0xfff",
            "-p tcp -j TPROXY --on-port 5 --tproxy-mark 0x539/0xfff",
        ),
    ],
)
def test_two_prints_of_one_rule(one, other):
    assert one != other
    assert same_rule(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("-d 10.0.0.1/32 -j RETURN", "! -d 10.0.0.1/32 -j RETURN"),
        ("-d 10.0.0.1/32 -j RETURN", "-s 10.0.0.1/32 -j RETURN"),
        ("-d 10.0.0.0/8 -j RETURN", "-d 10.0.0.0/9 -j RETURN"),
        ("-p tcp -j RETURN", "-p tcp -j ACCEPT"),
        ("-p tcp --dport 80 -j A", "-p tcp --sport 80 -j A"),
        ("-m mark --mark 0x539/0xfff -j A", "-m mark --mark 0x539 -j A"),
        ("-j TPROXY --on-port 5 --on-ip 10.0.0.1", "-j TPROXY --on-port 5"),
        ("-m owner --uid-owner 5 -j A", "-m owner --gid-owner 5 -j A"),
        ("-m owner ! --gid-owner 5 -m owner ! --gid-owner 6 -j A", "-m owner ! --gid-owner 5 -j A"),
    ],
)
def test_two_rules(one, other):
    assert not same_rule(one, other)


@given(st.permutations(OPTIONS), st.permutations(OPTIONS))
def test_the_order_of_matches_is_no_difference(one, other):
    assert canonical(" ".join([*one, "-j RETURN"])) == canonical(" ".join([*other, "-j RETURN"]))


@given(st.permutations(OPTIONS), st.integers(0, len(OPTIONS) - 1))
def test_a_missing_match_is_a_difference(options, place):
    fewer = options[:place] + options[place + 1 :]
    assert not same_rule(" ".join(options), " ".join(fewer))


def test_a_quoted_comment_is_one_word():
    assert split(r'-m comment --comment "a \"b\" -j X" -j A') == ["-m", "comment", "--comment", 'a "b" -j X', "-j", "A"]


def test_a_target_in_a_comment_is_none():
    rule = '-m comment --comment "to -j MESHNET_OUT" -g OTHER'
    assert comment_of(rule) == "to -j MESHNET_OUT"
    assert target_of(rule) == "OTHER"


def test_neither_comment_nor_target():
    assert comment_of("-p tcp -j A") == ""
    assert target_of("-p tcp") == ""


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("-m mark --mark 0x539/0xfff -j RETURN", "-m connmark --mark 0x539/0xfff -j RETURN"),
        ("-p tcp -m socket -j RETURN", "-p tcp -j RETURN"),
        ("-p tcp -m socket --transparent -j RETURN", "-p tcp -m socket -j RETURN"),
    ],
)
def test_a_rule_that_was_bent_is_another_rule(one: str, other: str) -> None:
    """The mark of the connection in place of the packet's: one option's name, two meanings, and a hole in the set."""
    assert not same_rule(one, other)
