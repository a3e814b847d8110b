"""A small container runtime's side of CNI, as libcni does it: a list's plugins in order for ADD and CHECK, in reverse
for DEL, each one's result handed to the next, runtimeConfig by capability, results kept for CHECK, DEL and GC."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from meshnet.kernel.netns import Namespace

ROOT = Path(__file__).resolve().parents[2]
NEIGHBOURS = Path("/usr/lib/cni")
MESHNET_CNI = (
    sys.executable,
    "-I",
    "-S",
    "-c",
    "import gc, sys; gc.disable(); sys.path += filter(None, [sys.argv.pop(1)]); "
    "from meshnet.cni.entry import run; run()",
    str(ROOT),
)
NEIGHBOURS_NEWEST = "1.0.0"
"""Of Debian 12's plugins. libcni would refuse a list that is newer than one of its plugins; for 1.1.0 they are spoken
to in their own newest version here, so that the last plugin can be in the chain at all."""

BROKEN_CHECK = ("portmap",)
"""Debian's 1.1.1 looks for its IPv4 rules among IPv6's and fails with any port mapped."""

LIMIT = 60


class Refused(Exception):
    """A plugin's error object."""

    def __init__(self, plugin: str, answer: dict[str, Any]) -> None:
        super().__init__(f"{plugin}: {answer}")
        self.plugin = plugin
        self.answer = answer
        self.code = answer["code"]


class Runtime:
    """Drives one network on a node, whose own namespace is ``node``. ``cached`` has the results by container."""

    def __init__(self, node: Namespace, network: dict[str, Any], capabilities: dict[str, Any] | None = None) -> None:
        self.node = node
        self.network = network
        self.capabilities = capabilities or {}
        self.cached: dict[str, dict[str, Any]] = {}
        self.arguments = "IgnoreUnknown=1"

    def add(self, container: str, netns: str) -> dict[str, Any]:
        result: dict[str, Any] | None = None
        for plugin in self.network["plugins"]:
            result = self._call("ADD", plugin, container, netns, result)
        assert result is not None
        self.cached[container] = result
        return result

    def check(self, container: str, netns: str) -> None:
        for plugin in self.network["plugins"]:
            if plugin["type"] not in BROKEN_CHECK:
                self._call("CHECK", plugin, container, netns, self.cached[container])

    def delete(self, container: str, netns: str) -> None:
        for plugin in reversed(self.network["plugins"]):
            self._call("DEL", plugin, container, netns, self.cached.get(container))
        self.cached.pop(container, None)

    def collect(self, valid: list[str]) -> None:
        """GC goes to the plugins that know it; the neighbours of Debian 12 are older."""
        listed = [{"containerID": container, "ifname": "eth0"} for container in valid]
        plugin = self.network["plugins"][-1]
        self._call("GC", plugin | {"cni.dev/valid-attachments": listed, "cni.dev/attachments": listed}, "", "", None)
        self.cached = {container: result for container, result in self.cached.items() if container in valid}

    def status(self) -> None:
        self._call("STATUS", self.network["plugins"][-1], "", "", None)

    def _call(
        self, verb: str, plugin: dict[str, Any], container: str, netns: str, previous: dict[str, Any] | None
    ) -> dict[str, Any]:
        version = self.network["cniVersion"]
        if plugin["type"] != "meshnet-cni" and version == "1.1.0":
            version = NEIGHBOURS_NEWEST
        config = {**plugin, "name": self.network["name"], "cniVersion": version}
        wanted = {key: self.capabilities[key] for key in plugin.get("capabilities", {}) if key in self.capabilities}
        if wanted:
            config["runtimeConfig"] = wanted
        if previous is not None:
            config["prevResult"] = {**previous, "cniVersion": version}
        said = call(verb, plugin["type"], config, container, netns, node=self.node, arguments=self.arguments)
        return said | {"cniVersion": self.network["cniVersion"]} if said else said


def call(verb: str, plugin: str, config: object, container: str = "one", netns: str = "", **how: Any) -> dict[str, Any]:
    """One call of one plugin, as ``start`` makes it; what it answered. Refused with its error object."""
    return outcome(plugin, start(verb, plugin, json.dumps(config).encode(), container, netns, **how))


def start(
    verb: str,
    plugin: str,
    text: bytes,
    container: str = "one",
    netns: str = "",
    *,
    node: Namespace | None = None,
    arguments: str = "",
    more: dict[str, str] | None = None,
) -> subprocess.CompletedProcess[bytes]:
    argv = MESHNET_CNI if plugin == "meshnet-cni" else (str(NEIGHBOURS / plugin),)
    environment = {
        "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin",
        "CNI_COMMAND": verb,
        "CNI_CONTAINERID": container,
        "CNI_IFNAME": "eth0",
        "CNI_NETNS": netns,
        "CNI_PATH": str(NEIGHBOURS),
        "CNI_ARGS": arguments,
        **(more or {}),
    }
    if node is None:
        return _run(argv, text, environment)
    with node.entered():
        return _run(argv, text, environment)


def _run(argv: tuple[str, ...], text: bytes, environment: dict[str, str]) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(argv, input=text, capture_output=True, env=environment, timeout=LIMIT, check=False)


def outcome(plugin: str, done: subprocess.CompletedProcess[bytes]) -> dict[str, Any]:
    assert b"Traceback" not in done.stderr + done.stdout, done.stderr.decode()
    said = json.loads(done.stdout) if done.stdout.strip() else {}
    if done.returncode == 0:
        assert "code" not in said, said
        return said
    assert isinstance(said.get("code"), int) and said.get("msg"), (done, said)
    assert said.get("cniVersion") or plugin != "meshnet-cni", said
    raise Refused(plugin, said)
