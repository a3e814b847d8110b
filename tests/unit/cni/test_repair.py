"""Which running pods are looked at and what is done about each, with a /proc of the test's own."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from meshnet.cni import repair as module
from meshnet.cni.config import read_config
from meshnet.cni.protocol import CniError
from meshnet.cni.repair import LABEL, POLICIES, Checked, metrics, process_of, repair
from meshnet.model.errors import NamespaceError
from tests.cni.api import injected
from tests.unit.cni.pods import FakePod, Pods

if TYPE_CHECKING:
    from pathlib import Path

    from meshnet.kernel.netns import Where

LINE = re.compile(r'^[a-z_]+(\{[a-z]+="([^"\\\n]|\\["\\n])*"(,[a-z]+="([^"\\\n]|\\["\\n])*")*\})? [0-9]+$')
CONFIG = read_config("ADD", {"cniVersion": "1.1.0", "name": "net", "kubernetes": {"kubeconfig": "/k"}})


class Node:
    """A node's pods by name, each with a process; in place of the API as well."""

    def __init__(self, proc: Path, pods: Pods) -> None:
        self.proc = proc
        self._pods = pods
        self.listed: list[dict[str, Any]] = []
        self.done: list[tuple[str, ...]] = []

    def run(self, name: str, **more: Any) -> FakePod:
        pid = str(7 + len(self.listed))
        (self.proc / pid).mkdir()
        (self.proc / pid / "cgroup").write_text(f"0::/kubepods/poduid-{name}/x\n")
        self.listed.append(injected(name) | more)
        return self._pods.add(f"{self.proc}/{pid}/ns/net")

    def repair(self, policy: Any = "report", config: Any = CONFIG) -> dict[str, str]:
        self.checked = repair(self, config, "here", policy, str(self.proc))  # type: ignore[arg-type]
        return {item.name: item.state for item in self.checked}

    def pods_of(self, node: str) -> list[dict[str, Any]]:
        assert node == "here"
        return self.listed

    def label(self, namespace: str, name: str, labels: dict[str, str]) -> None:
        if name == "refused":
            raise CniError(11, "the API says no")
        self.done.append(("label", namespace, name, *labels))

    def delete(self, namespace: str, name: str, uid: str) -> None:
        self.done.append(("delete", namespace, name, uid))


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    pods = Pods()

    def opened(place: Where) -> FakePod:
        try:
            return pods.open(place.text)
        except CniError as error:
            raise NamespaceError(error.message) from None

    monkeypatch.setattr(module, "open_namespace", opened)
    monkeypatch.setattr(module, "visit", pods.visit)
    return Node(tmp_path, pods)


def test_what_is_captured_and_what_is_not(node: Node) -> None:
    node.run("b-missed")
    node.run("a-fine").rules = ["a-fine"]
    assert list(node.repair().items()) == [("a-fine", "captured"), ("b-missed", "drifted")]
    assert [item.good for item in node.checked] == [True, False]
    assert node.checked[1].said == "+ rules of b-missed"


def test_many_differences_are_counted(node: Node) -> None:
    node.run("missed").drift = ("- x", "- y")
    node.repair()
    assert node.checked[0].said == "3 differences, the first: + rules of missed"


@pytest.mark.parametrize(
    ("policy", "state", "done"),
    [
        ("report", "drifted", []),
        ("apply", "repaired", []),
        ("label", "labelled", [("label", "shop", "web", LABEL)]),
        ("delete", "deleted", [("delete", "shop", "web", "uid-web")]),
    ],
)
def test_each_policy_does_what_it_says(node: Node, policy: str, state: str, done: list[object]) -> None:
    pod = node.run("web")
    assert node.repair(policy) == {"web": state}
    assert node.done == done
    assert pod.rules == (["web"] if policy == "apply" else [])


@pytest.mark.parametrize("policy", POLICIES)
def test_nothing_is_done_to_a_pod_that_is_captured(node: Node, policy: str) -> None:
    node.run("web").rules = ["web"]
    assert node.repair(policy) == {"web": "captured"}
    assert node.done == []


