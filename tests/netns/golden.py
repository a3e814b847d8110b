"""istio-iptables' golden files on the kernel: their text as restore texts, and a namespace's rules without comments."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from meshnet.apply.reconcile import fresh_steps
from meshnet.compile.pipeline import compile_spec
from meshnet.render.plan import render
from tests.netns.snapshot import rules, run

if TYPE_CHECKING:
    from meshnet.kernel.netns import Namespace
    from meshnet.model.facts import Facts
    from meshnet.model.spec import Spec

VARIANTS = ("nft", "legacy")
TOOLS = {4: "iptables", 6: "ip6tables"}
GROUPS = {"java": 203, "ftp": 204}
"""Names that the golden files use for groups. They need not exist here, and the tools would look them up."""


def texts(path: Path) -> dict[int, str]:
    """Restore texts by family: IPv4 first, IPv6 from where a table appears a second time."""
    found: dict[int, list[str]] = {4: [], 6: []}
    family, seen = 4, set()
    for line in path.read_text().splitlines():
        if line.startswith("* "):
            if line in seen:
                family, seen = 6, set()
            seen.add(line)
            found[family].append(line.replace(" ", ""))
        elif line.startswith("-N "):
            found[family].append(f":{line[3:]} - [0:0]")
        elif line and not line.endswith("-save"):
            found[family].append(_numbers(line))
    return {family: "\n".join([*lines, ""]) for family, lines in found.items() if lines}


def _numbers(line: str) -> str:
    for name, number in GROUPS.items():
        line = line.replace(f"--gid-owner {name}", f"--gid-owner {number}")
    return line


def load(namespace: Namespace, variant: str, family: int, text: str) -> None:
    run(namespace, f"{TOOLS[family]}-{variant}-restore", "--noflush", text=text)


def load_golden(namespace: Namespace, variant: str, path: Path) -> None:
    for family, text in texts(path).items():
        load(namespace, variant, family, text)


def load_compiled(namespace: Namespace, variant: str, spec: Spec, facts: Facts) -> None:
    """What ``meshnet compile`` prints for a spec, but for the routing."""
    for step in fresh_steps(render(compile_spec(spec, facts))):
        if step.tool == "restore":
            load(namespace, variant, step.family, step.text)


def saved(namespace: Namespace, variant: str) -> dict[str, str]:
    """The rules by family as iptables-save prints them, without our comments."""
    found = {tool: rules(run(namespace, f"{tool}-{variant}-save")) for tool in TOOLS.values()}
    return {tool: re.sub(r' -m comment --comment "?meshnet:[^" ]*"?', "", text) for tool, text in found.items()}
