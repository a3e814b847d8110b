"""The commands about a node's plugin, with folders of the test's own as the node."""

from __future__ import annotations

import json
import os
import signal
from typing import TYPE_CHECKING, Any

import pytest

from meshnet.cli import cni, cni_node
from meshnet.cni import repair as repairing
from meshnet.cni.protocol import CniError
from meshnet.cni.repair import Checked
from tests.unit.cli.commands import data
from tests.unit.cni.nodes import LIST, Node

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


@pytest.fixture
def on_node(called: Any, node: Node) -> Callable[..., tuple[int, str, str]]:
    def run(verb: str, *words: str) -> tuple[int, str, str]:
        found: tuple[int, str, str] = called("cni", verb, "--root", str(node.root), *words)
        return found

    return run


def test_install_twice_and_uninstall_once(on_node: Any, node: Node) -> None:
    node.put("10-a.conflist", LIST)
    assert on_node("install")[:2] == (0, "installed\n")
    assert on_node("install")[:2] == (0, "nothing to do: already as it should be\n")
    assert node.types("10-a.conflist") == ["bridge", "meshnet-cni"]
    assert on_node("uninstall")[:2] == (0, "uninstalled\n")
    assert (node.networks / "10-a.conflist").read_text() == LIST


def test_install_says_that_there_is_no_network_yet(on_node: Any) -> None:
    code, out, err = on_node("install")
    assert (code, out) == (1, "")
    assert "not ready" in err


