"""podman on a node of its own: a mount and a network namespace that end with the test, so that no bridge, rule or
name of it comes to the host."""

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

CONTAINERS = """\
[containers]
# The defaults are higher than what a container of CI may have itself.
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
apparmor_profile = ""
[engine]
# crun refuses the mixed cgroups of some machines.
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "none"
lock_type = "file"
static_dir = "{folder}/static"
tmp_dir = "{folder}/tmp"
volume_path = "{folder}/volumes"
[network]
network_backend = "cni"
network_config_dir = "{folder}/net.d"
cni_plugin_dirs = ["{neighbours}", "{folder}/bin"]
"""
STORAGE = """\
[storage]
driver = "vfs"
runroot = "{folder}/runroot"
graphroot = "{folder}/graph"
"""


class Podman:
    """A context manager. ``plugin`` is what lies in the plugins' folder under our name; else it is the source tree."""

    def __init__(self, folder: Path, plugin: Path | None = None) -> None:
        self.folder = folder
        for name in ("net.d", "bin", "root/bin", "root/tmp", "root/proc", "root/sys", "root/dev", "root/etc"):
            (folder / name).mkdir(parents=True)
        (folder / "containers.conf").write_text(CONTAINERS.format(folder=folder, neighbours=NEIGHBOURS))
        (folder / "storage.conf").write_text(STORAGE.format(folder=folder))
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

    def __enter__(self) -> Podman:
        argv = ("unshare", "--mount", "--net", "--propagation", "private", "sh", "-c")
        script = "mount -t tmpfs none /run/netns 2>/dev/null; ip link set lo up; echo up; exec sleep 600"
        self._node = subprocess.Popen((*argv, script), stdout=subprocess.PIPE)
        assert self._node.stdout is not None
        assert self._node.stdout.readline() == b"up\n"
        archive = self.folder / "root.tar"
        subprocess.run(("tar", "-C", self.folder / "root", "-cf", archive, "."), check=True)
        self("import", str(archive), "busybox")
        return self

    def __exit__(self, *_: object) -> None:
        self("rm", "--force", "--all", "--time", "0")
        self._node.kill()
        self._node.wait()
        assert self._node.stdout is not None
        self._node.stdout.close()

    def __call__(self, *words: str) -> str:
        return self.on_node("podman", *words)

    def on_node(self, *argv: str) -> str:
        more = {f"CONTAINERS_{key}": f"{self.folder}/{name}" for key, name in CONFIGURATION.items()}
        done = subprocess.run(
            ("nsenter", f"--target={self._node.pid}", "--mount", "--net", *argv),
            capture_output=True,
            text=True,
            env={**os.environ, **more, "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"},
            timeout=LIMIT,
            check=False,
        )
        assert done.returncode == 0, f"{' '.join(argv)}: {done.stdout}{done.stderr}"
        return done.stdout

    def say(self, address: str, port: int, text: str) -> str:
        """Call a container from the node, say something, and return what comes back."""
        script = (
            "import socket, sys; s = socket.create_connection((sys.argv[1], int(sys.argv[2])), 5); "
            "s.sendall(sys.argv[3].encode()); s.shutdown(1); print(s.recv(99).decode(), end='')"
        )
        return self.on_node(sys.executable, "-I", "-c", script, address, str(port), text)


CONFIGURATION = {"CONF": "containers.conf", "STORAGE_CONF": "storage.conf"}
