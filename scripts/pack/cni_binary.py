"""Pack meshnet-cni and meshnet-init for a node without Python: dist/meshnet-cni, a folder that runs where it is put.

A copy of the interpreter, the modules that the two programs can reach as compiled files, the libraries that these need,
the loader and libc among them, and a launcher in C. Compared with what packers make of the same sources it starts
fastest and is the smallest; ``make bench-cni`` measures the first two again.
"""

from __future__ import annotations

import importlib.util
import marshal
import py_compile
import re
import shutil
import subprocess
import sys
from modulefinder import ModuleFinder
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TARGET = Path(sys.argv[1]).absolute() if len(sys.argv) > 1 else ROOT / "dist" / "meshnet-cni"
PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"
ENTRIES = {"meshnet-cni": "meshnet.cni.entry", "meshnet-init": "meshnet.cli.init"}
ELSEWHERE = [
    "pyroute2",
    "scapy",
    "click",
    "iptc",
    "tkinter",
    "distutils",
    "setuptools",
    "pip",
    "test",
    "doctest",
    "pdb",
]
ELSEWHERE += ["unittest", "pydoc", "multiprocessing", "xmlrpc", "asyncio", "sqlite3", "curses", "ftplib", "netrc"]
"""Modules that something reachable names and that neither program ever loads: mostly what makes namespaces by name."""

ALSO = ["encodings.ascii", "encodings.idna", "encodings.latin_1", "encodings.utf_8", "zipimport", "traceback"]
"""Loaded by name, which no reading of the sources shows."""


def main() -> None:
    if TARGET.exists():
        shutil.rmtree(TARGET)
    modules, extensions = reachable()
    library = TARGET / "lib"
    place_modules(modules, library / PYTHON)
    binary = Path(sys.executable).resolve()
    (TARGET / "bin").mkdir(parents=True)
    shutil.copy(binary, TARGET / "bin" / PYTHON)
    for path in extensions:
        (library / PYTHON / "lib-dynload").mkdir(parents=True, exist_ok=True)
        shutil.copy(path, library / PYTHON / "lib-dynload" / path.name)
    loader = place_libraries([binary, *extensions], library)
    build_launcher(loader)
    strip()
    size = sum(path.stat().st_size for path in TARGET.rglob("*") if path.is_file() and not path.is_symlink())
    print(f"{TARGET}: {size / 1e6:.1f} MB, {len(modules)} modules", file=sys.stderr)


def reachable() -> tuple[dict[str, Path], list[Path]]:
    """The modules that the entry points can import, by name: sources, and those in C that are files of their own."""
    standard = [path for path in sys.path if path and "site-packages" not in path and "dist-packages" not in path]
    packages = [path for path in sys.path if "packages" in path]
    finder = ModuleFinder([str(ROOT), *standard, *packages], excludes=ELSEWHERE)
    script = "\n".join(f"import {name}" for name in [*ENTRIES.values(), *ALSO])
    starter = TARGET.parent / "reach.py"
    starter.parent.mkdir(parents=True, exist_ok=True)
    starter.write_text(script)
    try:
        finder.run_script(str(starter))
    finally:
        starter.unlink()
    sources: dict[str, Path] = {}
    extensions: list[Path] = []
    for name, module in finder.modules.items():
        if name == "__main__" or not module.__file__:
            continue
        path = Path(module.__file__)
        if path.suffix == ".py":
            sources[name] = path
        elif path.suffix == ".so":
            extensions.append(path.resolve())
    return sources, extensions


def place_modules(modules: dict[str, Path], target: Path) -> None:
    """Compiled, and never looked at for their sources: a node's clock or a copy may have changed every time stamp."""
    for name, path in modules.items():
        parts = name.split(".")
        place = target.joinpath(*parts, "__init__") if path.name == "__init__.py" else target.joinpath(*parts)
        place.parent.mkdir(parents=True, exist_ok=True)
        shown = f"{name.replace('.', '/')}.py"  # what a message names, and nothing of the folder it was built in
        py_compile.compile(
            str(path),
            f"{place}.pyc",
            dfile=shown,
            doraise=True,
            optimize=2,
            invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
        )
        with open(f"{place}.pyc", "rb") as file:
            assert file.read(4) == importlib.util.MAGIC_NUMBER
            file.read(12)
            marshal.load(file)


def place_libraries(binaries: list[Path], target: Path) -> str:
    """Every library that is needed, and the loader: its name is returned."""
    loader = ""
    for binary in binaries:
        listed = subprocess.run(("ldd", binary), capture_output=True, text=True, check=True).stdout
        for path in re.findall(r"(/\S+) \(0x", listed):
            name = Path(path).name
            if name.startswith("ld-linux"):
                loader = name
            if not (target / name).exists():
                shutil.copy(Path(path).resolve(), target / name)
    assert loader, "no dynamic loader among the libraries"
    return loader


def build_launcher(loader: str) -> None:
    names = (f'-DLOADER="{loader}"', f'-DPYTHON="{PYTHON}"')
    source = Path(__file__).with_name("launcher.c")
    argv = ("gcc", "-static", "-Os", "-Wall", "-Wextra", "-Werror", "-s", *names, "-o", TARGET / "meshnet-cni", source)
    subprocess.run(argv, check=True)
    (TARGET / "meshnet-init").hardlink_to(TARGET / "meshnet-cni")


def strip() -> None:
    for path in [*(TARGET / "bin").iterdir(), *(TARGET / "lib").rglob("*.so*")]:
        path.chmod(0o755)
        if not path.name.startswith("ld-linux"):
            subprocess.run(("strip", "--strip-unneeded", path), check=False, capture_output=True)
    for path in [TARGET, *TARGET.rglob("*")]:
        # Also for the root of a pod's user namespace, who is nobody on the node.
        path.chmod(
            0o755 if path.is_dir() or path.parent.name == "bin" or ".so" in path.name else path.stat().st_mode | 0o444
        )


main()
