"""All that was measured in the history of the original-source problem, as measured."""

from __future__ import annotations

import pytest

from meshnet.model.value import replace
from meshnet.parse.ruleset import read
from meshnet.parse.scenario import read_scenario
from meshnet.simulate.scenario import predict
from tests import conformance

pytestmark = pytest.mark.conformance
FOLDER = conformance.FOLDER / "original-source"


def cases():
    path = FOLDER / "cases.json"
    if not path.exists():
        return [None]
    return read_scenario(path.read_text(), "cases.json").cases


@pytest.fixture(scope="module")
def topology():
    return read_scenario((FOLDER / "cases.json").read_text(), "cases.json").topology


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name if case else "absent")
def test_every_measurement_comes_out_as_measured(topology, case) -> None:
    rules = read((FOLDER / case.rules).read_text(), 4, case.rules)
    predicted = [predict(topology, case, measurement, rules).outcome for measurement in case.measured]
    assert predicted == [measurement.outcome for measurement in case.measured]


def test_there_are_74_of_them() -> None:
    assert sum(len(case.measured) for case in cases()) == 74


def test_the_file_s_name_decides_nothing(topology) -> None:
    """The rules do: another case's rules give another case's outcomes."""
    found = {case.name: case for case in cases()}
    case, other = found["current"], found["current-plus-nat-mark-return"]
    rules = read((FOLDER / other.rules).read_text(), 4)
    renamed = replace(case, rules="anything")
    outcomes = [predict(topology, renamed, measurement, rules).outcome for measurement in case.measured]
    assert outcomes == [measurement.outcome for measurement in other.measured]


def test_who_loops_is_said(topology) -> None:
    case = next(case for case in cases() if case.name == "first-fix-meets-pod-ip")
    rules = read((FOLDER / case.rules).read_text(), 4)
    found = predict(topology, case, case.measured[0], rules)
    assert found.by_itself
    assert "own connection" in found.story.sentence
