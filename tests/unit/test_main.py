"""``python -m meshnet``: ahead of the command, what makes its start and its end quicker."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

SCRIPT = f"""
import atexit, gc, sys
sys.path.insert(0, {str(ROOT)!r})
sys.argv = ["meshnet", "--version"]
from meshnet.__main__ import run
def tell():
    print(gc.get_threshold()[0], gc.get_freeze_count() > 10_000, type(sys.meta_path[0]))
atexit.register(tell)  # what was registered first is called last
run()
"""


def test_garbage_is_hardly_looked_for_and_not_at_all_at_the_end() -> None:
    done = subprocess.run((sys.executable, "-c", SCRIPT), capture_output=True, text=True, check=True, timeout=60)
    version, told = done.stdout.splitlines()
    assert version.startswith("meshnet, version ")
    assert told == "100000 True <class 'meshnet.finder.Finder'>"


def test_the_console_script_is_the_same() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["scripts"] == {"meshnet": "meshnet.__main__:run"}


INTERRUPTED = f"""
import sys
sys.path.insert(0, {str(ROOT)!r})
from meshnet.__main__ import run
class Interrupting:
    def find_spec(self, name, path, target=None):
        if name == "meshnet.cli.main":
            raise KeyboardInterrupt
sys.meta_path.insert(0, Interrupting())
run()
"""


def test_interrupted_while_the_command_line_loads() -> None:
    done = subprocess.run((sys.executable, "-c", INTERRUPTED), capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "meshnet: interrupted\n")
