from __future__ import annotations

import copy
import pickle

import pytest

from meshnet.model.errors import Wrong
from meshnet.model.ports import PortRange
from meshnet.model.spec import Interfaces, Spec
from meshnet.model.value import replace, value


@value
class Pair:
    left: int
    right: int = 2

    def __post_init__(self) -> None:
        if self.left > self.right:
            raise ValueError("left of right")


@value
class Twin:
    left: int
    right: int = 2


@value
class Nothing:
    pass


@value
class One:
    only: int


def test_construction_by_place_by_name_and_by_default() -> None:
    assert Pair(1) == Pair(1, 2) == Pair(left=1, right=2) == Pair(right=2, left=1)
    with pytest.raises(TypeError, match="Pair needs left"):
        Pair()  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="Pair takes 2 fields, not 3"):
        Pair(1, 2, 3)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="Pair takes no middle"):
        Pair(1, middle=2)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="Pair takes no left"):
        Pair(1, left=1)  # type: ignore[misc]


def test_a_value_checks_itself() -> None:
    with pytest.raises(ValueError, match="left of right"):
        Pair(3)


def test_a_value_does_not_change() -> None:
    pair = Pair(1)
    with pytest.raises(AttributeError, match="Pair is frozen: left can't change"):
        pair.left = 2  # type: ignore[misc]
    with pytest.raises(AttributeError, match="frozen"):
        del pair.left
    with pytest.raises(AttributeError, match="frozen"):
        pair.other = 2  # type: ignore[attr-defined]
    assert not hasattr(pair, "__dict__")


def test_equality_is_by_class_and_fields() -> None:
    assert Pair(1) != Pair(0)
    assert Pair(1) != Twin(1)
    assert Pair(1) != (1, 2)
    assert Nothing() == Nothing()
    assert One(1) == One(1) != One(2)


def test_equal_values_have_equal_hashes() -> None:
    assert len({Pair(1), Pair(1, 2), Pair(0), Twin(1), Nothing(), Nothing(), One(1)}) == 5
    assert hash(Spec()) == hash(Spec())


def test_the_text_of_a_value() -> None:
    assert repr(Pair(1)) == "Pair(left=1, right=2)"
    assert repr(Nothing()) == "Nothing()"


def test_values_match_by_place() -> None:
    match PortRange(1, 2):
        case PortRange(first, last):
            assert (first, last) == (1, 2)
        case _:
            pytest.fail("no match")


def test_a_copy_with_changes_checks_itself_again() -> None:
    assert replace(Pair(1), right=5) == Pair(1, 5)
    with pytest.raises(ValueError, match="left of right"):
        replace(Pair(1), right=0)
    with pytest.raises(TypeError, match="Pair has no field middle, odd"):
        replace(Pair(1), middle=1, odd=2)
    with pytest.raises(Wrong):
        replace(PortRange(1, 2), last=0)


def test_values_can_be_pickled_and_copied() -> None:
    spec = Spec(interfaces=Interfaces(("eth0",)))
    assert pickle.loads(pickle.dumps(spec)) == spec
    assert copy.deepcopy(spec) == copy.copy(spec) == spec
