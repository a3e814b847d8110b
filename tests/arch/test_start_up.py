"""What ``meshnet-init`` loads from outside meshnet, on a real run: every module is paid for at every pod's start."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from meshnet.kernel import links, netns
from tests.sweep import fresh_name

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]

LOADED = {
    *("__future__", "gc", "itertools"),
    *("errno", "fcntl", "pwd", "select"),
    *("_struct", "_socket", "_operator"),
}
"""The whole list: nothing but parts of the interpreter. A new one is a decision."""

TOO_DEAR = {
    *("os", "struct"),
    *("click", "yaml", "pyroute2", "scapy", "pydantic"),
    *("json", "re", "enum", "typing", "dataclasses", "subprocess", "socket", "ctypes", "argparse", "logging"),
}

SCRIPT = f"""\
import posix, sys
before, leave = set(sys.modules), posix._exit
def tell(code):
    print("loaded:", *(set(sys.modules) - before), file=sys.stderr, flush=True)
    leave(code)
posix._exit = tell
import gc; gc.disable()
sys.path += [{str(ROOT)!r}]
import meshnet.finder; from meshnet.cli.init import run; run()
"""
"""The launcher's words, and in front of them what tells the list at the end."""


@pytest.fixture
def name() -> Iterator[str]:
    name = fresh_name()
    netns.create(name)
    with netns.open_namespace(netns.where(name)) as namespace:
        links.up(namespace, "lo")
    yield name
    netns.delete(name)


def loaded(name: str, *words: str) -> set[str]:
    argv = ("ip", "netns", "exec", name, sys.executable, "-I", "-S", "-c", SCRIPT, *words)
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("loaded: ")]
    return {module for module in line.split()[1:] if module.partition(".")[0] != "meshnet"}


@pytest.mark.parametrize("profile", ["istio", "meshnet"])
@pytest.mark.parametrize("mode", ["REDIRECT", "TPROXY"])
def test_a_pod_s_start_loads_exactly_this(name: str, profile: str, mode: str) -> None:
    words = ("-m", mode, "-i", "*", "-b", "*", "-d", "15090,15021,15020", "--dual-stack", "--profile", profile)
    fresh, again = loaded(name, *words), loaded(name, *words)
    assert not (fresh | again) & TOO_DEAR
    assert fresh == LOADED
    assert again == LOADED


def test_the_launcher_s_words_are_those_that_are_run_here() -> None:
    text = (ROOT / "scripts" / "bin" / "meshnet-init").read_text()
    assert "-I -S -c" in text
    assert "import gc, sys; gc.disable()" in text
    assert "import meshnet.finder; from meshnet.cli.init import run; run()" in text
