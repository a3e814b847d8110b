"""The shared conformance files: next to the project, or where MESHNET_CONFORMANCE says."""

from __future__ import annotations

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = Path(os.environ.get("MESHNET_CONFORMANCE") or ROOT.parent / "shared" / "conformance")


def present() -> bool:
    return FOLDER.is_dir()


def files(folder: str, pattern: str = "*") -> list[Path]:
    """The files of a folder; where it is absent one that doesn't exist, so that a test of it fails and isn't lost."""
    return sorted((FOLDER / folder).glob(pattern)) or [FOLDER / folder / "absent"]
