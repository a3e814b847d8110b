"""The measurements that the conformance files keep, as scenarios: 20 rule variants from the problem's history.

A measurement says ``loop`` when either of two calls loops: the client's, or that of a process in the pod to the
pod's own address, as a readiness check makes it. In twelve of the 74 only the second does: the answer to the sidecar's
own call with a foreign client's address has no mark, leaves by eth0, and the client resets it before it can loop.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from meshnet.lab.scenario import Application, Foreign, Scenario, Sidecar, Step, Variant
from meshnet.model.errors import UsageError
from meshnet.sidecar.envoy import Declared

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Literal

PLACE = "original-source"
ORIGINAL = "original destination"
LOOPS, ELSE = "client", "own pod"
MEASURED = "measured"


def folder() -> Path:
    """Where the conformance files are: MESHNET_CONFORMANCE, or ``../shared/conformance`` from the project's root."""
    named = os.environ.get("MESHNET_CONFORMANCE")
    return Path(named) if named else Path(__file__).resolve().parents[3] / "shared" / "conformance"


def scenarios() -> tuple[Scenario, ...]:
    """The 20 cases; none where the files are absent. UsageError for files that aren't of their form."""
    file = folder() / PLACE / "cases.json"
    if not file.exists():
        return ()
    try:
        return tuple(_scenario(case, file.parent) for case in json.loads(file.read_text())["cases"])
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(f"{file} isn't of the form of the measurements: {error!r}") from error


def _scenario(case: dict[str, Any], place: Path) -> Scenario:
    text = (place / case["rules"]).read_text()
    variants = tuple(_variant(case, measurement, text) for measurement in case["measured"])
    outcomes = sorted({measurement["outcome"] for measurement in case["measured"]})
    return Scenario(case["name"], case["about"], f"measured before: {', '.join(outcomes)}", "", variants)


def _variant(case: dict[str, Any], measurement: dict[str, Any], text: str) -> Variant:
    proxy = case["proxy"]
    uid, localnet = measurement["proxy_uid"], measurement["route_localnet"]
    loopback = proxy["dials"] != ORIGINAL
    sidecar = Sidecar(
        declared=(Declared(80, "tcp"),) if loopback else (),
        dials="loopback" if loopback else "original",
        uid=uid,
        gid=proxy["gid"],
        keeps=proxy["original_src"],
    )
    mark = proxy["original_src_mark"] or 0
    mode: Literal["redirect", "tproxy"] = "tproxy" if proxy["transparent"] else "redirect"
    return Variant(
        f"uid {uid}, route_localnet {localnet}",
        rules=Foreign(text, case["policy_routing"], bool(localnet), mode, mark),
        sidecar=sidecar,
        application=Application(),
        families=(4,),
        backends=("iptables-legacy",),
        steps=(Step(MEASURED, "call", measurement["outcome"]), Step(ELSE, "call", "", origin="pod", uid=0)),
    )
