"""The steps of a change set as text that can be fed to the tools by hand."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from meshnet.model.cidr import Family
    from meshnet.model.plan import ChangeSet


def tool_name(backend: str, family: Family) -> str:
    names = {"iptables-nft": "{}-nft-restore", "iptables-legacy": "{}-legacy-restore", "libiptc": "libiptc: {}-restore"}
    return names.get(backend, "{}-restore").format("ip6tables" if family == 6 else "iptables")


def steps_text(backend: str, changes: ChangeSet) -> str:
    parts = []
    for step in changes.steps:
        match step.tool:
            case "ip":
                parts.append(f"# ip -{step.family} -batch -\n{step.text}")
            case "restore":
                parts.append(f"# {tool_name(backend, step.one_family)} --noflush\n{step.text}")
            case "ipset" | "ipset destroy":
                parts.append(f"# ipset restore\n{step.text}")
            case "nft":
                parts.append(f"# nft -f -\n{step.text}")
            case "drop":
                parts.append(f"# take the empty IPv{step.family} table {step.text} away\n")
    return "\n".join(parts)