def test_install_waits_and_says_each_reason_once(on_node: Any, node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            node.put("10-a.conflist", LIST)

    monkeypatch.setattr("time.sleep", sleep)
    code, out, err = on_node("install", "--wait", "60")
    assert (code, out, len(pauses)) == (0, "installed\n", 3)
    assert err.count("not ready") == 1


def test_a_wrong_entry_is_refused_before_the_node_is_looked_at(on_node: Any, node: Node, tmp_path: Path) -> None:
    node.put("10-a.conflist", LIST)
    (tmp_path / "entry.json").write_text('{"interception": {"inbound": {"mode": "sideways"}}}')
    assert on_node("install", "--entry", str(tmp_path / "entry.json"))[0] == 2
    assert node.types("10-a.conflist") == ["bridge"]


@pytest.mark.parametrize("words", [("--profile", "none"), ("--wait", "-1"), ("--wait", "nan"), ("--root",)])
def test_what_install_does_not_take(on_node: Any, words: tuple[str, ...]) -> None:
    assert on_node("install", *words)[0] == 2


@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("uninstalled", [False, True])
def test_watch_installs_until_a_signal(
    on_node: Any, node: Node, monkeypatch: pytest.MonkeyPatch, ending: int, uninstalled: bool
) -> None:
    node.put("10-a.conflist", LIST)
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    monkeypatch.setattr(cni_node.Taint, "look", lambda _: os.kill(os.getpid(), ending))
    try:
        assert on_node("watch", *(["--uninstall-at-end"] if uninstalled else []))[0] == 0
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert node.types("10-a.conflist") == (["bridge"] if uninstalled else ["bridge", "meshnet-cni"])


def test_a_taint_is_of_a_node(on_node: Any) -> None:
    code, _, err = on_node("watch", "--remove-taint", "wait")
    assert code == 2
    assert "--node" in err


def test_ready(on_node: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cni, "not_ready", lambda *_: "")
    assert on_node("ready")[:2] == (0, "ready\n")
    monkeypatch.setattr(cni, "not_ready", lambda *_: "no table nat")
    code, out, err = on_node("ready")
    assert (code, out, err) == (1, "", "meshnet: no table nat\n")


@pytest.fixture
def looked(node: Node, monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Has a repair find these; then the node, the policy and what it is to find."""
    found: list[Any] = []

    def look(_api: object, config: Any, name: str, policy: str) -> list[Checked]:
        found.append((config.network, name, policy))
        return [item for item in found if isinstance(item, Checked)]

    entry = {"type": "meshnet-cni", "kubernetes": {"kubeconfig": "/kubeconfig"}}
    node.put("10-a.conflist", json.dumps({"cniVersion": "1.0.0", "name": "n", "plugins": [{"type": "x"}, entry]}))
    monkeypatch.setattr(repairing, "repair", look)
    monkeypatch.setattr(cni, "access_of", lambda config, root: config.kubeconfig)
    return found


def test_repair_prints_metrics_and_talks_about_what_it_found(on_node: Any, looked: list[Any]) -> None:
    looked += [Checked("shop", "a", "captured"), Checked("shop", "b", "repaired", "2 differences")]
    code, out, err = on_node("repair", "--node", "here", "--policy", "apply")
    assert (code, looked[-1]) == (0, ("n", "here", "apply"))
    assert 'meshnet_cni_pods{node="here",state="repaired"} 1' in out
    assert err == "meshnet: shop/b: repaired: 2 differences\n"


@pytest.mark.parametrize("state", ["drifted", "labelled", "deleted", "unknown"])
def test_repair_is_negative_while_a_pod_is_uncaptured(on_node: Any, looked: list[Any], state: Any) -> None:
    looked += [Checked("shop", "a", "captured"), Checked("shop", "b", state, "why")]
    assert on_node("repair", "--node", "here")[0] == 1


def test_repair_into_a_file_again_and_again(
    on_node: Any, looked: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Ended(Exception):
        pass

    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr("time.sleep", sleep)
    path = tmp_path / "m.prom"
    code, out, _ = on_node("repair", "--node", "here", "--every", "30", "--metrics-file", str(path))
    assert (code, out, pauses, len(looked)) == (130, "", [30.0, 30.0], 2)
    assert path.read_text().startswith("# HELP")


def test_repair_without_our_entry(on_node: Any, node: Node) -> None:
    node.put("10-a.conflist", LIST)
    code, _, err = on_node("repair", "--node", "here")
    assert code == 3
    assert "no entry of ours" in err


def test_an_api_that_is_away_is_told_with_its_words(
    on_node: Any, looked: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object) -> list[Checked]:
        raise CniError(11, "the API doesn't give the pods", "503 not now")

    monkeypatch.setattr(repairing, "repair", away)
    code, _, err = on_node("repair", "--node", "here")
    assert code == 3
    assert "the API doesn't give the pods" in err and "503 not now" in err


def test_a_node_has_to_be_named(on_node: Any) -> None:
    assert on_node("repair")[0] == 2


def test_manifests_in_both_forms(called: Any) -> None:
    code, out, _ = called("cni", "manifests", "--profile", "k3s", "--image", "mesh:1", "-o", "json")
    kinds = {item["kind"] for item in data(out)["items"]}
    assert code == 0
    assert kinds >= {"DaemonSet", "ClusterRole", "ConfigMap", "ServiceAccount"}
    assert "mesh:1" in out and "/var/lib/rancher/k3s" in out
    assert called("cni", "manifests")[1].startswith("---\n")


@pytest.mark.parametrize(
    "words",
    [
        ("-d", "x"),
        ("-m", "SIDEWAYS"),
        ("-u", "4294967296"),
        ("--profile", "mine"),
        ("--force-iptables-binary", "newest"),
        ("--unknown",),
        ("stray",),
    ],
)
def test_a_wrong_flag_of_meshnet_init_is_said_before_a_pod_has_it(called: Any, words: tuple[str, ...]) -> None:
    code, out, err = called("init-container", "--", *words)
    assert (code, out) == (2, "")
    assert words[-1] in err


def test_the_init_container_has_the_flags_as_they_were_given(called: Any) -> None:
    flags = ["-p", "15001", "-u", "istio-proxy", "-i", "*", "--profile", "meshnet"]
    code, out, _ = called("init-container", "-o", "json", "--", *flags)
    (container,) = data(out)["spec"]["initContainers"]
    assert code == 0
    assert (container["command"] + container.get("args", []))[-len(flags) :] == flags
