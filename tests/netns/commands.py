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
    done = subprocess.run(
        (*before, *MESHNET, *arguments),
        input=text,
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
        cwd=ROOT,
        env=around,
    )
    return Answer(done)
