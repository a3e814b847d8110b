"""The steps of a change set as text that can be fed to the tools by hand."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from meshnet.model.cidr import Family
    from meshnet.model.plan import ChangeSet, Step


def tool_name(backend: str, family: Family) -> str:
    names = {"iptables-nft": "{}-nft-restore", "iptables-legacy": "{}-legacy-restore", "libiptc": "libiptc: {}-restore"}
    return names.get(backend, "{}-restore").format("ip6tables" if family == 6 else "iptables")


def steps_data(backend: str, steps: Iterable[Step]) -> list[dict[str, Any]]:
    """The steps as an answer in JSON has them; ``backend`` is the one that was chosen."""
    return [
        {"tool": step.tool, "backend": step.backend or backend, "family": step.family, "text": step.text}
        for step in steps
    ]


def steps_text(backend: str, changes: ChangeSet) -> str:
    parts = []
    for step in changes.steps:
        match step.tool:
            case "ip":
                parts.append(f"# ip -{step.family} -batch -\n{step.text}")
            case "restore":
                parts.append(f"# {tool_name(step.backend or backend, step.one_family)} --noflush\n{step.text}")
            case "ipset" | "ipset destroy":
                parts.append(f"# ipset restore\n{step.text}")
            case "nft":
                parts.append(f"# nft -f -\n{step.text}")
            case "drop":
                parts.append(f"# take the empty IPv{step.family} table {step.text} away\n")
    return "\n".join(parts)
