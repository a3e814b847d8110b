from __future__ import annotations

from typing import Any

from meshnet.cli import output
from meshnet.model.errors import SpecError, UsageError
from meshnet.model.plan import ChangeSet
from tests.unit.cli.commands import data


def test_columns_are_as_wide_as_their_widest_word() -> None:
    assert output.table(("a", "b"), [("long", "x"), ("s", "")]) == "a     b\nlong  x\ns"


def test_an_answer_in_both_forms(capsys: Any) -> None:
    output.answer({"a": 1}, "one\n", "text")
    assert capsys.readouterr().out == "one\n"
    output.answer({"a": 1}, "one\n", "json")
    assert data(capsys.readouterr().out) == {"a": 1}


def test_a_complaint_of_a_spec_is_told_as_file_and_line(capsys: Any) -> None:
    output.complain(SpecError(["pod.yaml:3: name: wrong", "pod.yaml:4: marks: wrong"]), "text")
    assert capsys.readouterr() == ("", "pod.yaml:3: name: wrong\npod.yaml:4: marks: wrong\n")


def test_a_complaint_as_json(capsys: Any) -> None:
    output.complain(UsageError("no", hint="yes"), "json")
    out, err = capsys.readouterr()
    assert data(out) == {"error": {"kind": "usage", "lines": ["no", "  next: yes"]}}
    assert err.startswith("meshnet: no\n")


def test_differences_are_cut_at_the_limit() -> None:
    changes = ChangeSet((), ("+ a", "- b", "+ c"))
    assert output.changes_text(changes) == "+ a\n- b\n+ c"
    assert output.changes_text(changes, 1) == "+ a\n… and 2 more"