@pytest.mark.parametrize(
    "more",
    [
        {"status": {"phase": "Pending"}},
        {"status": {"phase": "Succeeded"}},
        {"status": None},
        {"metadata": {**injected("web")["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}},
        {"metadata": {**injected("web")["metadata"], "annotations": {}}},
        {"spec": {**injected("web")["spec"], "hostNetwork": True}},
    ],
)
def test_who_is_not_looked_at(node: Node, more: dict[str, Any]) -> None:
    node.run("web", **more)
    assert node.repair("delete") == {}
    assert node.done == []


def test_an_excluded_namespace_is_not_looked_at(node: Node) -> None:
    node.run("web")
    raw = {"cniVersion": "1.1.0", "name": "n", "kubernetes": {"kubeconfig": "/k"}, "excludeNamespaces": ["x", "shop"]}
    assert node.repair(config=read_config("ADD", raw)) == {}


def test_what_goes_wrong_with_one_pod_is_said_of_that_pod_alone(node: Node) -> None:
    wrong = injected("a-wrong", **{"traffic.sidecar.istio.io/includeInboundPorts": "x"})
    node.run("a-wrong", **wrong)
    node.run("refused")
    node.run("b-gone")
    (node.proc / "9" / "cgroup").unlink()
    node.run("web")
    assert node.repair("label") == {
        "a-wrong": "unknown",
        "b-gone": "unknown",
        "refused": "unknown",
        "web": "labelled",
    }
    assert node.checked[2].said == "the API says no"


def test_a_namespace_that_ends_meanwhile(node: Node) -> None:
    node.run("web")
    node._pods.by_path.clear()
    assert node.repair() == {"web": "unknown"}
    assert "there is no" in node.checked[0].said


@pytest.mark.parametrize("which", ["is_current", "is_initial"])
@pytest.mark.parametrize("policy", POLICIES)
def test_the_agent_s_own_namespace_is_never_changed(node: Node, which: str, policy: str) -> None:
    pod = node.run("web")
    setattr(pod, which, True)
    assert node.repair(policy) == {"web": "unknown"}
    assert (pod.rules, node.done) == ([], [])


def test_a_pod_without_a_uid_has_no_process_to_be_found_by(node: Node) -> None:
    bare = injected("web")
    del bare["metadata"]["uid"]
    node.run("web", **bare)
    assert node.repair() == {"web": "unknown"}


def test_metrics_have_a_line_for_each_pod_and_each_state() -> None:
    text = metrics([Checked("shop", "a", "captured"), Checked("shop", "b", "drifted", "2 differences")], "here")
    lines = text.splitlines()
    assert text.endswith("\n")
    assert all(line.startswith("# ") or LINE.match(line) for line in lines)
    assert 'meshnet_cni_pod_captured{node="here",namespace="shop",pod="b",state="drifted"} 0' in lines
    assert 'meshnet_cni_pods{node="here",state="captured"} 1' in lines
    assert 'meshnet_cni_pods{node="here",state="repaired"} 0' in lines


def test_metrics_of_no_pod_have_every_state_all_the_same() -> None:
    assert metrics([], "here").count("\nmeshnet_cni_pods{") == 6


@pytest.mark.parametrize("word", ['a"b', "a\\", "a\nb", '\\"', '"}'])
def test_what_stands_in_a_label_can_t_end_it(word: str) -> None:
    lines = metrics([Checked(word, word, "captured")], word).splitlines()
    assert all(line.startswith("# ") or LINE.match(line) for line in lines), lines


def test_a_process_is_found_under_either_driver(tmp_path: Path) -> None:
    for pid, group in (("7", "kubepods/besteffort/pod1-2-3/x"), ("8", "kubepods-pod4_5_6.slice/y"), ("self", "")):
        (tmp_path / pid).mkdir()
        (tmp_path / pid / "cgroup").write_text(f"0::/{group}\n")
    (tmp_path / "9").mkdir()
    assert [process_of(uid, str(tmp_path)) for uid in ("1-2-3", "4-5-6", "7-8-9")] == [7, 8, None]
