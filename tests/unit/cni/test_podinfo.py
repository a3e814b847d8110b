from __future__ import annotations

from typing import Any

import pytest

from meshnet.cni.podinfo import PodName, from_annotations, pod_name
from meshnet.cni.protocol import Call, CniError
from meshnet.spec.dialects.istio_annotations import NotIntercepted, spec_of_pod

STATUS = "sidecar.istio.io/status"


def named(**arguments: str) -> PodName | None:
    return pod_name(Call("ADD", arguments=arguments))


def test_a_pod_s_name_and_uid() -> None:
    found = named(K8S_POD_NAMESPACE="shop", K8S_POD_NAME="web-1.a", K8S_POD_UID="u", IgnoreUnknown="1")
    assert found == PodName("shop", "web-1.a", "u")
    assert str(found) == "shop/web-1.a"


@pytest.mark.parametrize(
    "arguments",
    [{}, {"K8S_POD_NAME": "web"}, {"K8S_POD_NAMESPACE": "shop"}, {"K8S_POD_NAMESPACE": "", "K8S_POD_NAME": "w"}],
)
def test_half_a_name_is_none(arguments: dict[str, str]) -> None:
    assert named(**arguments) is None


@pytest.mark.parametrize("word", ["../x", "a/b", "A", "a b", "a\n", "-a", "a-", ".a", "a.", "é", "a%2fb", "x" * 254])
@pytest.mark.parametrize("key", ["K8S_POD_NAMESPACE", "K8S_POD_NAME"])
def test_a_word_that_would_be_another_path_of_the_api(key: str, word: str) -> None:
    with pytest.raises(CniError) as refused:
        named(**({"K8S_POD_NAMESPACE": "shop", "K8S_POD_NAME": "web"} | {key: word}))
    assert refused.value.code == 4
    assert key in refused.value.message


def test_the_longest_name() -> None:
    assert named(K8S_POD_NAMESPACE="a", K8S_POD_NAME="x" * 253) is not None


def containers(annotations: dict[str, Any], key: str = "containers") -> list[str]:
    return [item["name"] for item in from_annotations(annotations, None)["spec"][key]]


@pytest.mark.parametrize(
    ("status", "found"),
    [
        ('{"containers": ["istio-proxy", "other"]}', ["istio-proxy", "other"]),
        ('{"containers": null, "initContainers": ["istio-proxy"]}', []),
        ('{"containers": "istio-proxy"}', []),
        ('{"containers": [1, null, "istio-proxy"]}', ["istio-proxy"]),
        ("injected", ["istio-proxy"]),  # a status without a list says that there is one, as old injectors' did
        ("", ["istio-proxy"]),
        ("[]", ["istio-proxy"]),
        ('{"revision": "x"}', ["istio-proxy"]),
    ],
)
def test_what_the_injector_put_in(status: str, found: list[str]) -> None:
    assert containers({STATUS: status}) == found


def test_without_a_status_nothing_was_put_in() -> None:
    assert containers({"a": "b"}) == containers({}) == []


def test_a_proxy_among_the_init_containers_lasts_and_others_do_not() -> None:
    made = from_annotations({STATUS: '{"initContainers": ["istio-validation", "istio-proxy"]}'}, None)
    assert [item.get("restartPolicy") for item in made["spec"]["initContainers"]] == [None, "Always"]


def test_it_is_a_manifest_that_the_dialect_reads() -> None:
    annotations = {STATUS: '{"containers": ["istio-proxy"]}', "sidecar.istio.io/interceptionMode": "TPROXY"}
    spec = spec_of_pod(from_annotations(annotations, PodName("shop", "web")))
    assert not isinstance(spec, NotIntercepted)
    assert (spec.name, spec.inbound.mode) == ("web", "tproxy")


def test_the_name_is_left_out_where_the_runtime_gave_none() -> None:
    assert from_annotations({}, None)["metadata"] == {"annotations": {}}
    assert from_annotations({}, PodName("shop", "web"))["metadata"]["namespace"] == "shop"
