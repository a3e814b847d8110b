from __future__ import annotations

import pytest

from meshnet.model.errors import SpecError
from meshnet.spec.dialects.istio_annotations import decided_by
from meshnet.spec.load import load_body, load_text
from tests.cni.api import injected


def test_a_body_is_a_document_without_its_head() -> None:
    body = {"inbound": {"mode": "redirect", "excludePorts": [22]}, "dns": {"capture": "all"}, "sidecar": {"mark": None}}
    text = (
        "{apiVersion: meshnet/v1, kind: Interception, inbound: {mode: redirect, excludePorts: [22]},"
        " dns: {capture: all}, sidecar: {mark: null}}"
    )
    document = load_body(body, "interception")
    assert document.spec == load_text(text, "s").spec
    assert {"inbound.mode", "dns.capture"} <= set(document.lines)


def test_problems_carry_the_name() -> None:
    with pytest.raises(SpecError) as refused:
        load_body({"inbound": {"mode": "x", "port": 0}, "typo": 1, "kind": "Pod"}, "interception")
    assert len(refused.value.problems) == 4
    assert all(problem.startswith("interception.") for problem in refused.value.problems)


@pytest.mark.parametrize("body", [None, [], "x", 1])
def test_what_is_no_mapping(body: object) -> None:
    with pytest.raises(SpecError):
        load_body(body, "interception")


def test_a_body_nested_without_end() -> None:
    deep: dict[str, object] = {}
    inner = deep
    for _ in range(5000):
        inner["a"] = inner = {}
    with pytest.raises(SpecError):
        load_body(deep, "interception")


def test_which_fields_a_pod_decides() -> None:
    pod = injected(
        **{"traffic.sidecar.istio.io/excludeOutboundPorts": "1", "sidecar.istio.io/interceptionMode": "TPROXY"}
    )
    assert decided_by(pod) == {"outbound.excludePorts", "inbound.mode", "sidecar.uids", "sidecar.gids"}
    pod["spec"]["containers"][1] = {"name": "istio-proxy", "env": [{"name": "ISTIO_META_DNS_CAPTURE", "value": "true"}]}
    assert decided_by(pod) == {"outbound.excludePorts", "inbound.mode", "dns.capture"}
