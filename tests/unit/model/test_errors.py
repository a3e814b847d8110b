from __future__ import annotations

import pytest

from meshnet.model import errors


def test_a_spec_error_shows_its_problems_and_nothing_else() -> None:
    error = errors.SpecError(["a:1: x", "a:2: y"])
    assert error.lines() == ["a:1: x", "a:2: y"]
    assert str(error) == "2 problems in the spec"
    assert str(errors.SpecError(["a"])) == "1 problem in the spec"


def test_the_next_step_comes_last() -> None:
    assert errors.MeshnetError("no", hint="try").lines() == ["no", "  next: try"]
    assert errors.MeshnetError("no").lines() == ["no"]


def test_a_tools_own_words_stand_between() -> None:
    lines = errors.ToolError("it refused", hint="look", detail="a\nb\n").lines()
    assert lines == ["it refused", "  said: a", "  said: b", "  next: look"]


def test_a_tools_flood_of_words_is_cut() -> None:
    assert len(errors.ToolError("no", detail="x\n" * 100).lines()) == 21


def test_unsupported_says_all_reasons() -> None:
    error = errors.UnsupportedError(["a", "b"], hint="c")
    assert error.reasons == ("a", "b")
    assert error.lines() == ["a; b", "  next: c"]


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (errors.SpecError, 2), (errors.UsageError, 2), (errors.ToolError, 3), (errors.BusyError, 3),
        (errors.NamespaceError, 3), (errors.MissingToolError, 4), (errors.PermissionMissing, 4),
        (errors.UnsupportedError, 4),
    ],
)  # fmt: skip
def test_exit_codes(kind: type[errors.MeshnetError], code: int) -> None:
    assert kind.exit_code == code


def test_kinds_differ() -> None:
    kinds = [item for item in vars(errors).values() if isinstance(item, type) and issubclass(item, errors.MeshnetError)]
    assert len({item.kind for item in kinds}) == len(kinds)


def test_a_wrong_word_has_two_halves() -> None:
    wrong = errors.Wrong("bad (x)", "good")
    assert (wrong.what, wrong.right, str(wrong)) == ("bad (x)", "good", "bad (x): good")
