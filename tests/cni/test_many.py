"""Many pods at once, in any order, with kills in between: afterwards nothing is left and nothing is missing."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from meshnet.kernel.netns import unnamed
from tests.cni.conftest import path_of
from tests.cni.runner import MESHNET_CNI, Refused, call
from tests.netns.snapshot import snapshot

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from meshnet.kernel.netns import Namespace
    from tests.netns.pods import Scratch

    Made = Callable[..., dict[str, Any]]

AT_ONCE = 8


def test_a_hundred_pods_eight_at_a_time(config: Made, scratch: Scratch, tmp_path: Path) -> None:
    pods = [scratch() for _ in range(100)]
    settings = config()

    def add(number: int) -> dict[str, Any]:
        return call("ADD", "meshnet-cni", settings, f"pod-{number}", path_of(pods[number]))

    with ThreadPoolExecutor(AT_ONCE) as pool:
        assert len(list(pool.map(add, range(100)))) == 100
        checks = pool.map(
            lambda number: call("CHECK", "meshnet-cni", settings, f"pod-{number}", path_of(pods[number])), range(100)
        )
        assert list(checks) == [{}] * 100
        dels = pool.map(
            lambda number: call("DEL", "meshnet-cni", settings, f"pod-{number}", path_of(pods[number])), range(100)
        )
        assert list(dels) == [{}] * 100
    assert not list((tmp_path / "state" / "net").iterdir())


@pytest.mark.parametrize("seed", [6])
def test_two_hundred_pods_in_random_order_with_kills_then_gc(
    config: Made, scratch: Scratch, tmp_path: Path, seed: int
) -> None:
    """A runtime that is killed with its plugins, comes back, asks for GC, and goes on."""
    chance = random.Random(seed)
    settings = config()
    pods = {f"pod-{number}": scratch() for number in range(200)}
    empty = snapshot(next(iter(pods.values())))
    works = [("ADD", name) for name in pods] + [("DEL", name) for name in pods if chance.random() < 0.5]
    chance.shuffle(works)
    alive: set[str] = set()

    def work(item: tuple[str, str, float]) -> tuple[str, str, bool]:
        verb, name, until_kill = item
        return verb, name, one(verb, settings, name, pods[name], until_kill)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        for start in range(0, len(works), AT_ONCE):
            batch = works[start : start + AT_ONCE]
            names = [name for _, name in batch]
            batch = [item for place, item in enumerate(batch) if item[1] not in names[:place]]
            kills = [chance.uniform(0.005, 0.12) if chance.random() < 0.3 else 0.0 for _ in batch]
            asked = [(verb, name, kill) for (verb, name), kill in zip(batch, kills, strict=True)]
            for verb, name, whole in pool.map(work, asked):
                if verb == "ADD" and whole:
                    alive.add(name)
                elif verb == "DEL":
                    alive.discard(name)  # the runtime has dropped it, whether its plugin came to an end or not
    assert 50 < len(alive) < 200
    listed = [{"containerID": name, "ifname": "eth0"} for name in alive]
    deadline = time.monotonic() + 15
    while True:  # a restore that a killed plugin had started holds its namespace until it ends
        try:
            call("GC", "meshnet-cni", settings | {"cni.dev/valid-attachments": listed})
            break
        except Refused as refused:
            assert time.monotonic() < deadline, refused
    for name, namespace in pods.items():
        if name in alive:
            call("CHECK", "meshnet-cni", settings, name, path_of(namespace))
        else:
            assert snapshot(namespace) == empty, name
    kept = {path.name.partition("@")[0].rpartition(".")[2] for path in (tmp_path / "state").rglob("*@*")}
    assert kept == alive


def one(verb: str, settings: dict[str, Any], name: str, pod: Namespace, until_kill: float) -> bool:
    """Whether the plugin came to its end; ``until_kill`` in seconds, 0 for never."""
    if not until_kill:
        call(verb, "meshnet-cni", settings, name, path_of(pod))
        return True
    environment = {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "CNI_COMMAND": verb,
        "CNI_CONTAINERID": name,
        "CNI_NETNS": path_of(pod),
        "CNI_IFNAME": "eth0",
    }
    streams = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(MESHNET_CNI, env=environment, **streams) as child:  # type: ignore[call-overload]
        assert child.stdin is not None
        child.stdin.write(json.dumps(settings).encode())
        child.stdin.close()
        time.sleep(until_kill)
        child.send_signal(signal.SIGKILL)
        return bool(child.wait(timeout=30) == 0)


def test_a_namespace_that_ends_meanwhile_is_no_failure_of_del(config: Made) -> None:
    with unnamed() as namespace:
        path = f"/proc/self/fd/{namespace.fd}"
        assert call("DEL", "meshnet-cni", config(), "one", path.replace("self", "999999998")) == {}
