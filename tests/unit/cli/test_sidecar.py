from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

import pytest

from meshnet.kernel import facts, netns
from meshnet.kernel.netns import where
from meshnet.model.errors import NamespaceError, PermissionMissing
from meshnet.model.facts import Facts
from meshnet.sidecar.config import Settings
from tests.unit.cli.commands import HEAD
from tests.unit.cli.places import FakePlace

if TYPE_CHECKING:
    from pathlib import Path

    from meshnet.kernel.netns import Where


class Pod(FakePlace):
    """What was entered and started; nothing is, since starting would take this process's place."""

    def __init__(self) -> None:
        super().__init__()
        self.settings: Settings | None = None

    def start(self, program: str, argv: list[str]) -> None:
        assert self.inside
        assert [program, *argv[:3]] == [sys.executable, sys.executable, "-m", "meshnet.sidecar"]
        self.settings = Settings.from_json(argv[3])


@pytest.fixture
def pod(monkeypatch: pytest.MonkeyPatch) -> Pod:
    made = Pod()
    monkeypatch.setattr(netns, "require_capabilities", lambda *_: None)
    monkeypatch.setattr(netns, "open_namespace", made.open)
    monkeypatch.setattr(facts, "gather", lambda _: Facts((4,)))
    monkeypatch.setattr(os, "execv", made.start)
    return made


def test_it_runs_inside_as_the_spec_s_first_identity(called: Any, pod: Pod, tmp_path: Path) -> None:
    (tmp_path / "pod.yaml").write_text(f"{HEAD}sidecar: {{uids: [7, 8], gids: [9]}}\nfamilies: [ipv4, ipv6]\n")
    assert called("sidecar", str(tmp_path / "pod.yaml"), "--netns", "web")[0] == 0
    assert pod.opened == [where("web")]
    assert pod.settings is not None
    assert (pod.settings.uid, pod.settings.gid, pod.settings.families) == (7, 9, (4, 6))
    assert pod.settings.dials == "original"


def test_families_that_are_left_open_are_the_namespace_s(called: Any, pod: Pod, tmp_path: Path) -> None:
    (tmp_path / "pod.yaml").write_text(HEAD)
    called("sidecar", str(tmp_path / "pod.yaml"), "--dials", "loopback")
    assert pod.settings is not None
    assert (pod.settings.families, pod.settings.dials) == ((4,), "loopback")


def test_a_wrong_spec_is_said_before_anything_is_entered(called: Any, pod: Pod, tmp_path: Path) -> None:
    (tmp_path / "pod.yaml").write_text(f"{HEAD}inbound: {{mode: sideways}}\n")
    assert called("sidecar", str(tmp_path / "pod.yaml"), "--netns", "web")[0] == 2
    assert (pod.opened, pod.settings) == ([], None)


@pytest.mark.parametrize(
    ("words", "code"), [(("--netns", "a", "--pid", "1"), 2), (("--dials", "nobody"), 2), (("--netns", "a\n"), 3)]
)
def test_what_can_t_be_asked(called: Any, pod: Pod, spec_file: str, words: tuple[str, ...], code: int) -> None:
    assert called("sidecar", spec_file, *words)[0] == code
    assert pod.settings is None


def test_a_namespace_that_is_not_there(called: Any, pod: Pod, spec_file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(place: Where) -> Pod:
        raise NamespaceError(f"there is no network namespace {place}")

    monkeypatch.setattr(netns, "open_namespace", gone)
    code, _, err = called("sidecar", spec_file, "--netns", "web")
    assert (code, "no network namespace web" in err) == (3, True)


def test_without_the_right_it_says_so_first(called: Any, pod: Pod, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(wanted: tuple[str, ...], work: str) -> None:
        raise PermissionMissing(f"{work} needs {wanted[0]}", hint="run it as root")

    monkeypatch.setattr(netns, "require_capabilities", refuse)
    code, _, err = called("sidecar", "/none")
    assert code == 4
    assert "CAP_NET_ADMIN" in err
