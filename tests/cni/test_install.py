"""The commands on a node's file system: install, ready, watch, uninstall; with the packed plugin."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.cni.api import TOKEN, FakeApi
from tests.cni.test_binary import ROOT, bare_node, packed
from tests.netns.commands import MESHNET, meshnet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["bare_node", "packed"]

LIST = '{"cniVersion": "0.4.0", "name": "n", "plugins": [\n  {"type": "bridge"}\n]}\n'
PLAIN = '{"cniVersion": "0.4.0", "name": "n", "type": "bridge"}\n'


class Node:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.networks = root / "etc/cni/net.d"
        self.networks.mkdir(parents=True)
        self.entry = root.parent / "entry.json"
        self.entry.write_text(json.dumps({"interception": {}, "stateDir": "/run/meshnet-cni", "logFile": "/run/log"}))

    def put(self, name: str, text: str) -> None:
        """As its owner writes it: in one go."""
        half = self.root.parent / "half"
        half.write_text(text)
        half.replace(self.networks / name)

    def types(self, name: str) -> list[str]:
        return [plugin["type"] for plugin in json.loads((self.networks / name).read_text())["plugins"]]


@pytest.fixture
def node(bare_node: Path) -> Node:
    return Node(bare_node)


def cni(node: Node, *words: str, code: int = 0, entry: bool = False) -> str:
    more = ("--entry", str(node.entry)) if entry else ()
    answer = meshnet("cni", *words, "--root", str(node.root), *more)
    assert answer.code == code, answer.err
    return answer.out + answer.err


def test_from_nothing_to_ready_and_back(node: Node, packed: Path) -> None:
    node.put("10-n.conf", PLAIN)
    before = {path: path.read_bytes() for path in node.networks.iterdir()}
    assert "no entry of ours" in cni(node, "ready", code=1)
    for said in ("installed", "nothing to do", "nothing to do"):
        assert said in cni(node, "install", "--packed", str(packed), entry=True)
    assert node.types("10-n.conflist") == ["bridge", "meshnet-cni"]
    assert (node.root / "opt/cni/bin/meshnet-cni").is_symlink()
    assert "ready" in cni(node, "ready")
    (node.root / "usr/sbin/iptables-nft-restore").unlink()
    (node.root / "usr/sbin/iptables-legacy-restore").unlink()
    assert "iptables" in cni(node, "ready", code=1)
    cni(node, "uninstall")
    assert {path: path.read_bytes() for path in node.networks.iterdir()} == before
    assert not list((node.root / "opt/cni/bin").iterdir())


def test_a_half_written_network_is_waited_for(node: Node) -> None:
    node.put("10-n.conflist", LIST[:40])
    said = cni(node, "install", "--wait", "0.6", entry=True, code=1)
    assert "not ready" in said and "10-n.conflist" in said
    assert (node.networks / "10-n.conflist").read_text() == LIST[:40]


def test_a_wrong_entry_is_refused_before_anything_is_written(node: Node) -> None:
    node.put("10-n.conflist", LIST)
    for entry in ("{", "[]", '{"interception": {"inbound": {"mode": "up"}}}', '{"excludeNamespace": []}', "{}"):
        node.entry.write_text(entry)
        cni(node, "install", entry=True, code=2)
    assert (node.networks / "10-n.conflist").read_text() == LIST


@pytest.fixture
def watching(node: Node) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []

    def start(*more: str) -> subprocess.Popen[str]:
        argv = (*MESHNET, "cni", "watch", "--root", str(node.root), "--entry", str(node.entry), *more)
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        child = subprocess.Popen(argv, stderr=subprocess.PIPE, text=True, env=environment, cwd=ROOT)
        started.append(child)
        return child

    yield start
    for child in started:
        child.kill()
        child.communicate()


def eventually(found: Callable[[], Any], wanted: object, seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while found() != wanted:
        assert time.monotonic() < deadline, found()
        time.sleep(0.05)


def test_the_watch_puts_back_what_an_update_takes_out(
    node: Node, watching: Callable[..., subprocess.Popen[str]]
) -> None:
    child = watching("--uninstall-at-end")
    time.sleep(0.5)
    node.put("10-n.conflist", LIST)
    eventually(lambda: node.types("10-n.conflist"), ["bridge", "meshnet-cni"])
    newer = LIST.replace("bridge", "ptp")
    node.put("10-n.conflist", newer)
    eventually(lambda: node.types("10-n.conflist"), ["ptp", "meshnet-cni"])
    node.put("05-earlier.conflist", LIST)
    eventually(lambda: node.types("05-earlier.conflist"), ["bridge", "meshnet-cni"])
    child.send_signal(signal.SIGTERM)
    _, said = child.communicate(timeout=30)
    assert (child.returncode, "Traceback" in said) == (0, False), said
    assert "waiting" in said
    assert (node.networks / "10-n.conflist").read_text() == newer
    assert (node.networks / "05-earlier.conflist").read_text() == LIST


def test_a_taint_is_taken_off_a_node_that_is_ready(
    node: Node, packed: Path, watching: Callable[..., subprocess.Popen[str]]
) -> None:
    api = FakeApi()
    try:
        taints = [{"key": "example.com/no-mesh"}, {"key": "other"}]
        api.nodes["here"] = {"metadata": {"resourceVersion": "1"}, "spec": {"taints": taints}}
        api.kubeconfig(node.root / "etc")
        path = node.root / "etc/kubeconfig"
        data = json.loads(path.read_text())
        data["users"][0]["user"] = {"token": TOKEN}
        path.write_text(json.dumps(data))
        entry = json.loads(node.entry.read_text()) | {"kubernetes": {"kubeconfig": "/etc/kubeconfig"}}
        node.entry.write_text(json.dumps(entry))
        watching("--packed", str(packed), "--remove-taint", "example.com/no-mesh", "--node", "here")
        time.sleep(1.5)
        assert len(api.nodes["here"]["spec"]["taints"]) == 2
        node.put("10-n.conflist", LIST)
        eventually(lambda: [taint["key"] for taint in api.nodes["here"]["spec"]["taints"]], ["other"])
    finally:
        api.close()


def test_the_plugin_s_folder_may_be_killed_at_any_moment(node: Node, packed: Path) -> None:
    """A killed installation leaves nothing that a runtime would take for a network, and the next one completes it."""
    node.put("10-n.conflist", LIST)
    argv = (*MESHNET, "cni", "install", "--root", str(node.root), "--entry", str(node.entry), "--packed", str(packed))
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    for pause in (0.15, 0.25, 0.3, 0.35, 0.4, 0.5):
        child = subprocess.Popen(argv, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env=environment, cwd=ROOT)
        time.sleep(pause)
        child.kill()
        child.wait()
        assert [path.name for path in node.networks.glob("*.conf*")] == ["10-n.conflist"]
        assert node.types("10-n.conflist")[0] == "bridge"
    cni(node, "install", "--packed", str(packed), entry=True)
    assert node.types("10-n.conflist") == ["bridge", "meshnet-cni"]
    cni(node, "uninstall")
    assert [path.name for path in node.networks.iterdir()] == ["10-n.conflist"]
    assert not list((node.root / "opt/cni/bin").iterdir())
