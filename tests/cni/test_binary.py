"""The packed plugin on a node that has libc, the iptables tools and ``ip``, and nothing else: no shell, no Python."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from meshnet.kernel.netns import open_namespace, where
from tests.cni.api import TOKEN, FakeApi, certified, injected
from tests.cni.conftest import path_of
from tests.cni.runner import outcome
from tests.cni.test_user_namespace import pod_of
from tests.netns.snapshot import run, snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from meshnet.kernel.netns import Namespace

    Made = Callable[..., dict[str, Any]]

ROOT = Path(__file__).resolve().parents[2]
TOOLS = ("/usr/sbin/xtables-nft-multi", "/usr/sbin/xtables-legacy-multi", "/usr/bin/ip")
NAMES = ("iptables", "ip6tables")
LIBRARY = re.compile(r"(/\S+) \(0x")


@pytest.fixture(scope="session")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What ``make cni-binary`` makes, built once and put elsewhere: nothing in it may know where it was made."""
    folder = tmp_path_factory.getbasetemp().parent / f"packed-{os.getpid()}"
    if not folder.exists():
        target = str(folder / "meshnet-cni")
        subprocess.run((sys.executable, ROOT / "scripts/pack/cni_binary.py", target), check=True, capture_output=True)
    return folder / "meshnet-cni"


@pytest.fixture
def bare_node(tmp_path: Path, packed: Path) -> Iterator[Path]:
    """A root with the tools and what ``ldd`` says of them, /proc and /sys, and the packed folder at /opt/cni."""
    root = tmp_path / "root"
    for tool in (Path(name) for name in TOOLS):
        put(root, tool)
        for library in LIBRARY.findall(
            subprocess.run(("ldd", tool), capture_output=True, text=True, check=True).stdout
        ):
            put(root, Path(library))
    for name in NAMES:
        for variant in ("nft", "legacy"):
            for verb in ("", "-save", "-restore"):
                (root / f"usr/sbin/{name}-{variant}{verb}").symlink_to(f"xtables-{variant}-multi")
    extensions = next(Path("/usr/lib").glob("*/xtables"))
    shutil.copytree(extensions, root / str(extensions)[1:])
    for name in ("proc", "sys", "run/netns", "tmp", "dev", "etc"):
        (root / name).mkdir(parents=True, exist_ok=True)
    shutil.copytree(packed, root / "opt/cni/meshnet-cni", symlinks=True)
    assert not (root / "bin/sh").exists()
    mounts = (("/proc", "proc"), ("/run/netns", "run/netns"))
    done = []
    try:
        for source, target in mounts:
            subprocess.run(("mount", "--rbind", "--make-rslave", source, root / target), check=True)
            done.append(root / target)
        yield root
    finally:
        for target in reversed(done):
            subprocess.run(("umount", "--lazy", target), check=True)


def put(root: Path, path: Path) -> None:
    target = root / str(path)[1:]
    target.parent.mkdir(parents=True, exist_ok=True)
    if not target.exists():
        shutil.copy(path.resolve(), target)


def call(root: Path, verb: str, config: object, netns: str = "", arguments: str = "") -> dict[str, Any]:
    environment = {"CNI_COMMAND": verb, "CNI_CONTAINERID": "one", "CNI_IFNAME": "eth0", "CNI_NETNS": netns}
    environment |= {"CNI_ARGS": arguments, "PATH": "/usr/sbin:/usr/bin"}
    done = in_root(root, ("/opt/cni/meshnet-cni/meshnet-cni",), environment, json.dumps(config).encode())
    return outcome("meshnet-cni", done)


