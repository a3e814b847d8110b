from __future__ import annotations

import pytest

from meshnet.lab.measured import ELSE, MEASURED
from meshnet.lab.row import Outcome, _joined, run_row
from meshnet.lab.scenario import Foreign, Variant
from meshnet.model.errors import ToolError, UnsupportedError
from meshnet.model.value import replace
from tests.unit.lab.runs import scenario

ROW = scenario().rows[0]
SEEN = ROW.expected["a call"]


@pytest.mark.parametrize(
    ("measured", "trouble", "ok"),
    [
        ({"a call": SEEN}, "", True),
        ({"a call": "x"}, "", False),
        ({}, "", False),
        ({"a call": SEEN}, "no", False),
        ({"a call": SEEN, "more": "x"}, "", True),
    ],
)
def test_a_row_is_as_expected_when_each_step_is(measured, trouble, ok):
    assert Outcome(ROW, measured, trouble=trouble).ok is ok


def test_a_loop_of_the_pod_s_own_call_is_the_rule_set_s():
    foreign = replace(ROW, variant=Variant(rules=Foreign("")))
    assert _joined(foreign, {MEASURED: "reset", ELSE: "loop"})[MEASURED] == "loop"
    assert _joined(foreign, {MEASURED: "reset", ELSE: "x"})[MEASURED] == "reset"
    assert _joined(ROW, {MEASURED: "reset", ELSE: "loop"})[MEASURED] == "reset"


@pytest.mark.parametrize("error", [ToolError("no server", detail="x"), UnsupportedError(["no nft"])])
def test_what_fails_is_told_in_the_outcome(monkeypatch, error):
    class World:
        def __init__(self, row):
            pass

        def __enter__(self):
            raise error

        def __exit__(self, *_):
            pass

        def logs(self):
            return {"envoy": "said"}

    monkeypatch.setattr("meshnet.lab.row.World", World)
    found = run_row(ROW)
    assert (found.ok, found.exit_code, found.logs) == (False, error.exit_code, (("envoy", "said"),))
    assert found.trouble == "\n".join(error.lines())
