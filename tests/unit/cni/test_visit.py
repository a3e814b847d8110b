"""Which namespaces a call may enter, and how a refusal inside becomes an error object."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from meshnet.cni import visit as module
from meshnet.cni.protocol import CniError, OwnNamespace
from meshnet.cni.visit import open_pod, refused, visit
from meshnet.kernel.netns import OWN_NOW, Where, open_namespace
from meshnet.model.errors import (
    BusyError,
    MeshnetError,
    NamespaceError,
    PermissionMissing,
    SpecError,
    ToolError,
    UnsupportedError,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from meshnet.kernel.netns import Namespace


def code_of(path: str) -> int:
    with pytest.raises(CniError) as error:
        open_pod(path)
    return error.value.code


def test_nothing_there_any_more_is_an_unknown_container() -> None:
    assert code_of("/none/at/all") == 3
    assert code_of("/proc/999999999/ns/net") == 3


@pytest.mark.parametrize("kind", ["file", "folder", "fifo", "link", "loop", "uts"])
def test_what_is_no_network_namespace(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "it"
    match kind:
        case "file":
            path.write_text("")
        case "folder":
            path.mkdir()
        case "fifo":
            os.mkfifo(path)
        case "link":
            path.symlink_to(tmp_path / "none")  # it is there, and leads nowhere
        case "loop":
            path.symlink_to(path)
        case _:
            path.symlink_to("/proc/self/ns/uts")
    assert code_of(str(path)) == 8


@pytest.mark.parametrize("through_a_link", [False, True])
def test_the_own_namespace_is_refused_by_whichever_path(tmp_path: Path, through_a_link: bool) -> None:
    path = "/proc/self/ns/net"
    if through_a_link:
        (tmp_path / "it").symlink_to(path)
        path = str(tmp_path / "it")
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(OwnNamespace):
        open_pod(path)
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize("which", ["is_current", "is_initial", "node"])
def test_each_of_the_node_s_namespaces_alone_is_reason_enough(monkeypatch: pytest.MonkeyPatch, which: str) -> None:
    """The plugin may be started in a namespace of its own, with the node's only to be seen as process 1's."""
    for name in ("is_current", "is_initial"):
        monkeypatch.setattr(f"meshnet.kernel.netns.Namespace.{name}", property(lambda _, name=name: name == which))
    monkeypatch.setattr(module, "NODE", OWN_NOW if which == "node" else "/none")
    with pytest.raises(OwnNamespace):
        open_pod("/proc/self/ns/net")


def test_any_other_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("is_current", "is_initial"):
        monkeypatch.setattr(f"meshnet.kernel.netns.Namespace.{name}", property(lambda _: False))
    monkeypatch.setattr(module, "NODE", "/none")
    with open_pod("/proc/self/ns/net") as namespace:
        assert namespace.inode == os.stat(OWN_NOW).st_ino


def test_who_may_not_look_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: Where) -> Namespace:
        raise PermissionMissing("it can't be looked at", hint="run it as root")

    monkeypatch.setattr(module, "open_namespace", refuse)
    with pytest.raises(CniError) as error:
        open_pod("/n")
    assert (error.value.code, error.value.details) == (100, "it can't be looked at: run it as root")


@pytest.mark.parametrize(
    ("error", "code", "details"),
    [
        (BusyError("at work"), 11, "at work"),
        (NamespaceError("gone"), 8, "gone"),
        (ToolError("refused", detail="a\nb"), 100, "refused\n  said: a\n  said: b"),
        (UnsupportedError(["a", "b"], hint="c"), 100, "a; b\n  next: c"),
        (SpecError(["x: y", "z: w"]), 100, "x: y\nz: w"),
    ],
)
def test_a_refusal_in_the_protocol_s_form(error: MeshnetError, code: int, details: str) -> None:
    found = refused(error)
    assert (found.code, found.message, found.details) == (code, str(error), details)


class FakeSession:
    """Enters nothing. ``namespace``: which one it says that it is in."""

    def __init__(self, namespace: Namespace) -> None:
        self.namespace = namespace

    def __enter__(self) -> FakeSession:
        return self

    def __exit__(self, *_: object) -> None:
        pass


@pytest.fixture
def own() -> Any:
    with open_namespace(Where("path", "/proc/self/ns/net")) as namespace:
        yield namespace


@pytest.fixture
def entered(own: Namespace, monkeypatch: pytest.MonkeyPatch) -> list[Where]:
    """Places that were entered, each of them said to be the test's own namespace."""
    places: list[Where] = []

    def session(place: Where) -> FakeSession:
        places.append(place)
        return FakeSession(own)

    monkeypatch.setattr(module, "Session", session)
    return places


