from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from meshnet.cni import installer as module
from meshnet.cni.conflist import NotReady
from meshnet.cni.installer import ASIDE
from tests import conformance
from tests.unit.cni.nodes import LIST, Node

FOLDER = conformance.FOLDER / "cni-conflist"
PLAIN = '{"cniVersion": "0.4.0", "name": "n", "type": "bridge"}\n'


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


@pytest.mark.conformance
@pytest.mark.parametrize("name", sorted(path.name for path in FOLDER.glob("*")) or ["absent"])
def test_every_file_of_the_field_is_undone_byte_by_byte(node: Node, name: str) -> None:
    shutil.copy(FOLDER / name, node.networks / name)
    before = node.content()
    try:
        assert node.installer.install()
    except NotReady as waiting:
        assert name in str(waiting)
        assert node.content() == before
        return
    assert not node.installer.install()
    assert not node.installer.install()
    written = (node.networks / name).with_suffix(".conflist").name
    assert node.types(written).count("meshnet-cni") == 1
    assert node.types(written)[-1] == "meshnet-cni"
    node.installer.uninstall()
    assert node.content() == before
    node.installer.uninstall()
    assert node.content() == before


def test_the_first_by_name_is_the_primary(node: Node) -> None:
    node.put("20-b.conflist", LIST)
    node.put("10-a.conflist", LIST)
    node.put("05-notes.txt", "no network")
    node.installer.install()
    assert node.types("10-a.conflist")[-1] == "meshnet-cni"
    assert node.types("20-b.conflist") == ["bridge"]


def test_a_broken_primary_is_not_passed_over(node: Node) -> None:
    """The next one by name isn't what the runtime will use as soon as the first one is whole."""
    node.put("10-a.conflist", LIST[:20])
    node.put("20-b.conflist", LIST)
    before = node.content()
    with pytest.raises(NotReady):
        node.installer.install()
    assert node.content() == before


def test_mode_and_owner_are_kept(node: Node) -> None:
    path = node.put("10-a.conflist", LIST)
    path.chmod(0o640)
    if os.geteuid() == 0:
        os.chown(path, 12, 34)
    before = path.stat()
    node.installer.install()
    after = path.stat()
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)
    node.installer.uninstall()
    again = path.stat()
    assert (again.st_mode, again.st_uid, again.st_gid) == (before.st_mode, before.st_uid, before.st_gid)


