"""A node's folders below a test's own, and an installer for it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from meshnet.cni.installer import Installer, Wanted
from meshnet.cni.places import Places

if TYPE_CHECKING:
    from pathlib import Path

LIST = '{"cniVersion": "0.4.0", "name": "n", "plugins": [\n  {"type": "bridge"}\n]}\n'


class Node:
    def __init__(self, folder: Path, **more: Any) -> None:
        self.root = folder / "node"
        self.networks = self.root / "etc/cni/net.d"
        self.binaries = self.root / "opt/cni/bin"
        self.networks.mkdir(parents=True)
        self.said: list[str] = []
        wanted = {"places": Places(), "entry": {"interception": {}}, "root": str(self.root)} | more
        self.installer = Installer(Wanted(**wanted), self.said.append)

    def put(self, name: str, text: str) -> Path:
        path = self.networks / name
        path.write_text(text)
        return path

    def content(self) -> dict[str, bytes]:
        files = (path for path in self.root.rglob("*") if path.is_file())
        return {str(path.relative_to(self.root)): path.read_bytes() for path in files}

    def types(self, name: str) -> list[str]:
        return [plugin["type"] for plugin in json.loads((self.networks / name).read_text())["plugins"]]
