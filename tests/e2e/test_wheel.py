"""The plugin as a newcomer has it: from a built wheel, in a folder that knows nothing of this repository."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "docs" / "testing" / "test_pod.py"


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An interpreter with the wheel, and with what it depends on as it is installed for these tests."""
    place = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
    wheel = [*pip, "wheel", "--no-deps", "--no-build-isolation", "-w", str(place), str(ROOT)]
    subprocess.run(wheel, check=True, timeout=120)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(place / "venv")], check=True, timeout=120)
    site = next((place / "venv" / "lib").glob("python*/site-packages"))
    (built,) = place.glob("meshnet-*.whl")
    shutil.unpack_archive(built, site, "zip")
    # A .pth in a folder that a .pth adds isn't read: the editable install beside the dependencies stays invisible.
    (site / "dependencies.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    return place / "venv" / "bin" / "python"


def run(python: Path, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    kept = {key: word for key, word in os.environ.items() if not key.startswith(("PYTHON", "PYTEST"))}
    return subprocess.run([python, *words], cwd=folder, env=kept, capture_output=True, text=True, timeout=300)


def test_the_wheel_is_what_is_imported(python: Path, tmp_path: Path) -> None:
    done = run(python, tmp_path, "-c", "import meshnet; print(meshnet.__file__)")
    assert str(python.parents[1]) in done.stdout, done.stdout + done.stderr


@pytest.mark.parametrize("sidecar", ["envoy", "embedded"])
def test_the_example_passes_there(python: Path, tmp_path: Path, sidecar: str) -> None:
    shutil.copy(EXAMPLE, tmp_path)
    words = ("-m", "pytest", "-p", "meshnet.testing", "-p", "no:cacheprovider", "--meshnet-sidecar", sidecar, "-q")
    done = run(python, tmp_path, *words, "test_pod.py")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "6 passed" in done.stdout, done.stdout


def test_the_scenarios_come_with_it(python: Path, tmp_path: Path) -> None:
    done = run(python, tmp_path, "-m", "meshnet", "lab", "run", "without-rules", "source-kept-embedded")
    assert done.returncode == 0, done.stdout + done.stderr
