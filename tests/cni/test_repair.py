"""Running pods that the plugin missed: found by their processes, and what each policy does about them."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from meshnet.cni.repair import LABEL
from tests.cni.api import FakeApi, injected
from tests.cni.conftest import path_of
from tests.cni.runner import call
from tests.netns.commands import meshnet
from tests.netns.snapshot import snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from meshnet.kernel.netns import Namespace
    from tests.netns.pods import Scratch

LINE = re.compile(r'^[a-z_]+(\{[a-z]+="[^"\n]*"(,[a-z]+="[^"\n]*")*\})? [0-9]+$')


@pytest.fixture
def api() -> Iterator[FakeApi]:
    made = FakeApi()
    yield made
    made.close()


@pytest.fixture
def networks(api: FakeApi, tmp_path: Path, kept: dict[str, str]) -> Path:
    """A node's folder with our entry in its primary network."""
    folder = tmp_path / "net.d"
    folder.mkdir()
    entry = {"type": "meshnet-cni", "kubernetes": {"kubeconfig": api.kubeconfig(tmp_path)}, **kept}
    network = {"cniVersion": "1.0.0", "name": "net", "plugins": [{"type": "bridge"}, entry]}
    (folder / "10-net.conflist").write_text(json.dumps(network))
    return folder


@pytest.fixture
def running(scratch: Scratch) -> Iterator[Callable[[str], Namespace]]:
    """Starts a process in a namespace and in a control group that is named for a pod's uid, as kubelet's are."""
    made: list[tuple[subprocess.Popen[bytes], Path]] = []
    root = next(path for path in (Path("/sys/fs/cgroup/pids"), Path("/sys/fs/cgroup")) if path.is_dir())

    def start(uid: str) -> Namespace:
        namespace = scratch()
        group = root / f"{namespace.where.text}-pod{uid}"
        group.mkdir()
        with namespace.entered():
            child = subprocess.Popen(("sleep", "300"))
        (group / "cgroup.procs").write_text(str(child.pid))
        made.append((child, group))
        return namespace

    yield start
    for child, group in made:
        child.kill()
        child.wait()
        group.rmdir()


def repaired(networks: Path, policy: str, code: int, *more: str) -> dict[str, str]:
    """The state of each pod, as the metrics say it."""
    words = ("cni", "repair", "--node", "here", "--policy", policy, "--networks", str(networks), *more)
    answer = meshnet(*words)
    assert answer.code == code, answer.err
    lines = [line for line in answer.out.splitlines() if not line.startswith("#")]
    assert all(LINE.match(line) for line in lines), answer.out
    return dict(re.findall(r'pod="([^"]+)",state="([^"]+)"', answer.out))


def test_each_policy_does_what_it_says(
    api: FakeApi, networks: Path, running: Callable[[str], Namespace], config: Callable[..., Any]
) -> None:
    for name in ("missed", "fine", "foreign", "gone"):
        api.put(injected(name))
    api.pods["shop/foreign"]["metadata"]["annotations"] = {}
    done = injected("done")
    done["status"]["phase"] = "Succeeded"
    api.put(done)
    missed, fine = running("uid-missed"), running("uid-fine")
    entry = json.loads((networks / "10-net.conflist").read_text())["plugins"][-1]
    settings = {**config(), **entry}
    del settings["interception"]
    arguments = "K8S_POD_NAMESPACE=shop;K8S_POD_NAME=fine;K8S_POD_UID=uid-fine"
    call("ADD", "meshnet-cni", settings, "fine", path_of(fine), arguments=arguments)
    before = snapshot(missed), snapshot(fine)
    assert repaired(networks, "report", 1) == {"fine": "captured", "gone": "unknown", "missed": "drifted"}
    assert (snapshot(missed), snapshot(fine)) == before
    assert repaired(networks, "label", 1)["missed"] == "labelled"
    assert api.pods["shop/missed"]["metadata"]["labels"] == {LABEL: "true"}
    del api.pods["shop/gone"]
    assert repaired(networks, "apply", 0) == {"fine": "captured", "missed": "repaired"}
    assert snapshot(missed) == snapshot(fine) == before[1]
    assert repaired(networks, "report", 0) == {"fine": "captured", "missed": "captured"}


def test_deleting_is_of_that_very_pod(api: FakeApi, networks: Path, running: Callable[[str], Namespace]) -> None:
    api.put(injected("missed"))
    running("uid-missed")
    assert repaired(networks, "delete", 1) == {"missed": "deleted"}
    assert [item["preconditions"]["uid"] for item in api.deleted] == ["uid-missed"]
    assert repaired(networks, "delete", 0) == {}


def test_metrics_go_to_a_file_in_one_go(api: FakeApi, networks: Path, tmp_path: Path) -> None:
    target = tmp_path / "meshnet.prom"
    assert repaired(networks, "report", 0, "--metrics-file", str(target)) == {}
    assert 'meshnet_cni_pods{node="here",state="drifted"} 0' in target.read_text()
