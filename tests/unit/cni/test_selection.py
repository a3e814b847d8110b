"""Who is asked about a pod, in which order, and whose word counts; what the pod's words mean is the dialect's test."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from meshnet.cni.config import ANNOTATIONS, read_config
from meshnet.cni.protocol import Call, CniError
from meshnet.cni.selection import decide, interception, of_manifest
from tests.cni.api import FakeApi, injected

if TYPE_CHECKING:
    from pathlib import Path

    from meshnet.cni.config import Config
    from meshnet.cni.selection import Decision
    from meshnet.model.spec import Spec

WEB = {"K8S_POD_NAMESPACE": "shop", "K8S_POD_NAME": "web", "K8S_POD_UID": "uid-web"}
STATUS = {"sidecar.istio.io/status": '{"containers":["istio-proxy"]}'}


@pytest.fixture
def kubernetes(api: FakeApi, tmp_path: Path) -> dict[str, Any]:
    return {"kubernetes": {"kubeconfig": api.kubeconfig(tmp_path)}}


def config(**more: Any) -> Config:
    return read_config("ADD", {"cniVersion": "1.1.0", "name": "net", **more})


def decided(given: Config, **arguments: str) -> Decision:
    return decide(given, Call("ADD", "one", "/n", "eth0", arguments))


def refused(given: Config, **arguments: str) -> CniError:
    with pytest.raises(CniError) as error:
        decided(given, **arguments)
    return error.value


def spec_by(manifest: dict[str, Any], **more: Any) -> Spec:
    found = of_manifest(config(**{"interception": {}, **more}), manifest, "shop/web", "the pod's manifest")
    assert found.spec is not None
    return found.spec


def test_with_interception_alone_every_pod_gets_it() -> None:
    found = decided(config(interception={"name": "all"}))
    assert found.spec is not None
    assert (found.spec.name, found.pod, found.reason) == ("all", "", "every pod of this network is intercepted")
    assert decided(config(interception={}), **WEB).pod == "shop/web"


def test_an_excluded_namespace_goes_ahead_of_everything(kubernetes: dict[str, Any], api: FakeApi) -> None:
    for more in ({"interception": {}}, kubernetes):
        found = decided(config(excludeNamespaces=["other", "shop"], **more), **WEB)
        assert (found.spec, found.pod) == (None, "shop/web")
    assert api.requests == []


def test_the_pod_s_own_words_decide(kubernetes: dict[str, Any], api: FakeApi) -> None:
    found = decided(config(**kubernetes), **WEB)
    assert found.spec is not None
    assert (found.spec.name, found.reason) == ("web", "by the pod's manifest")
    assert api.requests == ["GET /api/v1/namespaces/shop/pods/web"]


@pytest.mark.parametrize(
    ("namespace", "name", "skipped"),
    [
        ("kube-system", "meshnet-cni-x7", True),
        ("kube-system", "other", False),
        ("shop", "meshnet-cni-x7", False),
    ],
)
def test_the_node_s_agent_waits_for_nobody(
    kubernetes: dict[str, Any], api: FakeApi, namespace: str, name: str, skipped: bool
) -> None:
    api.put(injected(name, namespace))
    found = decided(config(**kubernetes), K8S_POD_NAMESPACE=namespace, K8S_POD_NAME=name)
    assert (found.spec is None, "agent" in found.reason) == (skipped, skipped)
    assert len(api.requests) == (0 if skipped else 1)


def test_an_agent_of_another_name(kubernetes: dict[str, Any], api: FakeApi) -> None:
    given = {"kubernetes": kubernetes["kubernetes"] | {"agent": "shop/we"}}
    assert "agent" in decided(config(**given), **WEB).reason


def test_a_container_that_is_no_pod_is_somebody_else_s(kubernetes: dict[str, Any], api: FakeApi) -> None:
    assert decided(config(**kubernetes), K8S_POD_NAME="podman-1").spec is None
    assert api.requests == []


def test_annotations_without_a_sidecar_spare_the_api_a_question(kubernetes: dict[str, Any], api: FakeApi) -> None:
    found = decided(config(**kubernetes, runtimeConfig={ANNOTATIONS: {"a": "b"}}), **WEB)
    assert (found.spec, api.requests) == (None, [])
    assert decided(config(**kubernetes, runtimeConfig={ANNOTATIONS: STATUS}), **WEB).spec is not None
    assert len(api.requests) == 1


def test_no_annotations_at_all_are_no_word_about_them(kubernetes: dict[str, Any], api: FakeApi) -> None:
    """A runtime that leaves an empty list out must not keep a pod of the mesh without its rules."""
    assert decided(config(**kubernetes, capabilities={ANNOTATIONS: True}), **WEB).spec is not None


def test_annotations_from_the_runtime_decide_without_an_api() -> None:
    found = decided(config(runtimeConfig={ANNOTATIONS: STATUS}), **WEB)
    assert found.spec is not None
    assert (found.spec.name, found.reason) == ("web", "by the annotations from the runtime")
    assert decided(config(capabilities={ANNOTATIONS: True})).spec is None


def test_a_pod_that_the_api_does_not_give_fails(kubernetes: dict[str, Any], api: FakeApi) -> None:
    api.failing = [403]
    assert refused(config(**kubernetes), **WEB).code == 11


def test_a_kubeconfig_that_is_none(tmp_path: Path) -> None:
    assert refused(config(kubernetes={"kubeconfig": str(tmp_path / "none")}), **WEB).code == 50


def test_a_pod_whose_words_are_wrong_is_refused_with_all_of_them() -> None:
    wrong = injected(
        **{"traffic.sidecar.istio.io/includeInboundPorts": "x", "traffic.sidecar.istio.io/excludeOutboundPorts": "y"}
    )
    with pytest.raises(CniError) as error:
        spec_by(wrong)
    assert (error.value.code, error.value.details.count("\n")) == (102, 1)
    assert error.value.message.startswith("shop/web: ")


def test_an_interception_that_is_no_spec_is_the_configuration_s_fault() -> None:
    given = config(interception={"inbound": {"mode": "sideways"}, "outbond": {}})
    with pytest.raises(CniError) as error:
        interception(given)
    assert (error.value.code, error.value.details.count("\n")) == (7, 1)


def test_the_configuration_s_words_stand_where_the_pod_has_none() -> None:
    spec = spec_by(injected(), interception={"inbound": {"excludePorts": [9]}, "dns": {"capture": "all"}})
    assert [item.first for item in spec.inbound.exclude_ports] == [9]
    assert spec.dns.capture == "all"
    said = injected(**{"traffic.sidecar.istio.io/excludeInboundPorts": "7"})
    spec = spec_by(said, interception={"inbound": {"excludePorts": [9]}})
    assert 7 in [item.first for item in spec.inbound.exclude_ports]
    assert 9 not in [item.first for item in spec.inbound.exclude_ports]


def test_one_field_of_a_section_leaves_the_others_to_the_pod() -> None:
    said = injected(**{"sidecar.istio.io/interceptionMode": "TPROXY"})
    spec = spec_by(said, interception={"inbound": {"mode": "redirect", "port": 16006}})
    assert (spec.inbound.mode, spec.inbound.port.first) == ("tproxy", 16006)


def test_the_name_stays_the_pod_s() -> None:
    assert spec_by(injected(), interception={"name": "network"}).name == "web"


def test_the_profile_is_istio_s_where_the_configuration_has_none() -> None:
    assert spec_by(injected()).profile == "istio"
    assert spec_by(injected(), interception={"profile": "meshnet"}).profile == "meshnet"


def test_words_that_don_t_fit_each_other_are_the_pod_s_refusal() -> None:
    said = injected(**{"sidecar.istio.io/interceptionMode": "REDIRECT"})
    with pytest.raises(CniError) as error:
        spec_by(said, interception={"inbound": {"originalSource": True}})
    assert error.value.code == 102
    assert "originalSource" in error.value.details
