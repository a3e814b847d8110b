"""Command lines called in this process: the exit code, and what went to the two streams."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from meshnet.cli.main import call

if TYPE_CHECKING:
    from collections.abc import Callable

    Called = Callable[..., tuple[int, str, str]]

HEAD = "apiVersion: meshnet/v1\nkind: Interception\n"


def caller(capsys: pytest.CaptureFixture[str]) -> Called:
    def run(*words: str) -> tuple[int, str, str]:
        code = call(list(words))
        out, err = capsys.readouterr()
        assert "Traceback" not in err
        return code, out, err

    return run


def data(out: str) -> Any:
    return json.loads(out)
