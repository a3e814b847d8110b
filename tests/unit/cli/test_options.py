from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from meshnet.cli import options
from meshnet.model.errors import UsageError
from tests.unit.cli.commands import HEAD


class Stdin:
    def __init__(self, content: bytes) -> None:
        self.buffer = io.BytesIO(content)


def test_a_document_from_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", Stdin(f"{HEAD}name: piped\n".encode()))
    assert options.read_document("-").spec.name == "piped"


@pytest.mark.parametrize(("content", "words"), [(b"name: \xff\n", "not UTF-8"), (b"#" * 100, "larger than")])
def test_what_is_no_document(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: bytes, words: str) -> None:
    if "larger" in words:
        monkeypatch.setattr(options, "LARGEST_TEXT", 99)
    path = tmp_path / "pod.yaml"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=words):
        options.read_document(str(path))


def test_a_folder_is_no_document(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="can't read"):
        options.read_document(str(tmp_path))


@pytest.mark.parametrize("pid", ["0", "-1", "4194305", "x"])
def test_process_ids(called: Any, pid: str) -> None:
    assert called("remove", "--pid", pid)[0] == 2


def test_backends_are_those_of_the_help(called: Any) -> None:
    _, out, _ = called("apply", "--help")
    assert all(name in out for name in options.BACKENDS)


@pytest.mark.parametrize("word", ["nan", "-nan", "inf", "-1", "1e9", "x", ""])
def test_what_is_no_time(word: str) -> None:
    with pytest.raises(click.BadParameter):
        options.SECONDS.convert(word, None, None)


@pytest.mark.parametrize(("word", "found"), [("0", 0.0), ("0.5", 0.5), ("31536000", 31536000.0)])
def test_times(word: str, found: float) -> None:
    assert options.SECONDS.convert(word, None, None) == found


def test_standard_input_is_one_file() -> None:
    options.once_from_stdin("-", None, "x")
    options.once_from_stdin("x", "x")
    with pytest.raises(UsageError):
        options.once_from_stdin("-", "x", "-")


def test_a_standard_input_that_can_t_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        class buffer:  # noqa: N801
            @staticmethod
            def read(_: int) -> bytes:
                raise OSError(21, "Is a directory")

    monkeypatch.setattr(sys, "stdin", Broken())
    with pytest.raises(UsageError, match="can't read <stdin>: Is a directory"):
        options.read_text("-")
