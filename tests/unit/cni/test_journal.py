from __future__ import annotations

import os
from pathlib import Path

import pytest

from meshnet.cni import journal as module
from meshnet.cni.journal import Journal


def test_lines_go_to_standard_error_and_to_the_file(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    journal = Journal("ADD net", "info", str(tmp_path / "log"))
    journal.debug("not this")
    journal.info("intercepted")
    journal.error("a\nb\x1b[2J \ud800")
    said = capfd.readouterr().err
    assert said.splitlines() == [
        "meshnet-cni: info: ADD net: intercepted",
        "meshnet-cni: error: ADD net: a\\nb\\x1b[2J \\ud800",
    ]
    kept = (tmp_path / "log").read_text().splitlines()
    assert [line.partition(f" {os.getpid()} ")[2] for line in kept] == [
        "info: ADD net: intercepted",
        "error: ADD net: a\\nb\\x1b[2J \\ud800",
    ]


def test_the_file_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: object) -> None:
    monkeypatch.setattr(module, "LARGEST", 10_000)
    journal = Journal(file=str(tmp_path / "log"))
    for number in range(60):
        journal.info(f"line {number} {'x' * 3000}")
    sizes = [path.stat().st_size for path in tmp_path.iterdir()]
    assert 1 <= len(sizes) <= 2
    assert max(sizes) < 10_000 + module.LONGEST + 100
    kept = "".join(path.read_text() for path in tmp_path.iterdir())
    assert "line 59 " in kept
    assert "line 0 " not in kept


@pytest.mark.parametrize("kind", ["folder", "fifo", "link", "gone"])
def test_a_file_that_can_t_be_written_is_said_once(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], kind: str
) -> None:
    path = tmp_path / kind
    if kind == "folder":
        path.mkdir()
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "link":
        path.symlink_to(tmp_path / "target")
    else:
        path = tmp_path / "none" / "log"
    journal = Journal(file=str(path))
    journal.info("one")
    journal.info("two")
    said = capfd.readouterr().err
    assert (said.count("no log in"), said.count("info:")) == (1, 2)
    assert not (tmp_path / "target").exists()
