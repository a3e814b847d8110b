"""The command line as a user runs it: a process of its own, its answer, its words and its exit code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
MESHNET = (sys.executable, "-m", "meshnet")
MESHNET_INIT = (
    sys.executable,
    "-I",
    "-c",
    f"import sys; sys.path.insert(0, {str(ROOT)!r}); from meshnet.cli.init import run; run()",
)
LIMIT = 60


class Answer:
    """What a process said. No way to end shows a traceback, so that is looked at here for all of them."""

    def __init__(self, done: subprocess.CompletedProcess[str]) -> None:
        self.code, self.out, self.err = done.returncode, done.stdout, done.stderr
        assert "Traceback" not in self.err, self.err

    @property
    def data(self) -> Any:
        return json.loads(self.out)

    @property
    def words(self) -> list[str]:
        return self.err.splitlines()


def meshnet(*arguments: str, text: str = "", before: tuple[str, ...] = (), env: dict[str, str] | None = None) -> Answer:
    """Run ``python -m meshnet``, behind the words of ``before`` when it is to run under something else."""
    around = {**os.environ, "PYTHONPATH": str(ROOT), **(env or {})}
    return _run((*before, *MESHNET, *arguments), around, text)


def meshnet_init(*arguments: str, before: tuple[str, ...] = (), env: dict[str, str] | None = None) -> Answer:
    """Run ``meshnet-init`` as its launcher does, with no variables but PATH and those of ``env``."""
    return _run((*before, *MESHNET_INIT, *arguments), {"PATH": os.environ["PATH"], **(env or {})})


def _run(argv: tuple[str, ...], around: dict[str, str], text: str = "") -> Answer:
    done = subprocess.run(
        argv,
        input=text,
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
        cwd=ROOT,
        env=around,
    )
    return Answer(done)
