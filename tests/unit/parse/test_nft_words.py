"""How far words are read; which condition each question gives is held through whole rules, in test_nft_phrases."""

from __future__ import annotations

import pytest

from meshnet.model.nft import NftSet
from meshnet.model.rule import AnyOf, ConnectionIs, ConnectionMark, FlagsAre, InterfaceIs
from meshnet.parse.nft_values import Unclear
from meshnet.parse.nft_words import Words, conntrack, flags, interface, local, mark, socket

SETS = {"ports": NftSet("ports", "inet_service", ((80, 80),))}


def words(text: str) -> Words:
    return Words(text.split(), SETS)


def test_values_and_what_is_left() -> None:
    one = words("{ a , b } accept")
    assert (one.values(), one.left, one.peek()) == (["a", "b"], 1, "accept")
    assert not one.takes("drop") and one.takes("accept") and one.peek() == ""
    with pytest.raises(IndexError):
        one.next()


def test_negation() -> None:
    assert [words(text).negated() for text in ("!= a", "== a", "a")] == [True, False, False]


def test_bits() -> None:
    known = {"a": 1, "b": 2, "c": 4}
    assert [words(text).bits(known) for text in ("a", "a , c", "a | b", "( b | c )")] == [1, 5, 3, 6]
    with pytest.raises(Unclear):
        words("a | d").bits(known)


def test_a_set_has_to_be_known_and_of_the_type() -> None:
    assert words("@ports").named("inet_service") == ((80, 80),)
    for name, kind in (("@ports", "uid"), ("@others", "inet_service")):
        with pytest.raises(Unclear):
            words(name).named(kind)


def test_a_state_and_its_negation() -> None:
    assert conntrack(words("state & ( new | related ) != 0")) == [ConnectionIs(("RELATED", "NEW"))]
    assert conntrack(words("state & ( new | related ) == 0")) == [ConnectionIs(("RELATED", "NEW"), True)]


def test_marks_of_a_list() -> None:
    assert mark(words("{ 1 , 2 }"), connection=True) == [AnyOf((ConnectionMark(1), ConnectionMark(2)))]


def test_flags_in_either_version_s_order() -> None:
    assert flags(words("& ( syn | ack ) == syn")) == flags(words("syn / syn , ack")) == FlagsAre(18, 2)


def test_an_interface_by_number_is_known_to_the_namespace_alone() -> None:
    assert interface(words("2"), "oifname") == [InterfaceIs("out", "2")]
    with pytest.raises(Unclear):
        interface(words("2"), "oif")


@pytest.mark.parametrize(
    ("read", "text"),
    [
        (conntrack, "zone 1"),
        (conntrack, "status assured"),
        (conntrack, "direction sideways"),
        (socket, "mark 1"),
        (socket, "transparent 0"),
        (local, "iif type local"),
        (local, "daddr type broadcast"),
    ],
)
def test_questions_that_have_no_condition(read, text) -> None:
    with pytest.raises(Unclear):
        read(words(text))
