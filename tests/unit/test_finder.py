"""meshnet.finder: what it finds, what it leaves to the interpreter, and that a program runs with it as without."""

from __future__ import annotations

import os
import py_compile
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

SCRIPT = """
import sys
sys.path[:0] = [sys.argv[1]]
import meshnet.finder
from meshnet.some import place
print(place.__name__, place.__package__, place.__file__, place.__cached__)
print(type(place.__loader__).__module__, place.WORD)
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A package of meshnet's name, with the finder, and a module two steps down."""
    for name, text in (
        ("meshnet/__init__.py", ""),
        ("meshnet/finder.py", (ROOT / "meshnet" / "finder.py").read_text()),
        ("meshnet/some/__init__.py", "'''A package.'''"),
        ("meshnet/some/place.py", "WORD = 'first'\n"),
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def compiled(path: Path, mode: py_compile.PycInvalidationMode = py_compile.PycInvalidationMode.TIMESTAMP) -> Path:
    return Path(str(py_compile.compile(str(path), doraise=True, invalidation_mode=mode)))


def said(tree: Path) -> list[str]:
    argv = (sys.executable, "-I", "-S", "-B", "-c", SCRIPT, str(tree))
    return subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60).stdout.splitlines()


def test_a_compiled_module_is_found_here(tree: Path) -> None:
    compiled(tree / "meshnet/some/__init__.py")
    place = tree / "meshnet/some/place.py"
    cached = compiled(place)
    assert said(tree) == [f"meshnet.some.place meshnet.some {place} {cached}", "meshnet.finder first"]


def test_a_changed_source_is_read_anew(tree: Path) -> None:
    place = tree / "meshnet/some/place.py"
    compiled(place)
    place.write_text("WORD = 'other'\n")  # as long as before
    os.utime(place, (1, 1))
    assert said(tree)[1] == "_frozen_importlib_external other"


def test_a_longer_source_of_the_same_second_is_read_anew(tree: Path) -> None:
    place = tree / "meshnet/some/place.py"
    compiled(place)
    before = place.stat()
    place.write_text("WORD = 'longer'\n")
    os.utime(place, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert said(tree)[1] == "_frozen_importlib_external longer"


@pytest.mark.parametrize("mode", ["CHECKED_HASH", "UNCHECKED_HASH"])
def test_a_file_that_is_valid_by_a_hash_is_left_to_the_interpreter(tree: Path, mode: str) -> None:
    compiled(tree / "meshnet/some/place.py", py_compile.PycInvalidationMode[mode])
    assert said(tree)[1] == "_frozen_importlib_external first"


@pytest.mark.parametrize("spoil", ["missing", "cut", "of another version", "without source"])
def test_a_file_that_cannot_be_trusted_is_left_to_the_interpreter(tree: Path, spoil: str) -> None:
    place = tree / "meshnet/some/place.py"
    cached = compiled(place)
    if spoil == "missing":
        cached.unlink()
    elif spoil == "cut":
        cached.write_bytes(cached.read_bytes()[:9])
    elif spoil == "of another version":
        cached.write_bytes(b"\0\0\r\n" + cached.read_bytes()[4:])
    else:
        place.unlink()
        with pytest.raises(subprocess.CalledProcessError):
            said(tree)
        return
    assert said(tree)[1] == "_frozen_importlib_external first"


def test_nothing_but_meshnet_is_found_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])  # which the import adds to
    from meshnet.finder import Finder

    assert Finder().find_spec("os", None) is None
    assert Finder().find_spec("json.decoder", [str(ROOT / "meshnet")]) is None
