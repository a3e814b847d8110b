"""Profile istio beside istio-iptables' own golden files, loaded into two namespaces and read back."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from meshnet.model.cidr import read_cidr
from meshnet.model.facts import Facts
from meshnet.spec.dialects.istio import Directory, spec_of
from meshnet.spec.dialects.istio_options import Word
from tests import conformance
from tests.netns import golden

if TYPE_CHECKING:
    from meshnet.model.spec import Spec
    from tests.netns.pods import Scratch

FOLDER = conformance.FOLDER / "istio-iptables"
OPTIONS = {
    "ProxyPort": "envoy-port",
    "InboundCapturePort": "inbound-capture-port",
    "InboundTunnelPort": "inbound-tunnel-port",
    "ProxyUID": "proxy-uid",
    "ProxyGID": "proxy-gid",
    "InboundInterceptionMode": "istio-inbound-interception-mode",
    "InboundTProxyMark": "istio-inbound-tproxy-mark",
    "InboundTProxyRouteTable": "istio-inbound-tproxy-route-table",
    "InboundPortsInclude": "istio-inbound-ports",
    "InboundPortsExclude": "istio-local-exclude-ports",
    "OutboundPortsInclude": "istio-outbound-ports",
    "OutboundPortsExclude": "istio-local-outbound-ports-exclude",
    "OutboundIPRangesInclude": "istio-service-cidr",
    "OutboundIPRangesExclude": "istio-service-exclude-cidr",
    "RerouteVirtualInterfaces": "kube-virt-interfaces",
    "ExcludeInterfaces": "istio-exclude-interfaces",
    "OwnerGroupsInclude": "istio-outbound-owner-groups",
    "OwnerGroupsExclude": "istio-outbound-owner-groups-exclude",
    "HostIPv4LoopbackCidr": "istio-outbound-ipv4-loopback-cidr",
    "RedirectDNS": "redirect-dns",
    "DropInvalid": "drop-invalid",
}
ELSEWHERE = {"EnableIPv6", "DNSServersV4", "DNSServersV6", "DryRun"}
"""Fields of the original's configuration that are facts of the namespace, or say how the work is done."""


def cases() -> list[dict[str, Any]]:
    path = FOLDER / "cases.json"
    if not path.exists():
        return [{"name": "absent", "config": {}}]
    read = json.loads(path.read_text())
    return [{"name": case["name"], "config": read["defaults"] | case["config"]} for case in read["cases"]]


def inputs(config: dict[str, Any]) -> tuple[Spec, Facts]:
    assert not set(config) - set(OPTIONS) - ELSEWHERE
    given = {OPTIONS[key]: Word(_text(item), key) for key, item in config.items() if key in OPTIONS}
    families = (4, 6) if config["EnableIPv6"] else (4,)
    resolvers = [*config.get("DNSServersV4", ()), *config.get("DNSServersV6", ())]
    spec = spec_of(given, families=families, directory=Directory(group=golden.GROUPS.get))
    return spec, Facts(families, resolvers=tuple(read_cidr(address) for address in resolvers))


def _text(item: object) -> str:
    return str(item).lower() if isinstance(item, bool) else str(item)


@pytest.mark.conformance
@pytest.mark.parametrize("variant", golden.VARIANTS)
@pytest.mark.parametrize("case", cases(), ids=lambda case: case["name"])
def test_the_rules_are_the_original_s(scratch: Scratch, case: dict[str, Any], variant: str) -> None:
    theirs, ours = scratch(), scratch()
    golden.load_golden(theirs, variant, FOLDER / f"{case['name']}.golden")
    golden.load_compiled(ours, variant, *inputs(case["config"]))
    wanted = golden.saved(theirs, variant)
    assert golden.saved(ours, variant) == wanted
    assert "ISTIO_OUTPUT" in wanted["iptables"]


@pytest.mark.conformance
def test_every_golden_file_has_its_case() -> None:
    assert {path.stem for path in FOLDER.glob("*.golden")} == {case["name"] for case in cases()}
    assert len(cases()) == 27
