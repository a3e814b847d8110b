"""A real client: podman makes a container over a chain that ends with our plugin, and its traffic is captured."""

from __future__ import annotations

from pathlib import Path

import pytest

from meshnet.kernel.netns import open_namespace, where
from tests.cni.machine import OUTSIDE, chain
from tests.cni.podman import Podman
from tests.cni.test_binary import packed
from tests.netns.snapshot import run

__all__ = ["packed"]


@pytest.mark.parametrize("first", ["bridge", "ptp"])
def test_a_container_s_traffic_is_captured(tmp_path: Path, kept: dict[str, str], first: str) -> None:
    podman = Podman(tmp_path / "podman")
    podman.network("mesh", chain(first, tmp_path, kept))
    with podman:
        assert podman("info", "--format", "{{.Host.NetworkBackend}}").strip() == "cni"
        podman(
            "run", "--detach", "--name", "one", "--network", "mesh", "--publish", "8080:80", "busybox", "sleep", "99"
        )
        address = podman("inspect", "one", "--format", "{{.NetworkSettings.Networks.mesh.IPAddress}}").strip()
        assert address.startswith("10.99.0.")

        def listen(port: int, says: str) -> None:
            # The sleep keeps the answer's end back: a caller that sees it may leave before it has said anything.
            script = f"(echo {says}; sleep 2) | nc -l -p {port} > /tmp/{says}"
            podman("exec", "--detach", "--user", "1337:1337", "one", "sh", "-c", script)
            waiting = f"until grep -qi :{port:04x} /proc/net/tcp /proc/net/tcp6; do sleep 0.1; done"
            podman("exec", "one", "sh", "-c", waiting)

        podman("exec", "one", "chmod", "777", "/tmp")
        listen(15001, "outbound")
        assert podman("exec", "one", "sh", "-c", f"echo from-inside | nc -w 3 {OUTSIDE} 80") == "outbound\n"
        assert podman("exec", "one", "cat", "/tmp/outbound") == "from-inside\n"
        listen(15006, "inbound")
        assert podman.say(address, 4711, "from-outside\n") == "inbound\n"
        assert podman("exec", "one", "cat", "/tmp/inbound") == "from-outside\n"
        podman("rm", "--force", "--time", "0", "one")
    said = (tmp_path / "log").read_text()
    assert "ADD mesh" in said and "intercepted: every pod" in said
    assert "DEL mesh" in said and "taken back" in said
    assert not list((tmp_path / "state" / "mesh").iterdir())


def test_it_runs_the_packed_plugin(packed: Path, tmp_path: Path, kept: dict[str, str]) -> None:
    podman = Podman(tmp_path / "podman", packed / "meshnet-cni")
    podman.network("mesh", chain("bridge", tmp_path, kept))
    with podman:
        podman("run", "--detach", "--name", "one", "--network", "mesh", "busybox", "sleep", "99")
        pid = podman("inspect", "one", "--format", "{{.State.Pid}}").strip()
        with open_namespace(where(pid=pid)) as namespace:
            assert "MESHNET_OUT" in run(namespace, "iptables-nft-save")
        podman("rm", "--force", "--time", "0", "one")
    assert "DEL mesh" in (tmp_path / "log").read_text()
