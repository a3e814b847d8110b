"""A pod with a user namespace of its own (hostUsers: false): its rules' owner matches count in its own numbers."""

from __future__ import annotations

import subprocess
import sys
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


# As runtimes do it: the map first, so that what the network namespace makes in /proc belongs to the inner root.
SCRIPT = """
import ctypes, os
call = ctypes.CDLL(None, use_errno=True)
assert call.unshare(0x10000000) == 0
os.write(1, b"made\\n")
assert os.read(0, 9) == b"mapped\\n"
os.setgid(0); os.setuid(0)
assert call.unshare(0x40000000) == 0
os.write(1, b"up\\n")
os.execvp("sleep", ["sleep", "300"])
"""


def pod_of(mapped: str) -> Iterator[str]:
    """A process in a user and a network namespace of its own, with this map of ids."""
    argv = (sys.executable, "-I", "-S", "-c", SCRIPT)
    child = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
    assert child.stdin is not None and child.stdout is not None
    try:
        assert child.stdout.readline() == b"made\n"
        for kind in ("uid", "gid"):
            Path(f"/proc/{child.pid}/{kind}_map").write_text(mapped)
        child.stdin.write(b"mapped\n")
        assert child.stdout.readline() == b"up\n"
        path = f"/proc/{child.pid}/ns/net"
        with open_namespace(where(path)) as namespace:
            run(namespace, "ip", "link", "set", "lo", "up")
        yield path
    finally:
        child.kill()
        child.wait()
        child.stdin.close()
        child.stdout.close()


@pytest.fixture
def pod_path() -> Iterator[str]:
    yield from pod_of("0 200000 65536")


@pytest.fixture
def narrow_pod_path() -> Iterator[str]:
    yield from pod_of("0 200000 1000")


@pytest.fixture
def rootless_pod_path() -> Iterator[str]:
    """As podman maps for an ordinary user: its own id is the inner root."""
    yield from pod_of("0 200000 1\n1 300000 65536")


@pytest.mark.parametrize("variant", ["nft", "legacy"])
def test_its_rules_are_written_checked_and_taken_away(config: Made, pod_path: str, variant: str) -> None:
    """The legacy tools want a lock file besides, which the inner root could not open where the node has its own."""
    settings = config(interception={"dns": {"capture": "all"}})
    with open_namespace(where(pod_path)) as namespace:
        if variant == "legacy":
            for tool in ("iptables-legacy", "ip6tables-legacy"):
                for table in ("nat", "mangle", "raw"):
                    run(namespace, tool, "-t", table, "-A", "OUTPUT", "-p", "tcp", "--dport", "9", "-j", "ACCEPT")
        before = snapshot(namespace)
        call("ADD", "meshnet-cni", settings, "one", pod_path)
        call("CHECK", "meshnet-cni", settings, "one", pod_path)
        call("ADD", "meshnet-cni", settings, "one", pod_path)
        seen = seen_inside(pod_path, variant)
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


def test_a_range_of_ids_over_two_parts_of_the_map(config: Made, rootless_pod_path: str) -> None:
    settings = config(interception={"outbound": {"excludeUsers": [{"uids": ["0-50", 60]}]}})
    call("ADD", "meshnet-cni", settings, "one", rootless_pod_path)
    call("CHECK", "meshnet-cni", settings, "one", rootless_pod_path)
    assert "--uid-owner 0-50" in seen_inside(rootless_pod_path, "nft")
    call("DEL", "meshnet-cni", settings, "one", rootless_pod_path)


def seen_inside(path: str, variant: str) -> str:
    pid = path.split("/")[2]
    argv = ("nsenter", "--user", "--net", "--setuid=0", "--setgid=0", f"--target={pid}", f"iptables-{variant}-save")
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=30, env=LEGACY)
    assert done.returncode == 0, done.stderr
    return done.stdout
