"""A pod with a user namespace of its own (hostUsers: false): its rules' owner matches count in its own numbers."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from meshnet.kernel.netns import open_namespace, where
from tests.cni.runner import Refused, call
from tests.netns.snapshot import run, snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Made = Callable[..., dict[str, Any]]

LEGACY = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}


def pod_of(count: int) -> Iterator[str]:
    """A process in a user and a network namespace of its own, with the inner ids from 0 up to ``count``."""
    argv = ("unshare", "--user", "--net", "sh", "-c", "echo made && exec sleep 300")
    child = subprocess.Popen(argv, stdout=subprocess.PIPE, bufsize=0)
    assert child.stdout is not None
    try:
        assert child.stdout.readline() == b"made\n"
        for kind in ("uid", "gid"):
            Path(f"/proc/{child.pid}/{kind}_map").write_text(f"0 200000 {count}")
        path = f"/proc/{child.pid}/ns/net"
        with open_namespace(where(path)) as namespace:
            run(namespace, "ip", "link", "set", "lo", "up")
        yield path
    finally:
        child.kill()
        child.wait()
        child.stdout.close()


@pytest.fixture
def pod_path() -> Iterator[str]:
    yield from pod_of(65536)


@pytest.fixture
def narrow_pod_path() -> Iterator[str]:
    yield from pod_of(1000)


def test_its_rules_are_written_checked_and_taken_away(config: Made, pod_path: str) -> None:
    settings = config(interception={"dns": {"capture": "all"}})
    with open_namespace(where(pod_path)) as namespace:
        before = snapshot(namespace)
        call("ADD", "meshnet-cni", settings, "one", pod_path)
        call("CHECK", "meshnet-cni", settings, "one", pod_path)
        call("ADD", "meshnet-cni", settings, "one", pod_path)
        seen = seen_inside(pod_path)
        assert "--uid-owner 1337" in seen
        assert "MESHNET_INBOUND" in seen
        call("DEL", "meshnet-cni", settings, "one", pod_path)
        assert snapshot(namespace) == before


def test_an_id_that_its_map_has_not_is_refused_in_words(config: Made, narrow_pod_path: str) -> None:
    with open_namespace(where(narrow_pod_path)) as namespace:
        before = snapshot(namespace)
        with pytest.raises(Refused) as refused:
            call("ADD", "meshnet-cni", config(), "one", narrow_pod_path)
        assert refused.value.code == 100
        assert "user namespace" in refused.value.answer["msg"]
        assert "1337" in refused.value.answer["details"]
        assert snapshot(namespace) == before


def seen_inside(path: str) -> str:
    pid = path.split("/")[2]
    argv = ("nsenter", "--user", "--net", "--setuid=0", "--setgid=0", f"--target={pid}", "iptables-nft-save")
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=30, env=LEGACY)
    assert done.returncode == 0, done.stderr
    return done.stdout
