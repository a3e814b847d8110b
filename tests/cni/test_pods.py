"""Which pod gets which rules, through the whole plugin: the API, annotations, defaults, and who is let be."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.cni.api import FakeApi, injected
from tests.cni.conftest import path_of
from tests.cni.runner import Refused, call, outcome, start
from tests.netns.commands import meshnet
from tests.netns.snapshot import run, snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from meshnet.kernel.netns import Namespace
    from tests.netns.pods import Scratch

    Made = Callable[..., dict[str, Any]]

ARGUMENTS = "IgnoreUnknown=1;K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web;K8S_POD_UID=uid-web"
TRAFFIC = "traffic.sidecar.istio.io/"


@pytest.fixture
def api() -> Iterator[FakeApi]:
    made = FakeApi()
    yield made
    made.close()


@pytest.fixture
def by_pod(config: Made, api: FakeApi, tmp_path: Path) -> Made:
    """The configuration of a network whose pods decide."""
    kubeconfig = api.kubeconfig(tmp_path)

    def made(**more: Any) -> dict[str, Any]:
        plain = config(kubernetes={"kubeconfig": kubeconfig})
        del plain["interception"]
        return plain | more

    return made


def add(config: dict[str, Any], pod: Namespace, arguments: str = ARGUMENTS) -> None:
    call("ADD", "meshnet-cni", config, "one", path_of(pod), arguments=arguments)


def log(folder: Path) -> str:
    return (folder / "log").read_text()


def test_the_same_pod_gets_what_compile_prints(by_pod: Made, api: FakeApi, scratch: Scratch, tmp_path: Path) -> None:
    ours, theirs = scratch(), scratch()
    pod = injected("web", **{"sidecar.istio.io/interceptionMode": "TPROXY", f"{TRAFFIC}excludeInboundPorts": "7,9000"})
    api.put(pod)
    add(by_pod(), ours)
    (tmp_path / "pod.json").write_text(json.dumps(pod))
    steps = meshnet("compile", "--pod", str(tmp_path / "pod.json"), "-o", "json").data["steps"]
    for step in steps:
        tool = "ip6tables" if step["family"] == 6 else "iptables"
        restore, batch = (f"{tool}-nft-restore", "--noflush"), ("ip", f"-{step['family']}", "-batch", "-")
        run(theirs, *(restore if step["tool"] == "restore" else batch), text=step["text"])
    assert snapshot(ours) == snapshot(theirs)
    assert "ISTIO_TPROXY" in snapshot(ours)["iptables-nft"]
    assert meshnet("compile", "--pod", str(tmp_path / "pod.json"), "--print-spec", "-o", "json").data == kept(tmp_path)


def kept(folder: Path) -> dict[str, Any]:
    (path,) = (folder / "state").rglob("*@eth0.json")
    found: dict[str, Any] = json.loads(path.read_text())["spec"]
    return found


def test_the_configuration_s_words_stand_where_the_pod_has_none(
    by_pod: Made, api: FakeApi, pod: Namespace, tmp_path: Path
) -> None:
    api.put(injected(**{f"{TRAFFIC}excludeOutboundPorts": "3306"}))
    body = {
        "profile": "meshnet",
        "inbound": {"mode": "tproxy", "excludePorts": [8]},
        "outbound": {"excludePorts": [22], "excludeCidrs": ["10.9.0.0/16"]},
        "sidecar": {"uids": [7]},
    }
    add(by_pod(interception=body), pod)
    spec = kept(tmp_path)
    assert (spec["profile"], spec["inbound"]["mode"], spec["inbound"]["excludePorts"]) == ("meshnet", "tproxy", [8])
    assert (spec["outbound"]["excludePorts"], spec["outbound"]["excludeCidrs"]) == ([3306], ["10.9.0.0/16"])
    assert spec["sidecar"]["uids"] == [1337]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda pod: pod["spec"].update(hostNetwork=True), "hostNetwork"),
        (lambda pod: pod["spec"]["containers"].pop(), "no container istio-proxy"),
        (lambda pod: pod["metadata"].update(annotations={}), "no sidecar was injected"),
        (lambda pod: pod["metadata"]["labels"].update({"sidecar.istio.io/inject": "false"}), "inject is false"),
        (lambda pod: pod["spec"].update(initContainers=[{"name": "istio-init"}]), "istio-init"),
        (lambda pod: pod["spec"]["containers"][1]["env"].append({"name": "DISABLE_ENVOY", "value": "true"}), "DISABLE"),
    ],
)
def test_a_pod_that_is_not_selected_starts_without_rules(
    by_pod: Made, api: FakeApi, pod: Namespace, tmp_path: Path, change: Callable[[Any], Any], said: str
) -> None:
    manifest = injected()
    change(manifest)
    api.put(manifest)
    before = snapshot(pod)
    add(by_pod(), pod)
    assert snapshot(pod) == before
    assert "not intercepted" in log(tmp_path) and said in log(tmp_path)
    call("CHECK", "meshnet-cni", by_pod(), "one", path_of(pod), arguments=ARGUMENTS)


def test_a_native_sidecar_is_one_too(by_pod: Made, api: FakeApi, pod: Namespace) -> None:
    manifest = injected()
    manifest["spec"]["initContainers"] = [manifest["spec"]["containers"].pop() | {"restartPolicy": "Always"}]
    api.put(manifest)
    add(by_pod(), pod)
    assert "ISTIO_OUTPUT" in snapshot(pod)["iptables-nft"]


def test_a_pod_on_the_node_s_network_gets_success_and_no_rules(by_pod: Made, api: FakeApi) -> None:
    manifest = injected()
    manifest["spec"]["hostNetwork"] = True
    api.put(manifest)
    call("ADD", "meshnet-cni", by_pod(), "one", "/proc/self/ns/net", arguments=ARGUMENTS)


@pytest.mark.parametrize("path", ["/proc/self/ns/net", "/proc/thread-self/ns/net"])
@pytest.mark.parametrize("verb", ["ADD", "CHECK", "DEL"])
def test_the_node_s_own_namespace_is_refused(config: Made, verb: str, path: str) -> None:
    with pytest.raises(Refused) as refused:
        call(verb, "meshnet-cni", config(), "one", path)
    assert (refused.value.code, "own namespace" in refused.value.answer["msg"]) == (8, True)


def test_an_excluded_namespace_and_the_agent_wait_for_nobody(by_pod: Made, api: FakeApi, pod: Namespace) -> None:
    before = snapshot(pod)
    add(by_pod(excludeNamespaces=["shop"]), pod)
    add(by_pod(), pod, "K8S_POD_NAMESPACE=kube-system;K8S_POD_NAME=meshnet-cni-x7k2p")
    assert (snapshot(pod), api.requests) == (before, [])


def test_an_api_that_is_away_fails_the_pod_and_is_asked_again(
    by_pod: Made, api: FakeApi, pod: Namespace, tmp_path: Path
) -> None:
    api.put(injected())
    api.failing = [503, 429, 500]
    add(by_pod(), pod)
    assert len(api.requests) == 4
    assert "ISTIO" in snapshot(pod)["iptables-nft"]


def test_a_token_that_was_replaced_is_read_again(by_pod: Made, api: FakeApi, pod: Namespace, tmp_path: Path) -> None:
    api.put(injected())
    settings = by_pod()
    api.token = "second-token"
    (tmp_path / "token").write_text("second-token\n")
    add(settings, pod)
    assert len(api.requests) == 1


def test_wrong_annotations_fail_the_pod_and_are_named(by_pod: Made, api: FakeApi, pod: Namespace) -> None:
    api.put(injected(**{f"{TRAFFIC}excludeInboundPorts": "80;reboot", f"{TRAFFIC}includeInboundPorts": "\n-j DROP"}))
    before = snapshot(pod)
    with pytest.raises(Refused) as refused:
        add(by_pod(), pod)
    assert refused.value.code == 102
    assert "excludeInboundPorts" in refused.value.answer["details"]
    assert "includeInboundPorts" in refused.value.answer["details"]
    assert snapshot(pod) == before


def test_a_container_that_is_no_pod_starts_without_rules(by_pod: Made, api: FakeApi, pod: Namespace) -> None:
    """podman on a node takes its networks from the same folder as kubelet's runtime."""
    before = snapshot(pod)
    for arguments in ("", "IgnoreUnknown=1", "IgnoreUnknown=1;K8S_POD_NAME=one", "K8S_POD_NAMESPACE=shop"):
        add(by_pod(), pod, arguments)
    assert (snapshot(pod), api.requests) == (before, [])