def test_a_plain_configuration_steps_aside_without_a_gap(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed between the two renames, a runtime still takes the plain file, and the next run goes on."""
    node.put("10-a.conf", PLAIN)
    replace = os.replace

    def killed(source: str, target: str) -> None:
        if target.endswith(ASIDE):
            raise KeyboardInterrupt
        replace(source, target)

    monkeypatch.setattr(module.os, "replace", killed)
    with pytest.raises(KeyboardInterrupt):
        node.installer.install()
    monkeypatch.undo()
    assert sorted(os.listdir(node.networks)) == ["10-a.conf", "10-a.conflist"]
    assert node.installer.primary() == "10-a.conf"
    assert node.installer.install()
    assert sorted(os.listdir(node.networks)) == [f"10-a.conf{ASIDE}", "10-a.conflist"]


def test_a_plain_configuration_that_its_owner_writes_anew(node: Node) -> None:
    node.put("10-a.conf", PLAIN)
    node.installer.install()
    newer = PLAIN.replace("bridge", "ptp")
    node.put("10-a.conf", newer)
    assert node.installer.install()
    assert node.types("10-a.conflist") == ["ptp", "meshnet-cni"]
    node.installer.uninstall()
    assert node.content() == {"etc/cni/net.d/10-a.conf": newer.encode()}


def test_a_list_of_ours_with_somebody_else_s_plugin_stays_a_list(node: Node) -> None:
    node.put("10-a.conf", PLAIN)
    node.installer.install()
    path = node.networks / "10-a.conflist"
    path.write_text(path.read_text().replace('{"type": "meshnet-cni"', '{"type": "other"},\n{"type": "meshnet-cni"'))
    node.installer.uninstall()
    assert sorted(os.listdir(node.networks)) == ["10-a.conflist"]
    assert node.types("10-a.conflist") == ["bridge", "other"]


def test_somebody_else_s_list_is_not_overwritten(node: Node) -> None:
    node.put("10-a.conf", PLAIN)
    node.put("10-a.conflist", LIST)
    before = node.content()
    with pytest.raises(NotReady, match="somebody else's"):
        node.installer.install()
    assert node.content() == before


def test_a_write_that_fails_leaves_the_file(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    node.put("10-a.conflist", LIST)

    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module.os, "fsync", full)
    with pytest.raises(module.ToolError, match="No space"):
        node.installer.install()
    assert (node.networks / "10-a.conflist").read_text() == LIST
    assert node.installer.primary() == "10-a.conflist"


def packed(folder: Path, text: str) -> str:
    path = folder / "packed"
    (path / "lib").mkdir(parents=True, exist_ok=True)
    (path / "meshnet-cni").write_text(text)
    (path / "lib" / "a").write_text("a")
    (path / "link").unlink(missing_ok=True)
    (path / "link").symlink_to("lib/a")
    return str(path)


def test_the_binary_is_there_before_the_entry_and_goes_after_it(tmp_path: Path) -> None:
    node = Node(tmp_path, packed=packed(tmp_path, "one"))
    with pytest.raises(NotReady):
        node.installer.install()
    assert (node.binaries / "meshnet-cni").read_text() == "one"
    node.put("10-a.conflist", LIST)
    before = node.said[:]
    node.installer.install()
    assert [line for line in node.said[len(before) :] if "entry" in line]
    count = len(node.said)
    node.installer.uninstall()
    said = node.said[count:]
    assert "entry" in said[0] and "removed" in said[-1]
    assert os.listdir(node.binaries) == []


def test_a_newer_binary_takes_the_link_and_the_last_one_stays_for_who_runs_it(tmp_path: Path) -> None:
    node = Node(tmp_path, packed=packed(tmp_path, "one"))
    node.put("10-a.conflist", LIST)
    folders = set()
    for text in ("one", "one", "two", "three"):
        packed(tmp_path, text)
        node.installer.install()
        assert (node.binaries / "meshnet-cni").read_text() == text
        assert (node.binaries / "meshnet-cni").resolve().with_name("link").read_text() == "a"
        folders.add((node.binaries / "meshnet-cni").readlink().parent)
    assert len(folders) == 3
    assert len(os.listdir(node.binaries)) == 3


def test_the_kubeconfig_follows_the_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    account = tmp_path / "account"
    account.mkdir()
    node = Node(tmp_path, account=str(account))
    node.put("10-a.conflist", LIST)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    with pytest.raises(NotReady, match="token"):
        node.installer.install()
    (account / "token").write_text("first\n")
    (account / "ca.crt").write_text("certificate")
    node.installer.install()
    path = node.networks / "meshnet-cni.kubeconfig"
    assert path.stat().st_mode & 0o777 == 0o600
    data = json.loads(path.read_text())
    assert data["users"][0]["user"]["token"] == "first"
    assert data["clusters"][0]["cluster"]["server"] == "https://[fd00::1]:443"
    entry = json.loads((node.networks / "10-a.conflist").read_text())["plugins"][-1]
    assert entry["kubernetes"] == {"kubeconfig": "/etc/cni/net.d/meshnet-cni.kubeconfig"}
    (account / "token").write_text("second")
    assert not node.installer.install()
    assert json.loads(path.read_text())["users"][0]["user"]["token"] == "second"
    node.installer.uninstall()
    assert node.content() == {"etc/cni/net.d/10-a.conflist": LIST.encode()}
