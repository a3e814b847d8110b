"""What a call loads: a plugin is started for every pod, and a runtime asks for the version before that."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]

BARE = {"__future__", "_collections_abc", "_operator", "abc", "codecs", "encodings", "genericpath", "io", "os"}
BARE |= {"posixpath", "select", "stat", "sys", "time"}
FOR_VERSION = {"cni", "cni.entry", "cni.protocol", "model", "model.value", "spec", "spec.jsontext"}
FOR_ADD = {
    *("apply", "apply.apply", "apply.host", "apply.observe", "apply.reconcile", "apply.session"),
    *("cni.attachments", "cni.config", "cni.identities", "cni.journal", "cni.podinfo", "cni.result", "cni.selection"),
    *("cni.verbs", "cni.visit"),
    *("compile", "compile.draft", "compile.passes", "compile.phrases", "compile.pipeline", "compile.resolve"),
    *("kernel", "kernel.detect", "kernel.facts", "kernel.ipsets", "kernel.netlink", "kernel.netns", "kernel.nft_table"),
    *("kernel.routes", "kernel.rtnetlink", "kernel.run", "kernel.savetext", "kernel.together", "kernel.userns"),
    *("kernel.xtables", "model.cidr", "model.errors", "model.facts", "model.marks", "model.names", "model.plan"),
    *("model.ports", "model.program", "model.spec", "parse", "parse.saved", "parse.words"),
    *("render", "render.iptables", "render.plan", "render.routes"),
    *("spec.check", "spec.decode", "spec.dump", "spec.fields", "spec.load", "spec.nodes", "spec.problem"),
    "spec.readers",
}
"""Of meshnet, besides ``FOR_VERSION`` and the passes. A new name here is a new cost of every pod's start."""

STANDARD = {"ctypes", "errno", "fcntl", "itertools", "struct", "types"}
"""Modules in Python or C that ADD takes from the interpreter besides those of ``BARE`` (ctypes: 3.11 has no setns)."""

SCRIPT = """
import sys; sys.path.insert(0, sys.argv[1])
import os
from meshnet.cni import entry
code, answer = entry.call(os.environ, lambda _: sys.argv[2].encode())
print(code, answer)
print(*sys.modules)
"""


def loaded(environment: dict[str, str], text: str) -> tuple[str, set[str]]:
    argv = (sys.executable, "-I", "-S", "-c", SCRIPT, str(ROOT), text)
    said = subprocess.run(argv, env=environment, capture_output=True, text=True, check=True).stdout
    answer, _, modules = said.strip().rpartition("\n")
    return answer, {name for name in modules.split() if not name.startswith("_frozen")}


def of_meshnet(modules: set[str]) -> set[str]:
    return {name.removeprefix("meshnet.") for name in modules if name.startswith("meshnet.")}


def foreign(modules: set[str]) -> set[str]:
    ours = {"meshnet", "__main__", "builtins", "marshal", "posix", "zipimport"}
    found = {name.partition(".")[0] for name in modules}
    return {name for name in found - ours if not name.startswith("_")}


def test_version_loads_next_to_nothing() -> None:
    answer, modules = loaded({"CNI_COMMAND": "VERSION"}, "{}")
    assert answer.startswith("0 ")
    assert of_meshnet(modules) == FOR_VERSION
    assert foreign(modules) <= BARE


def test_add_loads_what_it_needs(tmp_path: Path) -> None:
    """As far as the namespace, which isn't there; what is loaded inside is held by the tests with a kernel."""
    environment = {"CNI_COMMAND": "ADD", "CNI_CONTAINERID": "one", "CNI_IFNAME": "eth0", "CNI_NETNS": "/none"}
    text = (
        '{"cniVersion": "1.1.0", "name": "net", "interception": {}, "prevResult": {}, '
        f'"stateDir": "{tmp_path}", "logFile": "{tmp_path}/log"}}'
    )
    answer, modules = loaded(environment, text)
    assert '"code": 3' in answer
    assert of_meshnet(modules) <= FOR_VERSION | FOR_ADD
    assert foreign(modules) <= BARE | STANDARD
