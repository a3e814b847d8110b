"""Another real client: containerd's CNI library, by ``ctr``, which calls DEL when the namespace is gone already."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tests.cni.machine import OUTSIDE, Machine, chain

if TYPE_CHECKING:
    from pathlib import Path

CONFIGURATION = """\
version = 2
root = "{folder}/root-of-containerd"
state = "{folder}/state-of-containerd"
disabled_plugins = ["io.containerd.grpc.v1.cri"]
[grpc]
  address = "{folder}/socket"
"""


def test_a_container_s_traffic_is_captured(tmp_path: Path, kept: dict[str, str]) -> None:
    folder = tmp_path / "containerd"
    machine = Machine(folder)
    machine.network("mesh", chain("bridge", tmp_path, kept))
    (folder / "config.toml").write_text(CONFIGURATION.format(folder=folder))
    with machine:
        # ctr looks in the usual places alone.
        for source, over, target in (("net.d", "/etc/cni", "/etc/cni/net.d"), ("bin", "/opt", "/opt/cni/bin")):
            machine.run("sh", "-c", f"mount -t tmpfs none {over} && mkdir -p {target}")
            machine.run("mount", "--bind", f"{folder}/{source}", target)
        daemon = machine.start("containerd", "--config", f"{folder}/config.toml", log=folder / "daemon.log")
        try:
            wait = f"until ctr -a {folder}/socket version >/dev/null 2>&1; do sleep 0.1; done"
            machine.run("timeout", "30", "sh", "-c", wait)
            listening = "((echo captured; sleep 2) | nc -l -p 15001 > /tmp/said) & sleep 1"
            calling = f"echo from-inside | nc -w 3 {OUTSIDE} 80; wait; cat /tmp/said"
            argv = ("ctr", "-a", f"{folder}/socket", "run", "--rm", "--cni", "--runc-binary", "runc")
            more = (
                "--env",
                "PATH=/bin",
                "--rootfs",
                f"{folder}/root",
                "one",
                "/bin/sh",
                "-c",
                f"{listening}; {calling}",
            )
            assert machine.run(*argv, *more) == "captured\nfrom-inside\n"
        finally:
            daemon.terminate()
            daemon.wait(timeout=30)
    said = (tmp_path / "log").read_text()
    assert "ADD mesh: default-one: intercepted" in said
    deadline = time.monotonic() + 5
    while list((tmp_path / "state" / "mesh").iterdir()):
        assert time.monotonic() < deadline
