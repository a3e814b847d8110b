from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from meshnet.cni.conflist import NotReady
from meshnet.cni.watcher import Watcher
from meshnet.model.errors import ToolError
from tests.unit.cni.nodes import LIST, Node

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_the_watcher_puts_back_what_is_taken_out_and_backs_off(node: Node) -> None:
    clock, said = Clock(), []
    path = node.put("10-a.conflist", LIST)
    watcher = Watcher(node.installer, said.append, lambda _: False, clock)
    assert watcher.look()
    writes = []
    for _ in range(600):
        if node.types("10-a.conflist") == ["bridge", "meshnet-cni"]:
            path.write_text(LIST + " " * len(writes))
        clock.now += 1
        if watcher.look():
            writes.append(clock.now)
    pauses = [later - earlier for earlier, later in pairwise(writes)]
    assert pauses[-1] >= 60
    assert len(writes) < 20
    assert pauses == sorted(pauses)
    clock.now += 1000
    assert watcher.look()
    path.write_text(LIST)
    clock.now += 1
    assert watcher.look()


def test_the_watcher_waits_for_a_whole_file_and_says_so_once(node: Node) -> None:
    clock, said = Clock(), []
    watcher = Watcher(node.installer, said.append, lambda _: False, clock)
    for _ in range(3):
        assert not watcher.look()
        clock.now += 1
    assert len(said) == 1
    node.put("10-a.conflist", LIST[:30])
    for _ in range(3):
        assert not watcher.look()
        clock.now += 1
    assert (len(said), (node.networks / "10-a.conflist").read_text()) == (2, LIST[:30])
    node.put("10-a.conflist", LIST)
    assert watcher.look()
    assert node.types("10-a.conflist")[-1] == "meshnet-cni"


def test_what_is_rewritten_right_behind_the_watcher_s_own_writing_is_seen(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    path = node.put("10-a.conflist", LIST)
    install = node.installer.install

    def overtaken() -> bool:
        wrote = install()
        path.write_text(LIST)
        return wrote

    watcher = Watcher(node.installer, lambda _: None, lambda _: False, clock)
    monkeypatch.setattr(node.installer, "install", overtaken)
    watcher.look()
    monkeypatch.undo()
    clock.now += 5
    assert watcher.look()
    assert node.types("10-a.conflist")[-1] == "meshnet-cni"


def test_it_looks_until_it_is_told_to_stop_and_pauses_in_between(node: Node) -> None:
    node.put("10-a.conflist", LIST)
    pauses: list[float] = []

    def wait(seconds: float) -> bool:
        pauses.append(seconds)
        return len(pauses) < 3

    Watcher(node.installer, node.said.append, wait).run()
    assert pauses == [1.0] * 3


def test_what_is_in_place_is_not_read_again(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    node.put("10-a.conflist", LIST)
    watcher = Watcher(node.installer, node.said.append, lambda _: False, Clock())
    for _ in range(3):
        assert watcher.look()
    monkeypatch.setattr(node.installer, "install", lambda: pytest.fail("nothing has changed"))
    assert watcher.look()


def test_another_reason_to_wait_is_said_and_the_same_one_is_not(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    reasons = iter(["a", "a", "b", "a"])

    def refuse() -> bool:
        raise NotReady(next(reasons))

    monkeypatch.setattr(node.installer, "install", refuse)
    watcher = Watcher(node.installer, said.append, lambda _: False, Clock())
    for _ in range(4):
        assert not watcher.look()
    assert said == ["waiting: a", "waiting: b", "waiting: a"]


def test_a_refusal_of_the_node_is_waited_for_as_well(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    node.put("10-a.conflist", LIST)
    watcher = Watcher(node.installer, node.said.append, lambda _: False, Clock())

    def refuse() -> bool:
        raise ToolError("no space left")

    monkeypatch.setattr(node.installer, "install", refuse)
    assert not watcher.look()
    monkeypatch.undo()
    assert watcher.look()
    assert node.types("10-a.conflist")[-1] == "meshnet-cni"
