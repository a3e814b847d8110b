"""A node for a real runtime: a mount and a network namespace that end with the test, so that no bridge, rule or name
of it comes to the host; with the plugins in a folder, and a root of busybox for containers."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.cni.runner import MESHNET_CNI, NEIGHBOURS

BUSYBOX = Path("/bin/busybox")
APPLETS = ("sh", "nc", "sleep", "cat", "grep", "chmod")
LIMIT = 120

OUTSIDE = "203.0.113.9"
BODY = {"inbound": {"mode": "redirect"}, "sidecar": {"uids": [1337], "gids": [1337]}}
MAKERS = {
    "bridge": {"type": "bridge", "bridge": "cni-mesh0", "isGateway": True, "ipMasq": True},
    "ptp": {"type": "ptp"},
}


def chain(first: str, folder: Path, kept: dict[str, str]) -> dict[str, Any]:
    ipam = {"type": "host-local", "ranges": [[{"subnet": "10.99.0.0/24"}]], "dataDir": str(folder / "ipam")}
    maker = {**MAKERS[first], "ipam": {**ipam, "routes": [{"dst": "0.0.0.0/0"}]}}
    plugins = [maker, {"type": "portmap", "capabilities": {"portMappings": True}}]
    return {
        "cniVersion": "1.0.0",
        "name": "mesh",
        "plugins": [*plugins, {"type": "meshnet-cni", "interception": BODY, **kept}],
    }


class Machine:
    """A context manager. ``plugin`` is what lies in the plugins' folder under our name; else it is the source tree."""

    def __init__(self, folder: Path, plugin: Path | None = None, env: dict[str, str] | None = None) -> None:
        self.folder = folder
        self.environment = {**os.environ, **(env or {}), "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"}
        for name in ("net.d", "bin", "root/bin", "root/tmp", "root/proc", "root/sys", "root/dev", "root/etc"):
            (folder / name).mkdir(parents=True)
        for neighbour in NEIGHBOURS.iterdir():
            (folder / "bin" / neighbour.name).symlink_to(neighbour)
        if plugin is None:
            *words, script, root = MESHNET_CNI
            launcher = folder / "bin" / "meshnet-cni"
            launcher.write_text(f"#!/bin/sh\nexec {' '.join(words)} '{script}' '{root}'\n")
            launcher.chmod(0o755)
        else:
            (folder / "bin" / "meshnet-cni").symlink_to(plugin)
        shutil.copy(BUSYBOX, folder / "root" / "bin" / "busybox")
        for name in APPLETS:
            (folder / "root" / "bin" / name).symlink_to("busybox")

    def network(self, name: str, network: dict[str, Any]) -> None:
        (self.folder / "net.d" / f"10-{name}.conflist").write_text(json.dumps(network))

    def __enter__(self) -> Machine:
        argv = ("unshare", "--mount", "--net", "--propagation", "private", "sh", "-c")
        script = "mount -t tmpfs none /run/netns 2>/dev/null; ip link set lo up; echo up; exec sleep 600"
        self._node = subprocess.Popen((*argv, script), stdout=subprocess.PIPE)
        assert self._node.stdout is not None
        assert self._node.stdout.readline() == b"up\n"
        return self

    def __exit__(self, *_: object) -> None:
        self._node.kill()
        self._node.wait()
        assert self._node.stdout is not None
        self._node.stdout.close()

    def start(self, *argv: str, log: Path) -> subprocess.Popen[bytes]:
        """A program that goes on, with what it says in a file."""
        with open(log, "wb") as file:
            return subprocess.Popen(self._there(argv), stdout=file, stderr=file, env=self.environment)

    def run(self, *argv: str, fails: bool = False) -> str:
        """What a program on the node prints; it has to end well unless it ``fails``."""
        done = subprocess.run(
            self._there(argv), capture_output=True, text=True, env=self.environment, timeout=LIMIT, check=False
        )
        assert (done.returncode != 0) == fails, f"{' '.join(argv)}: {done.stdout}{done.stderr}"
        return done.stdout + (done.stderr if fails else "")

    def say(self, address: str, port: int, text: str) -> str:
        """Call a container from the node, say something, and return what comes back."""
        script = (
            "import socket, sys; s = socket.create_connection((sys.argv[1], int(sys.argv[2])), 5); "
            "s.sendall(sys.argv[3].encode()); s.shutdown(1); print(s.recv(99).decode(), end='')"
        )
        return self.run(sys.executable, "-I", "-c", script, address, str(port), text)

    def _there(self, argv: tuple[str, ...]) -> tuple[str, ...]:
        return ("nsenter", f"--target={self._node.pid}", "--mount", "--net", *argv)