def test_a_name_that_would_be_another_path_of_the_api_is_refused(by_pod: Made, pod: Namespace) -> None:
    for arguments in ("K8S_POD_NAMESPACE=a;K8S_POD_NAME=x?y", "K8S_POD_NAMESPACE=../../nodes;K8S_POD_NAME=x"):
        with pytest.raises(Refused) as refused:
            add(by_pod(), pod, arguments)
        assert refused.value.code == 4


CAPABILITY = "io.kubernetes.cri.pod-annotations"


@pytest.mark.parametrize("key", ["runtimeConfig", "args"])
def test_annotations_from_the_runtime_are_enough(config: Made, pod: Namespace, key: str, tmp_path: Path) -> None:
    annotations = injected(**{f"{TRAFFIC}excludeInboundPorts": "81"})["metadata"]["annotations"]
    add(config(**{key: {CAPABILITY: annotations}}), pod, "")
    assert 81 in kept(tmp_path)["inbound"]["excludePorts"]


def test_a_pod_without_annotations_is_none_of_the_mesh_s(config: Made, pod: Namespace) -> None:
    before = snapshot(pod)
    add(config(capabilities={CAPABILITY: True}), pod, "")
    add(config(runtimeConfig={CAPABILITY: {"a": "b"}}), pod, "")
    assert snapshot(pod) == before


