from __future__ import annotations

import pytest

from meshnet.model.errors import SpecError
from meshnet.model.ports import read_port
from meshnet.model.spec import Sidecar, Spec
from meshnet.model.value import replace
from meshnet.spec.dialects.plain import Places, shown


def test_a_mapping_and_a_list_under_a_key():
    places = Places()
    inside = {"a": {"x": 1}, "b": [1], "none": None, "empty": ""}
    assert (places.mapping(inside, "a"), places.listing(inside, "b", "", "ports")) == ({"x": 1}, [1])
    for key in ("none", "empty", "absent"):
        assert places.mapping(inside, key) == {} and places.listing(inside, key, "", "ports") == []
    assert places.problems == []


def test_what_is_something_else_is_said_with_its_place():
    places = Places()
    assert places.mapping({"a": [1, 2]}, "a", "spec.") == {}
    assert places.listing({"b": {}}, "b", "spec.", "ports") == []
    assert places.listing({"b": 0}, "b", "", "ports") == []
    assert places.problems == [
        "spec.a: no keys and values (a list of 2): a mapping",
        "spec.b: no list (a mapping of 0): a list of ports",
        "b: no list (0): a list of ports",
    ]


def test_a_problem_is_told_once_and_can_t_act_upon_a_terminal():
    places = Places()
    for _ in range(2):
        places.wrong("a\x1b", "w\n", "r")
    (line,) = places.problems
    assert line.isprintable()


def test_a_word_that_can_t_be_read_is_none():
    places = Places()
    assert places.read("p", "80", read_port) == 80
    assert places.read("p", "x", read_port) is None
    assert len(places.problems) == 1 and places.problems[0].startswith("p: ")


def test_a_spec_is_judged_under_the_foreign_names():
    places = Places()
    assert places.judged(Spec(), {}) == Spec()
    broken = replace(Spec(), sidecar=Sidecar((), ()))
    with pytest.raises(SpecError) as refused:
        Places().judged(broken, {"sidecar": "proxyUid"})
    assert refused.value.problems[0].startswith("proxyUid: ")


def test_problems_of_words_come_before_conflicts_between_them():
    places = Places()
    places.wrong("x", "w", "r")
    with pytest.raises(SpecError) as refused:
        places.judged(replace(Spec(), sidecar=Sidecar((), ())), {})
    assert refused.value.problems == ("x: w: r",)


@pytest.mark.parametrize(
    ("item", "text"),
    [
        ({}, "a mapping of 0"),
        ([1], "a list of 1"),
        ((), "a list of 0"),
        (None, "null"),
        (True, "true"),
        (False, "false"),
        (1, "1"),
        ("", '""'),
        ("a", "a"),
        (1.5, "1.5"),
    ],
)
def test_plain_data_in_few_letters(item, text):
    assert shown(item) == text


def test_a_list_that_holds_itself_is_not_looked_into():
    endless = []
    endless.append(endless)
    assert shown(endless) == "a list of 1"
