from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshnet.spec.nearest import distance, nearest

WORDS = st.text("abc", max_size=6)


@pytest.mark.parametrize(
    ("one", "other", "steps"),
    [("", "", 0), ("a", "", 1), ("", "ab", 2), ("port", "prot", 1), ("mode", "node", 1), ("ports", "port", 1)],
)
def test_steps_between_words(one: str, other: str, steps: int) -> None:
    assert distance(one, other) == steps


@given(WORDS, WORDS)
def test_there_and_back_is_as_far(one: str, other: str) -> None:
    assert distance(one, other) == distance(other, one) <= max(len(one), len(other))
    assert (distance(one, other) == 0) == (one == other)


def test_the_nearest_word_or_none() -> None:
    keys = ("excludePorts", "excludeSources", "ports", "port")
    assert nearest("exclude_ports", keys) == "excludePorts"
    assert nearest("EXCLUDEPORTS", keys) == "excludePorts"
    assert nearest("ports", keys) == "ports"
    assert nearest("prots", keys) == "ports"
    assert nearest("nothing", keys) == ""
