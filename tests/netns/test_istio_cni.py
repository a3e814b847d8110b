"""Pods with Istio's annotations beside the CNI plugin's own golden files, loaded into two namespaces and read back."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from meshnet.model.facts import Facts
from meshnet.model.spec import Spec
from meshnet.spec.dialects.istio_annotations import spec_of_pod
from tests import conformance
from tests.netns import golden

if TYPE_CHECKING:
    from tests.netns.pods import Scratch

FOLDER = conformance.FOLDER / "istio-cni"
UNUSED = {"status-ports"}
"""A golden file of an older plugin, which no case names."""


def cases() -> list[dict[str, Any]]:
    path = FOLDER / "cases.json"
    if not path.exists():
        return [{"name": "absent", "annotations": {}, "golden": "absent"}]
    read = json.loads(path.read_text())
    return [{**case, "annotations": read["common_annotations"] | case["annotations"]} for case in read["cases"]]


def manifest(case: dict[str, Any]) -> dict[str, Any]:
    ids = {"runAsUser": case.get("proxy_uid"), "runAsGroup": case.get("proxy_gid")}
    proxy = {
        "name": "istio-proxy",
        "env": [{"name": name, "value": text} for name, text in case.get("proxy_env", {}).items()],
        "securityContext": {field: number for field, number in ids.items() if number is not None},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": case["name"], "annotations": case["annotations"]},
        "spec": {"containers": [{"name": "application"}, proxy]},
    }


@pytest.mark.conformance
@pytest.mark.parametrize("variant", golden.VARIANTS)
@pytest.mark.parametrize("case", cases(), ids=lambda case: case["name"])
def test_the_rules_are_the_plugin_s(scratch: Scratch, case: dict[str, Any], variant: str) -> None:
    theirs, ours = scratch(), scratch()
    spec = spec_of_pod(manifest(case), families=(4,))
    assert isinstance(spec, Spec)
    golden.load_golden(theirs, variant, FOLDER / case["golden"])
    golden.load_compiled(ours, variant, spec, Facts((4,)))
    wanted = golden.saved(theirs, variant)
    assert golden.saved(ours, variant) == wanted
    assert "ISTIO_OUTPUT" in wanted["iptables"]


@pytest.mark.conformance
def test_every_golden_file_has_its_case() -> None:
    named = {case["golden"].partition(".")[0] for case in cases()}
    assert {path.name.partition(".")[0] for path in FOLDER.glob("*.golden")} == named | UNUSED
    assert len(cases()) == 9
