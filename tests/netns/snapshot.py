"""Everything in a namespace that an apply may change, as text that is equal when the namespace is."""

from __future__ import annotations

import re
import subprocess

from meshnet.kernel.netns import Namespace

LEGACY_TABLES = {"iptables": "ip_tables_names", "ip6tables": "ip6_tables_names"}
NFT_TOOLS = ("iptables", "ip6tables")
ROUTING = (
    ("ip", "rule", "show"),
    ("ip", "-6", "rule", "show"),
    ("ip", "route", "show", "table", "all"),
    ("ip", "-6", "route", "show", "table", "all"),
)


def run(namespace: Namespace, *argv: str, text: str | None = None, env: dict[str, str] | None = None) -> str:
    """Run a program in a namespace; its output. Fails the test with the program's words when it fails."""
    with namespace.entered():
        done = subprocess.run(
            argv, input=text or "", capture_output=True, text=True, timeout=60, check=False, env=_environment(env)
        )
    assert done.returncode == 0, f"{' '.join(argv)}: {done.stderr}\n{text or ''}"
    return done.stdout


def _environment(more: dict[str, str] | None) -> dict[str, str]:
    """The legacy tools' lock is one file for all namespaces of a host: here it is their own standard input."""
    path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    return {"PATH": path, "LC_ALL": "C", "XTABLES_LOCKFILE": "/proc/self/fd/0", **(more or {})}


def snapshot(namespace: Namespace) -> dict[str, str]:
    """By what was asked: rules of both variants and families, nft tables, policy rules, routes, addresses of lo."""
    seen = {f"{tool}-nft": rules(run(namespace, f"{tool}-nft-save")) for tool in NFT_TOOLS}
    for tool, names in LEGACY_TABLES.items():
        seen[f"{tool}-legacy"] = legacy(namespace, tool, names)
    tables = sorted(run(namespace, "nft", "list", "tables").split("\n"))
    seen["nft tables"] = "\n".join(tables)
    for table in tables:
        if table.startswith("table inet "):
            seen[table] = run(namespace, "nft", "-s", "list", *table.split())
    seen["sets"] = "\n".join(sorted(run(namespace, "ipset", "save", "-sorted").splitlines()))
    seen["sets"] = re.sub(r" (bucketsize|initval) \S+", "", seen["sets"])
    for argv in ROUTING:
        seen[" ".join(argv)] = "\n".join(sorted(_timeless(run(namespace, *argv)).splitlines()))
    seen["lo"] = _timeless(run(namespace, "ip", "-o", "addr", "show", "lo"))
    return seen


def legacy(namespace: Namespace, tool: str, names: str) -> str:
    """The legacy rules; nothing is asked, and so no table made, where there is none. An empty table equals none."""
    with namespace.entered(), open(f"/proc/thread-self/net/{names}") as file:
        if not file.read().strip():
            return ""
    return rules(run(namespace, f"{tool}-legacy-save"), without_empty=True)


def rules(text: str, *, without_empty: bool = False) -> str:
    """The output of iptables-save: tables by name, without comments and counters; the order of rules is kept."""
    tables: dict[str, list[str]] = {}
    name = ""
    for line in text.splitlines():
        if line.startswith("#"):
            continue
        if line.startswith("*"):
            name = line
            tables[name] = []
        else:
            tables[name].append(re.sub(r"\[\d+:\d+\]", "[0:0]", line))
    kept = {
        name: lines
        for name, lines in tables.items()
        if not without_empty or any(re.match(r"-A |:\S+ (?!ACCEPT)", line) for line in lines)
    }
    return "\n".join("\n".join([name, *kept[name]]) for name in sorted(kept))


def _timeless(text: str) -> str:
    """Without life times, what the kernel counts down, and that it hasn't yet heard of a cable's other end."""
    return re.sub(r" (expires|valid_lft|preferred_lft) \S+| linkdown", "", text)


def foreign_lines(text: str) -> list[str]:
    """The lines of a save output that aren't meshnet's, in their order."""
    return [line for line in text.splitlines() if "MESHNET_" not in line and "meshnet:" not in line]
