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


def golden(path: Path) -> dict[int, str]:
    """A golden text by family: IPv4's tables come first, and IPv6's begin where a table appears again."""
    lines: dict[int, list[str]] = {4: [], 6: []}
    family, seen = 4, set()
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("*"):
            family = 6 if line in seen else family
            seen.add(line)
        if line not in ("iptables-save", "ip6tables-save"):  # what the installer ran, not what it wrote
            lines[family].append(line)
    return {family: "\n".join(text) for family, text in lines.items() if text}


def saved() -> list[tuple[str, int, str]]:
    """Every rule set of the conformance files, as (name, family, text)."""
    found = [
        (path.name, 6 if "ip6tables" in path.name else 4, path)
        for folder, pattern in (("iptables-save", "*.txt"), ("original-source", "*.v4"))
        for path in files(folder, pattern)
    ]
    texts = [(name, family, path.read_text(encoding="utf-8") if path.exists() else "") for name, family, path in found]
    for folder in ("istio-iptables", "istio-cni"):
        for path in files(folder, "*.golden"):
            if path.exists():
                texts += [(f"{folder}/{path.name}", family, text) for family, text in golden(path).items()]
    return texts
