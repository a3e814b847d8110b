"""A Spec back to a document: plain data, or YAML text that every YAML reader takes for the same."""

from __future__ import annotations

from meshnet.model.cidr import Cidr
from meshnet.model.ports import PortRange
from meshnet.spec.fields import FAMILY, HEAD, MARK, SPEC, Many, Section

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from meshnet.model.spec import Spec
    from meshnet.spec.fields import Kind

WIDEST = 100
"""Lists that would make a longer line are written one item a line."""


def document_of(spec: Spec) -> dict[str, Any]:
    """Every field in the document's form, defaults too: dict, list, str, int, bool and None."""
    return {**HEAD, **_section(SPEC, spec)}


def to_yaml(spec: Spec) -> str:
    """The document as YAML text; loading it gives an equal Spec."""
    lines = [f"{key}: {word}" for key, word in HEAD.items()]
    document = document_of(spec)
    for field in SPEC.fields:
        if isinstance(field.shape, Section):
            lines.append(f"{field.key}:")
            for inner in field.shape.fields:
                assert not isinstance(inner.shape, Section)
                lines += _lines(f"  {inner.key}", inner.shape.kind, document[field.key][inner.key])
        else:
            lines += _lines(field.key, field.shape.kind, document[field.key])
    return "\n".join(lines) + "\n"


def plain(kind: Kind, item: object) -> str | int | bool | None:
    """One word's value in the document's form."""
    match item:
        case PortRange():
            return item.first if item.single else str(item)
        case Cidr():
            return str(item) if kind.key in ("cidr", "loopbackCidr") else item.address
        case int() if kind.key == FAMILY.key:
            return f"ipv{item}"
        case str() | int() | None:
            return item
    raise TypeError(f"no {kind.key} of a spec: {item!r}")


def _section(section: Section, item: object) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for field in section.fields:
        there = getattr(item, field.attribute)
        match field.shape:
            case Section():
                found[field.key] = _section(field.shape, there)
            case Many() if not isinstance(there, str):
                found[field.key] = [plain(field.shape.kind, entry) for entry in there]
            case _:
                found[field.key] = plain(field.shape.kind, there)
    return found


def _lines(key: str, kind: Kind, item: object) -> list[str]:
    if not isinstance(item, list):
        return [f"{key}: {_word(kind, item)}"]
    words = [_word(kind, entry) for entry in item]
    line = f"{key}: [{', '.join(words)}]"
    indent = " " * (len(key) - len(key.lstrip()) + 2)
    return [line] if len(line) <= WIDEST else [f"{key}:", *(f"{indent}- {word}" for word in words)]


def _word(kind: Kind, item: object) -> str:
    """Text in quotes unless it is letters that no YAML reader takes for anything but text."""
    if item is None or isinstance(item, bool):
        return {None: "null", True: "true", False: "false"}[item]
    if isinstance(item, int):
        return f"{item:#x}" if kind.key == MARK.key else str(item)
    text = str(item)
    letters = text.replace("-", "")
    if letters.isalpha() and letters.islower() and text[0] != "-" and text not in WORDS:
        return text
    return f'"{text}"'


WORDS = ("true", "false", "yes", "no", "on", "off", "y", "n", "null")
