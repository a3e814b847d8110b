"""What keeps a node from applying rules, as STATUS says it; the rules themselves are not written here."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from meshnet.cni import readiness
from meshnet.cni.config import read_config
from meshnet.cni.protocol import CniError
from meshnet.cni.readiness import missing
from meshnet.model.errors import PermissionMissing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from meshnet.cni.config import Config
    from meshnet.model.spec import Spec

FOR_PODS = {"capabilities": {"io.kubernetes.cri.pod-annotations": True}}


class Node:
    """What was tried in the namespace that was made for it, and what refuses there."""

    def __init__(self) -> None:
        self.tried: list[Spec] = []
        self.refusal: CniError | None = None
        self.backend = "iptables-nft"

    def apply(self, spec: Spec) -> Node:
        self.tried.append(spec)
        if self.refusal is not None:
            raise self.refusal
        return self

    def visit(self, namespace: object, work: Callable[[Any], list[str]]) -> list[str]:
        return work(self)


class Made:
    @contextmanager
    def entered(self) -> Iterator[None]:
        yield

    def __enter__(self) -> Made:
        return self

    def __exit__(self, *_: object) -> None:
        pass


@pytest.fixture
def node(monkeypatch: pytest.MonkeyPatch) -> Node:
    made = Node()
    monkeypatch.setattr(readiness.netns, "unnamed", Made)
    monkeypatch.setattr(readiness, "run", lambda _: None)
    monkeypatch.setattr(readiness, "find", lambda name: f"/sbin/{name}")
    monkeypatch.setattr(readiness, "visit", made.visit)
    return made


def config(**more: Any) -> Config:
    return read_config("STATUS", {"cniVersion": "1.1.0", "name": "net", **more})


def kubeconfig(folder: Path, token: str) -> dict[str, Any]:
    path = folder / "kubeconfig"
    path.write_text(
        '{"clusters": [{"name": "c", "cluster": {"server": "https://api"}}],'
        f'"users": [{{"name": "u", "user": {{"tokenFile": "{token}"}}}}],'
        '"contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}]}'
    )
    return {"kubernetes": {"kubeconfig": str(path)}}


def test_the_network_s_own_words_are_what_is_tried(node: Node) -> None:
    assert missing(config(interception={"families": ["ipv4"], "dns": {"capture": "all"}})) == []
    (spec,) = node.tried
    assert (spec.families, spec.dns.capture) == ((4,), "all")


@pytest.mark.parametrize(("there", "families"), [(True, (4, 6)), (False, (4,))])
def test_families_that_are_left_open_are_the_node_s(
    node: Node, there: bool, families: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(readiness.os.path, "isdir", lambda path: there)
    for given in ({"interception": {}}, FOR_PODS):
        node.tried.clear()
        missing(config(**given))
        assert {spec.families for spec in node.tried} == {families}


def test_where_pods_decide_both_modes_are_tried_and_captured_queries(node: Node, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("t")
    for given in (FOR_PODS, {"interception": {}} | kubeconfig(tmp_path, str(tmp_path / "token"))):
        node.tried.clear()
        assert missing(config(**given)) == []
        assert [spec.inbound.mode for spec in node.tried] == ["tproxy", "redirect"]
        assert {spec.dns.capture for spec in node.tried} == {"all"}


def test_everything_that_lacks_is_said_at_once(node: Node, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(readiness, "find", lambda _: None)
    node.refusal = CniError(100, "refused", "iptables said no\n  next: modprobe")
    problems = missing(config(**kubeconfig(tmp_path, "/none/token")))
    assert len(problems) == 3
    assert "ip is not installed" in problems[0]
    assert problems[1].startswith("/none/token")
    assert problems[2] == "iptables said no   next: modprobe"


def test_a_kubeconfig_that_is_none(node: Node, tmp_path: Path) -> None:
    (problem,) = missing(config(kubernetes={"kubeconfig": str(tmp_path / "none")}))
    assert "kubeconfig" in problem


def test_a_refusal_without_details_is_said_in_its_own_words(node: Node) -> None:
    node.refusal = CniError(100, "no backend")
    assert missing(config(interception={})) == ["no backend"]


def test_a_wrong_interception_is_said_and_not_raised(node: Node) -> None:
    (problem,) = missing(config(interception={"inbound": {"mode": "sideways"}}))
    assert "inbound.mode" in problem


def test_a_plugin_without_capabilities_says_so(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> Made:
        raise PermissionMissing("making a network namespace needs CAP_SYS_ADMIN", hint="run as root")

    monkeypatch.setattr(readiness.netns, "unnamed", refuse)
    assert missing(config(interception={})) == ["making a network namespace needs CAP_SYS_ADMIN: run as root"]
