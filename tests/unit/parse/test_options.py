from __future__ import annotations

import pytest

from meshnet.parse.options import Malformed, Option, take_apart


def apart(text):
    own, blocks = take_apart(text.split())
    return own, [(item.flag, item.name, item.options) for item in blocks]


def test_the_rule_s_own_options_each_match_and_the_target():
    own, blocks = apart("-s 10.0.0.0/8 -p tcp -m owner ! --uid-owner 7 -m comment --comment x -j REDIRECT --to-ports 1")
    assert own == [Option("-s", ("10.0.0.0/8",)), Option("-p", ("tcp",))]
    assert blocks == [
        ("-p", "tcp", []),
        ("-m", "owner", [Option("--uid-owner", ("7",), True)]),
        ("-m", "comment", [Option("--comment", ("x",))]),
        ("-j", "REDIRECT", [Option("--to-ports", ("1",))]),
    ]


def test_long_names_are_the_short_ones():
    assert apart("--protocol tcp --source a --jump X") == apart("-p tcp -s a -j X")


@pytest.mark.parametrize("text", ["! -s 10.0.0.1", "-s ! 10.0.0.1"])
def test_both_ways_to_negate(text):
    assert apart(text)[0] == [Option("-s", ("10.0.0.1",), True)]


def test_an_option_behind_another_match_goes_to_its_own():
    _, blocks = apart("-p tcp -m owner --uid-owner 5 --dport 80")
    assert blocks[0] == ("-p", "tcp", [Option("--dport", ("80",))])
    _, blocks = apart("-p tcp -m tcp -m owner --dport 80")
    assert blocks[1] == ("-m", "tcp", [Option("--dport", ("80",))]), "the nearest that knows it"


def test_a_value_may_begin_with_a_dash_where_it_is_a_text():
    assert apart("-j LOG --log-prefix -x")[1][0][2] == [Option("--log-prefix", ("-x",))]
    assert apart("-j X --priority -150")[1][0][2] == [Option("--priority", ("-150",))]


def test_options_without_a_value_and_with_several():
    assert apart("-m socket --transparent --nowildcard")[1][0][2] == [Option("--transparent"), Option("--nowildcard")]
    assert apart("-p tcp --tcp-flags SYN,ACK SYN")[1][0][2] == [Option("--tcp-flags", ("SYN,ACK", "SYN"))]
    assert apart("-c 1 2 -f")[0] == [Option("-c", ("1", "2")), Option("-f")]


def test_words_come_back():
    _, (block,) = take_apart(["-m", "x", "!", "--a", "1", "2", "--b"])
    assert block.words() == ("-m", "x", "!", "--a", "1", "2", "--b")
    _, (block,) = take_apart(["-p", "tcp", "--dport", "1"])
    assert block.words() == ("-m", "tcp", "--dport", "1")


def test_nothing_at_all():
    assert take_apart([]) == ([], [])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("! ! -s a", "one !"),
        ("tcp", "an option such as"),
        ("-", "an option such as"),
        ("-s", "a value behind -s"),
        ("-c 1", "a value behind -c"),
        ("-m x --comment", "a value behind --comment"),
        ("-s a !", "behind !"),
        ("! -j X", "no ! before -j"),
        ("-j ! X", "no ! before -j"),
        ("--dport 80", "before --dport"),
        ("-z", "an option of iptables, not -z"),
    ],
)
def test_what_can_t_be_taken_apart(text, said):
    with pytest.raises(Malformed, match=said):
        take_apart(text.split())