@pytest.fixture
def its_owner(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    """Says whether the namespace belongs to a user namespace of its own."""

    def said(foreign: bool) -> None:
        opened = os.open("/proc/self/ns/user", os.O_RDONLY) if foreign else None
        monkeypatch.setattr(module.userns, "owner", lambda _: opened)
        monkeypatch.setattr(module.userns, "as_root_of", lambda user, namespace, work: work())

    return said


def test_it_is_entered_by_the_file_that_was_judged(
    own: Namespace, entered: list[Where], its_owner: Callable[[bool], None]
) -> None:
    its_owner(False)
    assert visit(own, lambda _: ["done"]) == ["done"]
    assert entered == [Where("path", f"/proc/self/fd/{own.fd}")]


@pytest.mark.parametrize("foreign", [False, True])
def test_another_namespace_than_the_one_that_was_opened(
    own: Namespace, entered: list[Where], its_owner: Callable[[bool], None], foreign: bool
) -> None:
    class Other:
        inode, device, fd, where = own.inode + 1, own.device, own.fd, own.where

    its_owner(foreign)
    with pytest.raises(CniError) as error:
        visit(Other(), lambda _: pytest.fail("it was entered"))  # type: ignore[arg-type]
    assert error.value.code == 8


@pytest.mark.parametrize("foreign", [False, True])
def test_a_refusal_inside_names_the_path_that_the_runtime_gave(
    own: Namespace, entered: list[Where], its_owner: Callable[[bool], None], foreign: bool
) -> None:
    def refuse(_: object) -> list[str]:
        where = f"/proc/self/fd/{own.fd}" if not foreign else str(own.where)
        raise BusyError(f"{where}: another meshnet is at work there")

    its_owner(foreign)
    with pytest.raises(CniError) as error:
        visit(own, refuse)
    assert error.value.code == 11
    assert "/proc/self/ns/net: another meshnet" in error.value.message
    assert "/fd/" not in error.value.message
    assert ("user namespace" in error.value.message) is foreign


def test_what_a_pod_s_own_root_did_comes_back_as_text(
    own: Namespace, entered: list[Where], its_owner: Callable[[bool], None]
) -> None:
    its_owner(True)
    assert visit(own, lambda _: ["a", "b\n", "ä"]) == ["a", "b\n", "ä"]
    assert [place.kind for place in entered] == ["own"]


@pytest.mark.parametrize(
    ("raised", "code"), [(CniError(102, "x", "y"), 102), (ToolError("x"), 100), (KeyError("x"), 110)]
)
def test_whatever_fails_there_keeps_its_code(
    own: Namespace, entered: list[Where], its_owner: Callable[[bool], None], raised: Exception, code: int
) -> None:
    def fail(_: object) -> list[str]:
        raise raised

    its_owner(True)
    with pytest.raises(CniError) as error:
        visit(own, fail)
    assert error.value.code == code
    assert error.value.message.startswith("in the pod's user namespace: ")


def test_the_owner_s_file_is_closed_again(
    own: Namespace, entered: list[Where], its_owner: Callable[[bool], None]
) -> None:
    before = len(os.listdir("/proc/self/fd"))
    its_owner(True)
    visit(own, lambda _: [])
    assert len(os.listdir("/proc/self/fd")) == before
