"""A node and pods as namespaces, with names of the tests' own; what the plugin keeps goes to the test's folder."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from meshnet.kernel import netns
from tests.scratch import require
from tests.scratch import scratch as scratch

if TYPE_CHECKING:
    from collections.abc import Callable

    from meshnet.kernel.netns import Namespace
    from tests.netns.pods import Scratch


TOOLS = (
    "podman",
    "runc",
    "conmon",
    "iptables-nft-restore",
    "iptables-legacy-restore",
    "ip",
    "unshare",
    "nsenter",
    "gcc",
)
NEIGHBOURS = ("bridge", "ptp", "portmap", "tuning", "firewall", "host-local")


def podman_speaks_cni() -> bool:
    """podman 5 has no CNI any more (Debian 13's); there containerd is the real client, in ``test_containerd``."""
    done = subprocess.run(("podman", "--version"), capture_output=True, text=True, check=False)
    return done.returncode == 0 and int(done.stdout.split()[-1].partition(".")[0]) < 5


collect_ignore = [] if shutil.which("podman") is None or podman_speaks_cni() else ["test_podman.py"]


@pytest.fixture(scope="session", autouse=True)
def _host_can_do_it() -> None:
    require(TOOLS, *(name for name in NEIGHBOURS if not Path("/usr/lib/cni", name).exists()))


@pytest.fixture
def node(scratch: Scratch) -> Namespace:
    return scratch()


@pytest.fixture
def pod(scratch: Scratch) -> Namespace:
    return scratch()


@pytest.fixture
def kept(tmp_path: Path) -> dict[str, str]:
    return {"stateDir": str(tmp_path / "state"), "logFile": str(tmp_path / "log"), "logLevel": "debug"}


@pytest.fixture
def config(kept: dict[str, str]) -> Callable[..., dict[str, Any]]:
    """A configuration of the plugin alone, with a result as if a plugin had been before it."""

    def made(version: str = "1.1.0", **more: Any) -> dict[str, Any]:
        previous = {"cniVersion": version, "ips": [{"address": "10.77.0.2/24"}], "interfaces": []}
        plain = {
            "cniVersion": version,
            "name": "net",
            "type": "meshnet-cni",
            "interception": {},
            "prevResult": previous,
        }
        return plain | kept | more

    return made


def path_of(namespace: Namespace) -> str:
    return f"{netns.FOLDERS[0]}/{namespace.where.text}"