def in_root(
    root: Path, argv: tuple[str, ...], environment: dict[str, str], text: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    chroot = shutil.which("chroot", path="/usr/sbin:/usr/bin")
    assert chroot
    around = (chroot, str(root), *argv)
    return subprocess.run(around, input=text, capture_output=True, env=environment, timeout=60, check=False)


def here(config: Made, **more: Any) -> dict[str, Any]:
    return config(stateDir="/run/meshnet-cni", logFile="/run/log", **more)


def test_every_verb_on_a_bare_node(bare_node: Path, config: Made, pod: Namespace) -> None:
    before = snapshot(pod)
    settings, where_ = here(config), path_of(pod)
    assert call(bare_node, "VERSION", {})["supportedVersions"]
    assert call(bare_node, "STATUS", settings) == {}
    assert call(bare_node, "ADD", settings, where_)["ips"]
    assert "MESHNET_INBOUND" in run(pod, "iptables-nft-save")
    assert call(bare_node, "CHECK", settings, where_) == {}
    assert call(bare_node, "GC", settings | {"cni.dev/valid-attachments": []}) == {}
    assert snapshot(pod) == before
    call(bare_node, "ADD", settings, where_)
    assert call(bare_node, "DEL", settings, where_) == {}
    assert snapshot(pod) == before


def test_it_asks_the_api_and_reads_yaml(bare_node: Path, config: Made, pod: Namespace) -> None:
    api = FakeApi()
    try:
        api.put(injected())
        api.kubeconfig(bare_node / "etc")
        text = json.loads((bare_node / "etc/kubeconfig").read_text())
        text["users"][0]["user"]["tokenFile"] = "/etc/token"
        (bare_node / "etc/kubeconfig").write_text("# YAML\n" + json.dumps(text))
        settings = here(config, kubernetes={"kubeconfig": "/etc/kubeconfig"})
        call(bare_node, "ADD", settings, path_of(pod), "K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web")
    finally:
        api.close()
    assert "ISTIO_OUTPUT" in run(pod, "iptables-nft-save")


def test_it_speaks_tls(bare_node: Path, config: Made, pod: Namespace, tmp_path: Path) -> None:
    api = FakeApi()
    try:
        api.put(injected())
        key, certificate = certified(tmp_path)
        api.kubeconfig(bare_node / "etc")
        data = json.loads((bare_node / "etc/kubeconfig").read_text())
        authority = base64.b64encode(certificate.read_bytes()).decode()
        data["clusters"][0]["cluster"] = {
            "server": api.over_tls(key, certificate),
            "certificate-authority-data": authority,
        }
        data["users"][0]["user"] = {"token": TOKEN}
        (bare_node / "etc/kubeconfig").write_text(json.dumps(data))
        settings = here(config, kubernetes={"kubeconfig": "/etc/kubeconfig"})
        call(bare_node, "ADD", settings, path_of(pod), "K8S_POD_NAMESPACE=shop;K8S_POD_NAME=web")
    finally:
        api.close()
    assert "ISTIO_OUTPUT" in run(pod, "iptables-nft-save")


def test_a_user_namespace_of_the_pod_s_own(bare_node: Path, config: Made) -> None:
    for path in pod_of("0 200000 65536"):
        with open_namespace(where(path)) as namespace:
            before = snapshot(namespace)
            call(bare_node, "ADD", here(config), path)
            assert snapshot(namespace) != before
            call(bare_node, "CHECK", here(config), path)
            call(bare_node, "DEL", here(config), path)
            assert snapshot(namespace) == before


def test_meshnet_init_is_in_it_too(bare_node: Path, pod: Namespace) -> None:
    program = "/opt/cni/meshnet-cni/meshnet-init"
    words = ("--network-namespace", pod.where.text, "-p", "15001", "-z", "15006", "-m", "REDIRECT", "-b", "*")
    done = in_root(bare_node, (program, *words), {"PATH": "/usr/sbin:/usr/bin"})
    assert (done.returncode, b"applied" in done.stdout) == (0, True), done.stderr
    assert "ISTIO_INBOUND" in run(pod, "iptables-nft-save")
    spec = in_root(bare_node, (program, *words, "--print-spec"), {})
    assert b"kind: Interception" in spec.stdout, spec.stderr


def test_errors_have_their_form_there_too(bare_node: Path) -> None:
    done = in_root(bare_node, ("/opt/cni/meshnet-cni/meshnet-cni",), {"CNI_COMMAND": "ADD"}, b"{")
    assert json.loads(done.stdout)["code"] == 4
    environment = {"CNI_COMMAND": "STATUS"}
    done = in_root(bare_node, ("/opt/cni/meshnet-cni/meshnet-cni",), environment, b"{")
    said = json.loads(done.stdout)
    assert (said["code"], "line 1" in said["msg"]) == (6, True), said


def test_nothing_in_it_names_the_folder_it_was_made_in(packed: Path) -> None:
    for path in packed.rglob("*.pyc"):
        assert str(ROOT).encode() not in path.read_bytes(), path