def test_annotations_spare_the_api_a_question(by_pod: Made, api: FakeApi, pod: Namespace) -> None:
    add(by_pod(runtimeConfig={CAPABILITY: {"a": "b"}}), pod)
    assert api.requests == []


def test_del_needs_no_api_no_namespace_and_half_a_configuration(
    by_pod: Made, api: FakeApi, pod: Namespace, kept: dict[str, str]
) -> None:
    api.put(injected())
    add(by_pod(), pod)
    api.close()
    for settings in (by_pod(), {"cniVersion": "1.1.0", "name": "net", **kept}, {"interception": 7, **kept}, kept):
        done = start("DEL", "meshnet-cni", json.dumps(settings).encode(), "one", path_of(pod))
        assert (done.returncode, done.stdout) == (0, b"")
    for where in ("", "/run/netns/cni-never-there", "/etc/hostname"):
        assert outcome("meshnet-cni", start("DEL", "meshnet-cni", json.dumps(by_pod()).encode(), "one", where)) == {}
    assert "ISTIO" not in "".join(snapshot(pod).values())


def test_del_with_half_a_configuration_takes_the_rules_and_what_was_kept(
    config: Made, pod: Namespace, kept: dict[str, str], tmp_path: Path
) -> None:
    before = snapshot(pod)
    call("ADD", "meshnet-cni", config(), "one", path_of(pod))
    done = start("DEL", "meshnet-cni", json.dumps(kept).encode(), "one", path_of(pod))
    assert (done.returncode, done.stdout) == (0, b"")
    assert snapshot(pod) == before
    assert not list((tmp_path / "state" / "net").iterdir())
