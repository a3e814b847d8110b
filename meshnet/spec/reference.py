"""The reference of the spec for people, from its JSON Schema."""

from __future__ import annotations

import json

from meshnet.model.spec import Spec
from meshnet.spec.dump import to_yaml
from meshnet.spec.schema import schema

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

INTRODUCTION = """\
# The spec

<!-- Generated from the JSON Schema by scripts/gen_spec_docs.py; edit meshnet/spec/fields.py instead. -->

A spec is a YAML or JSON document that says which traffic of a pod a proxy must see. `apiVersion` and `kind` are
required; every other field has a default, and a section may be left out, empty or null. A list is one of three
things: `"*"` for all (where a field allows it), `[]` for none, or its entries. `meshnet schema` prints the JSON
Schema for editors and CI.

Words are read strictly. Ports are decimal numbers and never service names, addresses have four decimal numbers
without leading zeros, a block has no host bits, and nothing is silently changed or left out. Every problem of a
document is reported in one go, each as

```
file:line: path: what is wrong (value): what would be right
```

and the command ends with exit code 2.
"""

BETWEEN = """\
## Between the fields

Some problems lie between two fields. These are refused too:

- `outbound.mode: redirect`, or DNS capture, without any `sidecar` uid, gid or mark: the proxy would capture itself.
- A range as `inbound.port` with any mode but `redirect`.
- Two listeners in use on one port: `inbound.port`, `inbound.tunnelPort`, `outbound.port` and `dns.port` differ.
- Marks that are equal, or that have bits outside `marks.mask`.
- An interface in `interfaces.guest` or `interfaces.networks` that `interfaces.exclude` covers, or that two of these
  entries are about; two blocks of one family in one network, or a block of all addresses.
- A block in `outbound.cidrs` that is in `outbound.excludeCidrs` too, or that lies inside `outbound.loopbackCidr` or
  is `::1`: it would never be captured. (Profile istio takes such lists as they are.)
- `profile: istio` with `sidecar.mark`, `inbound.excludeSources`, `inbound.ownPod: false`, `outbound.excludeUsers`,
  `interfaces.networks`, or `inbound.originalSource` under `redirect`: there are no such rules of istio-iptables.
- A list entry of a family that `families` leaves out.
"""


def reference() -> str:
    """The text of ``docs/spec.md``."""
    document = schema()
    parts = [INTRODUCTION, "## All fields with their defaults\n", f"```yaml\n{to_yaml(Spec())}```\n", "## Document\n"]
    sections = {key: part for key, part in document["properties"].items() if "properties" in part}
    parts.append(_table(document["properties"], document["$defs"]))
    for key, section in sections.items():
        parts += [f"## {key}\n", f"{section['description']}\n", _table(section["properties"], document["$defs"], key)]
        for inner, part in section["properties"].items():
            if "properties" in part.get("items", {}):
                parts += [f"### {key}.{inner}\n", "Each entry has these fields.\n"]
                parts.append(_table(part["items"]["properties"], document["$defs"]))
    kinds = [f"| {kind['title']} | {kind['description']} |" for kind in _described(document["$defs"]).values()]
    parts += ["## Kinds of values\n", "\n".join(["| Kind | Form |", "|---|---|", *kinds]) + "\n", BETWEEN]
    return "\n".join(parts)


def _described(kinds: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {kind["title"]: kind for kind in kinds.values() if "description" in kind}


def _table(properties: dict[str, Any], kinds: dict[str, dict[str, Any]], section: str = "") -> str:
    rows = ["| Field | Value | Default | Meaning |", "|---|---|---|---|"]
    for key, part in properties.items():
        if "properties" in part:
            rows.append(f"| [`{key}`](#{key}) | section | | {part['description']} |")
        else:
            default = f"`{json.dumps(part['default'])}`" if "default" in part else "required"
            entries = "properties" in part.get("items", {})
            value = f"list of: [entries](#{section}{key.lower()})" if entries else _value(part, kinds)
            rows.append(f"| `{key}` | {value} | {default} | {part['description']} |")
    return "\n".join(rows) + "\n"


def _value(part: dict[str, Any], kinds: dict[str, dict[str, Any]]) -> str:
    """What may stand there, in words."""
    if "const" in part:
        return f"`{json.dumps(part['const'])}`"
    if part.get("type") == "null":
        return "`null`"
    if part.get("type") == "array":
        return f"list of: {_value(part['items'], kinds)}"
    if "$ref" in part:
        kind = kinds[part["$ref"].rpartition("/")[2]]
        return ", ".join(f"`{word}`" for word in kind["enum"]) if "enum" in kind else str(kind["title"])
    return " or ".join(_value(choice, kinds) for choice in part["anyOf"])
