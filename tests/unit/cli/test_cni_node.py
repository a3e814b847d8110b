"""What the commands about a node share: folders, the entry as it is written and found, the taint, the metrics' file."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from meshnet.cli import cni_node
from meshnet.cli.cni_node import (
    Taint,
    access_of,
    body_of,
    config_of_node,
    entry_of_file,
    installer_of,
    not_ready,
    places_of,
    put_metrics,
    wanted_of,
    yaml_text,
)
from meshnet.cni.installer import SERVICE_ACCOUNT
from meshnet.cni.places import PROFILES, Places
from meshnet.cni.protocol import CniError
from meshnet.kernel.run import Ran
from meshnet.model.errors import MissingToolError, SpecError, ToolError, UsageError
from tests.cni.api import FakeApi
from tests.unit.cni.nodes import LIST, Node

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def node(tmp_path: Path) -> Node:
    made = Node(tmp_path, entry={"kubernetes": {"kubeconfig": "/kubeconfig"}})
    made.put("10-a.conflist", LIST)
    return made


def config(node: Node) -> Any:
    return config_of_node(Places(), str(node.root))


def test_folders_are_the_distribution_s_but_for_those_that_are_named() -> None:
    usual = PROFILES["k3s"]
    assert places_of("k3s", None, None) == usual
    assert places_of("k3s", "/b", None) == Places("/b", usual.networks)
    assert places_of("k3s", None, "/n") == Places(usual.binaries, "/n")
    assert places_of("standard", "", "") == Places()


def test_what_is_wanted_has_folders_without_an_end() -> None:
    wanted = wanted_of(Places(), "/host/", None, "/opt/packed/", True)
    assert (wanted.root, wanted.packed, wanted.account) == ("/host", "/opt/packed", SERVICE_ACCOUNT)
    assert (wanted.entry, wanted_of(Places(), "", None, "", False).account) == ({"interception": {}}, "")


def written(folder: Path, text: object) -> str:
    path = folder / "entry.json"
    path.write_text(text if isinstance(text, str) else json.dumps(text))
    return str(path)


@pytest.mark.parametrize(
    "entry",
    [
        {"interception": {"inbound": {"mode": "redirect"}}},
        {"kubernetes": {}},  # the kubeconfig's path is the installer's to know
        {"kubernetes": {"agent": "mesh/agent"}, "excludeNamespaces": ["a"], "logLevel": "debug"},
    ],
)
def test_an_entry_that_the_plugin_takes(tmp_path: Path, entry: dict[str, Any]) -> None:
    assert entry_of_file(written(tmp_path, entry)) == entry


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "empty"),
        ("[]", "a list"),
        ({}, "nothing says who gets which rules"),
        ({"interception": {}, "logLevel": "loud"}, "logLevel"),
        ({"intercepton": {}}, "intercepton"),
        ({"interception": {"inbound": {"mode": "sideways"}}}, "inbound.mode"),
        ({"kubernetes": {"agent": "ns/"}}, "kubernetes.agent"),
    ],
)
def test_an_entry_that_the_plugin_would_refuse(tmp_path: Path, text: object, said: str) -> None:
    with pytest.raises(SpecError) as refused:
        entry_of_file(written(tmp_path, text))
    assert said in "\n".join(refused.value.problems)


def test_an_entry_s_file_that_isn_t_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="can't read"):
        entry_of_file(str(tmp_path / "none"))


def test_the_body_of_a_spec_in_either_form(tmp_path: Path) -> None:
    assert body_of(None) is None
    assert body_of(written(tmp_path, "dns: {capture: all}")) == {"dns": {"capture": "all"}}
    assert body_of(written(tmp_path, {"dns": {"capture": "all"}})) == {"dns": {"capture": "all"}}


@pytest.mark.parametrize("text", ["", "[]", "a: [", "outbond: {}"])
def test_what_is_no_body(tmp_path: Path, text: str) -> None:
    with pytest.raises(SpecError):
        body_of(written(tmp_path, text))


def test_the_node_s_configuration_is_that_of_our_entry(node: Node) -> None:
    node.installer.install()
    found = config(node)
    assert (found.network, found.version, found.kubeconfig) == ("n", "0.4.0", "/kubeconfig")


def test_without_our_entry_there_is_none(node: Node) -> None:
    with pytest.raises(ToolError, match="has no entry of ours"):
        config(node)


@pytest.mark.parametrize("text", [None, "", LIST[:30]])
def test_without_a_whole_network_there_is_none(node: Node, text: str | None) -> None:
    (node.networks / "10-a.conflist").unlink()
    if text is not None:
        node.put("10-a.conflist", text)
    with pytest.raises(ToolError, match="no entry of ours"):
        config(node)


def test_an_entry_that_somebody_spoiled_is_told_in_the_plugin_s_words(node: Node) -> None:
    text = json.dumps({"cniVersion": "1.0.0", "name": "n", "plugins": [{"type": "meshnet-cni", "logLevel": "loud"}]})
    node.put("10-a.conflist", text)
    with pytest.raises(ToolError, match="logLevel"):
        config(node)


@pytest.mark.parametrize("root", ["/host", "/host/", ""])
def test_the_kubeconfig_lies_below_the_root(node: Node, monkeypatch: pytest.MonkeyPatch, root: str) -> None:
    monkeypatch.setattr("meshnet.cni.kubernetes.read_kubeconfig", lambda path: path)
    node.installer.install()
    assert access_of(config(node), root) == f"{root.rstrip('/')}/kubeconfig"


def test_an_entry_without_a_kubeconfig_is_told_so(tmp_path: Path) -> None:
    bare = Node(tmp_path)
    bare.put("10-a.conflist", LIST)
    bare.installer.install()
    with pytest.raises(ToolError, match="names no kubeconfig"):
        access_of(config(bare), str(bare.root))


class Plugin:
    """In place of the plugin on the node: what it was called with, and its answer."""

    def __init__(self) -> None:
        self.argv: list[str] = []
        self.asked: dict[str, Any] = {}
        self.ran: Ran | Exception = Ran((), 0, "", "")

    def __call__(self, argv: list[str], *, text: str, env: dict[str, str], timeout: float) -> Ran:
        assert env["CNI_COMMAND"] == "STATUS"
        assert 0 < timeout < 60
        self.argv, self.asked = argv, json.loads(text)
        if isinstance(self.ran, Exception):
            raise self.ran
        return self.ran


@pytest.fixture
def plugin(monkeypatch: pytest.MonkeyPatch) -> Plugin:
    made = Plugin()
    monkeypatch.setattr("meshnet.kernel.run.run", made)
    return made


def test_the_plugin_is_asked_on_the_node_in_the_version_that_has_status(node: Node, plugin: Plugin) -> None:
    node.installer.install()
    assert not_ready(Places(), f"{node.root}/") == ""
    assert plugin.argv == ["chroot", f"{node.root}/", "/opt/cni/bin/meshnet-cni"]
    assert (plugin.asked["cniVersion"], plugin.asked["name"]) == ("1.1.0", "n")


@pytest.mark.parametrize(
    ("ran", "said"),
    [
        (Ran((), 1, '{"code": 50}', ""), '{"code": 50}'),
        (Ran((), 1, "", "no such file"), "no such file"),
        (Ran((), 137, "", ""), "137"),
        (MissingToolError("chroot is not installed"), "chroot is not installed"),
        (OSError("no"), "no"),
    ],
)
def test_why_a_node_is_not_ready(node: Node, plugin: Plugin, ran: Any, said: str) -> None:
    node.installer.install()
    plugin.ran = ran
    assert said in not_ready(Places(), str(node.root))


def test_a_node_without_our_entry_is_not_ready(node: Node, plugin: Plugin) -> None:
    assert "no entry of ours" in not_ready(Places(), str(node.root))
    assert plugin.argv == []


@pytest.fixture
def api() -> Iterator[FakeApi]:
    made = FakeApi()
    made.nodes["here"] = {"metadata": {"resourceVersion": "7"}, "spec": {"taints": [{"key": "wait"}, {"key": "x"}]}}
    yield made
    made.close()


@pytest.fixture
def taint(node: Node, api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> Taint:
    api.kubeconfig(node.root)
    node.installer.install()
    monkeypatch.setattr(cni_node, "not_ready", lambda *_: "")
    return Taint("wait", "here", Places(), str(node.root))


def test_a_taint_is_taken_off_once(taint: Taint, api: FakeApi, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(3):
        taint.look()
    assert api.nodes["here"]["spec"]["taints"] == [{"key": "x"}]
    assert capsys.readouterr().err == "meshnet: the taint wait is off here\n"
    assert len(api.requests) == 2


def test_a_taint_stays_until_the_node_is_ready(taint: Taint, api: FakeApi, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cni_node, "not_ready", lambda *_: "not yet")
    taint.look()
    assert api.requests == []


def test_without_a_taint_nobody_is_asked(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cni_node, "not_ready", lambda *_: pytest.fail("asked"))
    Taint("", "", Places(), str(node.root)).look()


def test_an_entry_that_is_taken_out_meanwhile_does_not_end_the_watch(
    taint: Taint, node: Node, api: FakeApi, capsys: pytest.CaptureFixture[str]
) -> None:
    node.put("10-a.conflist", LIST)
    for _ in range(3):
        taint.look()
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1 and "stays for now" in said[0]
    node.installer.install()
    taint.look()
    assert api.nodes["here"]["spec"]["taints"] == [{"key": "x"}]


def test_an_api_that_refuses_is_asked_again_and_told_once(
    taint: Taint, api: FakeApi, capsys: pytest.CaptureFixture[str]
) -> None:
    api.failing = [403, 403]
    for _ in range(3):
        taint.look()
    assert len(capsys.readouterr().err.splitlines()) == 2
    assert api.nodes["here"]["spec"]["taints"] == [{"key": "x"}]


def test_metrics_go_to_a_file_in_one_go(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    put_metrics("a 1\n", str(tmp_path / "m.prom"))
    assert (tmp_path / "m.prom").read_text() == "a 1\n"
    assert [path.name for path in tmp_path.iterdir()] == ["m.prom"]
    put_metrics("a 1\n", None)
    assert capsys.readouterr().out == "a 1\n"


def test_metrics_that_can_t_be_put_leave_nothing_half(tmp_path: Path) -> None:
    (tmp_path / "m.prom").mkdir()
    with pytest.raises(OSError):
        put_metrics("a 1\n", str(tmp_path / "m.prom"))
    assert [path.name for path in tmp_path.iterdir()] == ["m.prom"]


def test_yaml_says_everything_out_and_texts_on_lines_of_their_own() -> None:
    shared = {"a": "1"}
    text = yaml_text([{"x": shared, "y": shared, "script": "one\ntwo\n"}])
    assert "&id" not in text
    assert "script: |\n  one\n  two\n" in text
    assert not text.startswith("---")
    assert list(yaml.safe_load_all(yaml_text([{"a": 1}, {"b": "yes"}]))) == [{"a": 1}, {"b": "yes"}]


def test_the_installer_talks_to_standard_error(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    installer_of(wanted_of(Places(), str(node.root), None, "", False)).install()
    said = capsys.readouterr()
    assert said.out == ""
    assert all(line.startswith("meshnet: ") for line in said.err.splitlines())


def test_a_kubeconfig_that_is_none_is_the_api_s_refusal(node: Node) -> None:
    node.installer.install()
    with pytest.raises(CniError):
        access_of(config(node), str(node.root))
