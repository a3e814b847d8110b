from __future__ import annotations

from meshnet.spec.problem import Problem, refusal


def test_a_line_says_where_what_and_what_would_be_right():
    assert Problem(3, "inbound.mode", "not a mode (x)", "tproxy").text("pod.yaml") == (
        "pod.yaml:3: inbound.mode: not a mode (x): tproxy"
    )


def test_the_document_as_a_whole_has_no_path():
    assert Problem(1, "", "nothing is written here", "a spec").text("x") == "x:1: nothing is written here: a spec"


def test_problems_stand_in_the_order_of_their_lines_and_those_of_one_line_as_they_came():
    found = refusal("x", [Problem(9, "b", "w", "r"), Problem(2, "z", "w", "r"), Problem(2, "a", "w", "r")])
    assert [line.split(":")[2] for line in found.problems] == [" z", " a", " b"]
    assert found.exit_code == 2
