"""Records of rows as a run tells them, and scenarios of one step."""

from __future__ import annotations

from typing import Any

from meshnet.lab.runner import Ran
from meshnet.lab.scenario import Scenario, Step, Variant

STEP = Step("a call", "call", "client")


def scenario(name: str = "seen", **more: Any) -> Scenario:
    variant = Variant(spec="{}", families=(4, 6), backends=("iptables-nft",), steps=(STEP,), **more)
    return Scenario(name, f"about {name}", "a symptom", "a cure", (variant,))


def record(name: str, measured: str = "10.0.0.1", **more: Any) -> dict[str, Any]:
    """A row that should show 10.0.0.1."""
    plain = {
        "name": name,
        "ok": measured == "10.0.0.1",
        "exit_code": 0,
        "seconds": 1.25,
        "expected": {"a call": "10.0.0.1"},
        "predicted": {"a call": "10.0.0.1"},
        "measured": {"a call": measured} if measured else {},
        "trouble": "",
        "arrows": [],
        "packets": 0,
        "left_out": 0,
        "sidecar": {"kind": "none"},
        "sockets": [],
        "tracked": [],
        "counters": [],
        "logs": {},
    }
    return plain | more


def ran(name: str, *records: dict[str, Any]) -> Ran:
    return Ran(scenario(name), records)
