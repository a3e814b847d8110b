from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from meshnet import __version__
from meshnet.cli import main
from meshnet.model.errors import BusyError

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("word", ["--help", "-h"])
def test_help_names_every_command_and_exit_code(called: Any, word: str) -> None:
    code, out, _ = called(word)
    assert code == 0
    assert all(name in out for name in main.COMMANDS)
    assert "Exit codes" in out


@pytest.mark.parametrize("name", sorted(main.COMMANDS))
def test_every_command_has_help(called: Any, name: str) -> None:
    code, out, _ = called(name, "--help")
    assert code == 0 and "Usage: meshnet" in out


def test_the_version(called: Any) -> None:
    code, out, _ = called("--version")
    assert code == 0 and __version__ in out


def test_no_command_at_all_is_wrong_usage(called: Any) -> None:
    code, out, err = called()
    assert code == 2 and out == "" and "Commands" in err


@pytest.mark.parametrize(("word", "near"), [("aply", "apply"), ("compil", "compile"), ("verfy", "verify")])
def test_the_nearest_command(called: Any, word: str, near: str) -> None:
    code, _, err = called(word)
    assert code == 2 and f"Did you mean {near}?" in err


def test_a_word_near_to_nothing(called: Any) -> None:
    code, _, err = called("xyzzy")
    assert code == 2 and "xyzzy" in err and "mean" not in err


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (BusyError("somebody works there"), 3, "meshnet: somebody works there"),
        (OSError(28, "No space left on device"), 3, "No space left"),
        (KeyboardInterrupt(), 130, "interrupted"),
        (click.exceptions.Abort(), 130, "interrupted"),
    ],
)
def test_every_way_to_fail_ends_in_a_line(
    called: Any, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int, words: str
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(main.meshnet, "main", fails)
    assert called("schema")[0] == code
    monkeypatch.setattr(main.meshnet, "main", fails)
    assert words in called("schema")[2]


@pytest.mark.parametrize("form", [("-o", "json"), ("-ojson",), ("--output", "json"), ("--output=json",)])
def test_an_error_has_a_json_form(called: Any, form: tuple[str, ...]) -> None:
    from tests.unit.cli.commands import data

    code, out, err = called("compile", "/nowhere/pod.yaml", *form)
    assert code == 2
    assert data(out)["error"]["kind"] == "usage"
    assert data(out)["error"]["lines"][0] in err


def test_the_reader_goes_away(spec_file: str) -> None:
    """``meshnet compile … | head -0``: nobody is left to tell, and that is no failure."""
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        (sys.executable, "-m", "meshnet", "compile", spec_file),
        stdout=write,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    os.close(write)
    assert done.returncode == 0 and done.stderr == ""
