"""The JSON Schema of a document, from the table of fields.

A schema can't say everything: host bits, ports on which two listeners meet, and families that don't fit are judged
by decoding alone. What decodes is valid here; what is valid here may still have a problem that only words can say.
"""

from __future__ import annotations

from meshnet.model.spec import HIGHEST_ID, Spec
from meshnet.spec.dump import document_of, section_of
from meshnet.spec.fields import API_VERSION, FIELDS, HEAD, HEAD_SAYS, Each, Many, One, Section

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from meshnet.spec.fields import Field

DRAFT = "https://json-schema.org/draft/2020-12/schema"
OCTET = "(0|[1-9][0-9]?|1[0-9][0-9]|2[0-4][0-9]|25[0-5])"
IPV4 = rf"{OCTET}(\.{OCTET}){{3}}"
IPV6 = r"[0-9a-fA-F:]*:[0-9a-fA-F:]*(:[0-9.]+)?"
PREFIX4, PREFIX6 = "/(3[0-2]|[12]?[0-9])", "/(12[0-8]|1[01][0-9]|[1-9]?[0-9])"
NUMBER = "[1-9][0-9]{0,4}"


def _text(pattern: str, **more: object) -> dict[str, Any]:
    return {"type": "string", "pattern": f"^{pattern}$", **more}


def _either(low: int, high: int, pattern: str) -> list[dict[str, Any]]:
    return [{"type": "integer", "minimum": low, "maximum": high}, _text(pattern)]


KINDS: dict[str, dict[str, Any]] = {
    "port": {"title": "port", "description": "A port, 1 to 65535.", "anyOf": _either(1, 65535, NUMBER)},
    "ports": {
        "title": "port or range",
        "description": "A port, 1 to 65535, or a range of ports with both ends, lower end first, such as 9000-9100.",
        "anyOf": _either(1, 65535, f"{NUMBER}(-{NUMBER})?"),
    },
    "cidr": _text(
        f"({IPV4}({PREFIX4})?|{IPV6}({PREFIX6})?)",
        title="CIDR",
        description="A block of IPv4 or IPv6 addresses without host bits, or one address.",
    ),
    "address": _text(f"({IPV4}|{IPV6})", title="address", description="One IPv4 or IPv6 address."),
    "loopbackCidr": _text(
        rf"127(\.{OCTET}){{3}}({PREFIX4})?",
        title="loopback CIDR",
        description="An IPv4 block inside 127.0.0.0/8 without host bits, or one address.",
    ),
    "passthroughIpv4": _text(
        rf"(?!127\.0\.0\.[01]$)127(\.{OCTET}){{3}}",
        title="loopback address",
        description="An address in 127.0.0.0/8, but not 127.0.0.1.",
    ),
    "passthroughIpv6": _text(IPV6, title="IPv6 address", description="An IPv6 address, but not ::1."),
    "id": {
        "title": "user or group id",
        "description": f"A number from 0 to {HIGHEST_ID}.",
        "type": "integer",
        "minimum": 0,
        "maximum": HIGHEST_ID,
    },
    "ids": {
        "title": "id or range",
        "description": f"A number from 0 to {HIGHEST_ID}, or a range with both ends, lower end first, such as 106-108.",
        "anyOf": _either(0, HIGHEST_ID, "(0|[1-9][0-9]{0,9})(-(0|[1-9][0-9]{0,9}))?"),
    },
    "mark": {
        "title": "mark",
        "description": "A number of 32 bits, not 0; hexadecimal (0x539) or decimal.",
        "anyOf": _either(1, 0xFFFFFFFF, "(0x0*[1-9a-fA-F][0-9a-fA-F]{0,7}|[1-9][0-9]{0,9})"),
    },
    "table": {
        "title": "routing table",
        "description": "A number from 1 to 4294967295, but not 253 (default), 254 (main) or 255 (local).",
        "type": "integer",
        "minimum": 1,
        "maximum": 0xFFFFFFFF,
        "not": {"enum": [253, 254, 255]},
    },
    "flag": {"title": "true or false", "type": "boolean"},
    "name": _text(
        "[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?",
        title="DNS label",
        description="1 to 63 lower-case letters, digits and -, with a letter or digit at both ends.",
    ),
    "interface": _text(
        r"(?!(\.|\.\.|all|default|\+|lo|l\+|lo\+)$)(?!-)[!-~]{1,15}",
        title="interface",
        description="An interface name of at most 15 bytes; a trailing + stands for any rest. Never lo.",
        allOf=[{"not": {"pattern": r"[/:\\'\"`!*,;#{}$]"}}],
    ),
    "family": {"title": "family", "enum": ["ipv4", "ipv6"]},
    "inboundMode": {"title": "mode", "enum": ["redirect", "tproxy", "none"]},
    "outboundMode": {"title": "mode", "enum": ["redirect", "none"]},
    "profile": {"title": "profile", "enum": ["meshnet", "istio"]},
    "transport": {"title": "transport", "enum": ["tcp", "udp", "all"]},
    "enrol": {"title": "connections", "enum": ["new-connections", "any-segment"]},
    "nftTable": {
        "type": "string",
        "pattern": "^[a-z][-_a-z0-9]{0,62}$",
        "title": "table name",
        "description": "A lower-case letter and up to 62 more of them, digits, - or _.",
    },
    "dnsCapture": {
        "title": "capture",
        "description": "Write off in quotes: YAML 1.1 readers take the bare word for false.",
        "enum": ["off", "resolvers", "all"],
    },
}
"""How the words of each kind look, by the kind's key in ``fields``."""


def schema() -> dict[str, Any]:
    """The JSON Schema (draft 2020-12) of an Interception, as plain data."""
    head = {key: {"description": HEAD_SAYS[key], "const": word} for key, word in HEAD.items()}
    return {
        "$schema": DRAFT,
        "title": f"meshnet Interception ({API_VERSION})",
        "description": "Which traffic of a pod a proxy must see. Every field has a default.",
        "type": "object",
        "required": list(HEAD),
        "properties": {**head, **_properties(FIELDS, document_of(Spec()))},
        "additionalProperties": False,
        "$defs": KINDS,
    }


def _properties(fields: tuple[Field, ...], defaults: dict[str, Any]) -> dict[str, Any]:
    return {field.key: _property(field, defaults[field.key]) for field in fields}


def _property(field: Field, default: Any) -> dict[str, Any]:
    form: dict[str, Any]
    match field.shape:
        case Each():
            form = {"type": "array", "items": _entry(field.shape), "uniqueItems": True}
        case Section():
            return {
                "description": field.says,
                "type": ["object", "null"],
                "properties": _properties(field.shape.fields, default),
                "additionalProperties": False,
                "default": {},
            }
        case One():
            kind = {"$ref": f"#/$defs/{field.shape.kind.key}"}
            form = {"anyOf": [kind, {"type": "null"}]} if field.shape.optional else kind
        case Many():
            form = _many(field.shape)
    return {"description": field.says, **form, "default": default}


def _entry(shape: Each) -> dict[str, Any]:
    properties = _properties(shape.entry.fields, section_of(shape.entry, shape.example))
    for key in shape.needs:
        del properties[key]["default"]
    return {
        "type": "object",
        "required": list(shape.needs),
        "properties": properties,
        "additionalProperties": False,
    }


def _many(shape: Many) -> dict[str, Any]:
    form: dict[str, Any] = {"type": "array", "items": {"$ref": f"#/$defs/{shape.kind.key}"}, "uniqueItems": True}
    if shape.least:
        form["minItems"] = shape.least
    return {"anyOf": [{"const": shape.word}, form]} if shape.word else form
