from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from meshnet.lab import demo
from meshnet.lab.demo import CLIENT, Outcome, rows
from tests.unit.cli.commands import data

if TYPE_CHECKING:
    from collections.abc import Callable

    from meshnet.model.cidr import Family

HIDDEN: dict[Family, str] = {4: "127.0.0.6", 6: "::6"}


class Probed:
    def __init__(self, *good: bool) -> None:
        self.seen = tuple(type("Seen", (), {"ok": ok}) for ok in good)
        self.ok = all(good)


def outcomes(**wrong: Any) -> tuple[Outcome, ...]:
    """All as expected, but for the second row."""
    made = []
    for row in rows():
        expected = CLIENT if row.keeps_source else HIDDEN
        through = 0 if row.spec is None else 2
        verified: Any = None if row.spec is None else Probed(True, True)
        made.append(Outcome(row, expected, dict(expected), through, verified))
    words = {name: getattr(made[1], name) for name in ("row", "expected", "seen", "through_sidecar", "verified")}
    made[1] = Outcome(**(words | wrong))
    return tuple(made)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Any]]:
    """Has the demo show some outcomes; what it was asked for."""

    def shows(found: tuple[Outcome, ...]) -> list[Any]:
        asked: list[Any] = []

        def run(backend: str, progress: Callable[[str], None], kind: str) -> tuple[Outcome, ...]:
            asked.extend((backend, kind))
            for outcome in found:
                progress(outcome.row.name)
            return found

        monkeypatch.setattr(demo, "run", run)
        monkeypatch.setattr(demo, "usual_sidecar", lambda: "embedded")
        return asked

    return shows


def test_four_rows_as_expected(called: Any, asked: Callable[..., list[Any]]) -> None:
    words = asked(outcomes())
    code, out, err = called("demo")
    assert (code, words) == (0, ["auto", "embedded"])
    assert err.splitlines() == [f"… {row.name}" for row in rows()]
    assert f"the client is {CLIENT[4]} and {CLIENT[6]}, the sidecar is embedded" in out
    lines = [line for line in out.splitlines() if line.endswith("yes")]
    assert len(lines) == 4
    assert "127.0.0.6" in lines[1] and "2 of 2" in lines[1]
    assert "2 of 2" not in lines[0]


def test_what_was_asked_for_is_handed_on(called: Any, asked: Callable[..., list[Any]]) -> None:
    words = asked(outcomes())
    assert data(called("demo", "--backend", "nftables", "--sidecar", "envoy", "-o", "json")[1])["sidecar"] == "envoy"
    assert words == ["nftables", "envoy"]


@pytest.mark.parametrize(
    ("wrong", "shown"),
    [
        ({"seen": {4: "127.0.0.6", 6: "no answer (timed out)"}}, "no answer (timed out)"),
        ({"through_sidecar": 1}, "1 of 2"),
        ({"verified": Probed(True, False, True)}, "2 of 3"),
    ],
)
def test_one_row_that_is_not_makes_a_negative_answer(
    called: Any, asked: Callable[..., list[Any]], wrong: dict[str, Any], shown: str
) -> None:
    asked(outcomes(**wrong))
    code, out, _ = called("demo")
    (line,) = (line for line in out.splitlines() if line.endswith("NO"))
    assert code == 1
    assert shown in line


def test_data_of_each_row(called: Any, asked: Callable[..., list[Any]]) -> None:
    asked(outcomes(verified=Probed(True, False)))
    code, out, _ = called("demo", "-o", "json")
    found = data(out)
    assert (code, found["ok"], [row["ok"] for row in found["rows"]]) == (1, False, [True, False, True, True])
    first, second, *_ = found["rows"]
    assert (first["probes"], first["seen"]) == (0, {"ipv4": CLIENT[4], "ipv6": CLIENT[6]})
    assert (second["probes"], second["probes_ok"], second["through_sidecar"]) == (2, 1, 2)
