"""``explain --scenario``: what is predicted beside what was measured."""

from __future__ import annotations

from meshnet.cli import output, simulated
from meshnet.cli.options import read_text
from meshnet.model.errors import FINE, NEGATIVE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from meshnet.model.scenario import Case, Measurement, Scenario
    from meshnet.simulate.scenario import Predicted

    Row = tuple[Case, Measurement, Predicted]


def tell(file: str, names: tuple[str, ...], form: str) -> int:
    """Predict the cases that are named, or all; exit 1 if any prediction isn't what was measured."""
    from meshnet.parse.scenario import read_scenario

    scenario = read_scenario(*read_text(file, "scenario"))
    rows = list(_predictions(file, scenario, _chosen(scenario, names)))
    wrong = [row for row in rows if row[2].outcome != row[1].outcome]
    output.answer(_data(rows), _text(rows, len(wrong), told=bool(names)), form)
    return NEGATIVE if wrong else FINE


def _chosen(scenario: Scenario, names: tuple[str, ...]) -> list[Case]:
    from meshnet.model.errors import UsageError

    known = {case.name: case for case in scenario.cases}
    missing = [name for name in names if name not in known]
    if missing:
        raise UsageError(f"no case {', '.join(missing)}", hint=f"one of {', '.join(known)}")
    return [known[name] for name in names] or list(scenario.cases)


def _predictions(file: str, scenario: Scenario, cases: list[Case]) -> Iterator[Row]:
    from meshnet.parse.ruleset import read
    from meshnet.simulate.scenario import predict

    folder = file.rpartition("/")[0]
    for case in cases:
        name = f"{folder}/{case.rules}" if folder else case.rules
        rules = read(simulated.read_rules(name)[0], 4, name)
        for measurement in case.measured:
            yield case, measurement, predict(scenario.topology, case, measurement, rules)


def _data(rows: list[Row]) -> dict[str, Any]:
    return {
        "cases": [
            {
                "name": case.name,
                "proxy_uid": measurement.proxy_uid,
                "route_localnet": int(measurement.route_localnet),
                "predicted": predicted.outcome,
                "measured": measurement.outcome,
                "because": predicted.story.sentence,
                "call": "own" if predicted.by_itself else "client",
            }
            for case, measurement, predicted in rows
        ]
    }


def _text(rows: list[Row], wrong: int, *, told: bool) -> str:
    head = ("case", "uid", "route_localnet", "predicted", "measured", "")
    lines = [
        (
            case.name,
            str(measurement.proxy_uid),
            str(int(measurement.route_localnet)),
            predicted.outcome,
            measurement.outcome,
            "" if predicted.outcome == measurement.outcome else "DIFFERS",
        )
        for case, measurement, predicted in rows
    ]
    table = output.table(head, lines)
    reasons = dict.fromkeys(_reason(*row) for row in rows) if told else ()
    return "\n".join([table, "", *reasons, f"{len(rows) - wrong} of {len(rows)} predictions are what was measured"])


def _reason(case: Case, measurement: Measurement, predicted: Predicted) -> str:
    call = "a call from inside the pod to its own address" if predicted.by_itself else "the client's call"
    where = f"{case.name}, uid {measurement.proxy_uid}, route_localnet {int(measurement.route_localnet)}"
    return f"{where}: {call}: {predicted.story.sentence}"
