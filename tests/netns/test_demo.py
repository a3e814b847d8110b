"""The demo's four rows on the real kernel: whom the application sees, through a sidecar that isn't root."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from meshnet.cli.main import call
from meshnet.lab.demo import CLIENT, PASSTHROUGH, run


def _links() -> list[str]:
    return sorted(path.name for path in Path("/sys/class/net").iterdir())


@pytest.mark.parametrize("sidecar", ["envoy", "embedded"])
@pytest.mark.parametrize("backend", ["iptables-nft", "iptables-legacy", "libiptc", "nftables"])
def test_each_row_shows_what_it_should(backend: str, sidecar: str) -> None:
    before = _links()
    outcomes = run(backend, sidecar=sidecar)  # type: ignore[arg-type]
    assert [outcome.row.name for outcome in outcomes] == [
        "without rules",
        "redirect",
        "tproxy",
        "tproxy, original source",
    ]
    assert [outcome.seen for outcome in outcomes] == [CLIENT, PASSTHROUGH, PASSTHROUGH, CLIENT]
    assert [outcome.through_sidecar for outcome in outcomes] == [0, 2, 2, 2]
    assert all(outcome.ok for outcome in outcomes)
    assert _links() == before


def test_the_command_tells_the_same_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["demo", "-o", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["ok"] is True
    assert told["sidecar"] == "envoy"
    assert [row["seen"] == row["expected"] for row in told["rows"]] == [True] * 4
    assert all(row["probes"] == row["probes_ok"] for row in told["rows"])
    assert [row["probes"] > 0 for row in told["rows"]] == [False, True, True, True]
