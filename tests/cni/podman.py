"""podman on a node of its own, with its CNI backend."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.cni.machine import Machine

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
cni_plugin_dirs = ["{folder}/bin"]
"""
STORAGE = """\
[storage]
driver = "vfs"
runroot = "{folder}/runroot"
graphroot = "{folder}/graph"
"""


class Podman(Machine):
    """Call it with podman's words. The image is named busybox."""

    def __init__(self, folder: Path, plugin: Path | None = None) -> None:
        files = {"CONTAINERS_CONF": "containers.conf", "CONTAINERS_STORAGE_CONF": "storage.conf"}
        super().__init__(folder, plugin, {key: f"{folder}/{name}" for key, name in files.items()})
        (folder / "containers.conf").write_text(CONTAINERS.format(folder=folder))
        (folder / "storage.conf").write_text(STORAGE.format(folder=folder))

    def __enter__(self) -> Podman:
        super().__enter__()
        archive = self.folder / "root.tar"
        subprocess.run(("tar", "-C", self.folder / "root", "-cf", archive, "."), check=True)
        self("import", str(archive), "busybox")
        return self

    def __exit__(self, *about: object) -> None:
        self("rm", "--force", "--all", "--time", "0")
        super().__exit__(*about)

    def __call__(self, *words: str) -> str:
        return self.run("podman", *words)
