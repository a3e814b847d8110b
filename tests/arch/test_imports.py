"""Who may import whom."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "meshnet"
PURE = ("spec", "compile", "render", "parse", "simulate", "model")
HOST = {"os", "socket", "subprocess"}


def imported(path: Path) -> set[str]:
    """The first words of all modules that a file imports, wherever in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "").partition(".")[0])
    return found


def test_the_contracts_hold() -> None:
    tool = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run((tool,), capture_output=True, text=True, cwd=ROOT, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("path", [path for room in PURE for path in (PACKAGE / room).rglob("*.py")], ids=str)
def test_a_pure_module_touches_no_host(path: Path) -> None:
    assert not imported(path) & HOST


def test_scapy_has_one_door() -> None:
    assert [path.name for path in PACKAGE.rglob("*.py") if "scapy" in imported(path)] == ["craft.py"]
