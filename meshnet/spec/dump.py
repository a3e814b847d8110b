"""A Spec back to a document: plain data, or YAML text that every YAML reader takes for the same."""

from __future__ import annotations

from meshnet.model.cidr import Cidr
from meshnet.model.ports import PortRange
from meshnet.model.spec import IdRange
from meshnet.spec.fields import FAMILY, HEAD, MARK, SPEC, Each, Many, Section

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from meshnet.model.spec import Spec
    from meshnet.spec.fields import Field, Kind

WIDEST = 100
"""Lists that would make a longer line are written one item a line."""


def document_of(spec: Spec) -> dict[str, Any]:
    """Every field in the document's form, defaults too: dict, list, str, int, bool and None."""
    return {**HEAD, **section_of(SPEC, spec)}


def to_yaml(spec: Spec) -> str:
    """The document as YAML text; loading it gives an equal Spec."""
    lines = [f"{key}: {word}" for key, word in HEAD.items()]
    document = document_of(spec)
    for field in SPEC.fields:
        if isinstance(field.shape, Section):
            lines.append(f"{field.key}:")
            for inner in field.shape.fields:
                lines += _lines(f"  {inner.key}", inner, document[field.key][inner.key])
        else:
            lines += _lines(field.key, field, document[field.key])
    return "\n".join(lines) + "\n"


def word_of(section: Section, item: object, keys: tuple[str, ...] = ()) -> str:
    """A section on one line, in brackets; with ``keys`` only these of its fields."""
    return _mapping(section, section_of(section, item), keys)


def plain(kind: Kind, item: object) -> str | int | bool | None:
    """One word's value in the document's form."""
    match item:
        case PortRange() | IdRange():
            return item.first if item.first == item.last else str(item)
        case Cidr():
            return str(item) if kind.key in ("cidr", "loopbackCidr") else item.address
        case int() if kind.key == FAMILY.key:
            return f"ipv{item}"
        case str() | int() | None:
            return item
    raise TypeError(f"no {kind.key} of a spec: {item!r}")


def section_of(section: Section, item: object) -> dict[str, Any]:
    """A section's value in the document's form."""
    found: dict[str, Any] = {}
    for field in section.fields:
        there = getattr(item, field.attribute)
        match field.shape:
            case Section():
                found[field.key] = section_of(field.shape, there)
            case Each():
                found[field.key] = [section_of(field.shape.entry, entry) for entry in there]
            case Many() if not isinstance(there, str):
                found[field.key] = [plain(field.shape.kind, entry) for entry in there]
            case _:
                found[field.key] = plain(field.shape.kind, there)
    return found


def _lines(key: str, field: Field, item: object) -> list[str]:
    """A field's lines; a list that would make too long a line, or one of sections, has a line for each entry."""
    indent = " " * (len(key) - len(key.lstrip()) + 2)
    line = f"{key}: {_value(field, item)}"
    sections = isinstance(field.shape, Each) and item
    if not isinstance(item, list) or (len(line) <= WIDEST and not sections):
        return [line]
    return [f"{key}:", *(f"{indent}- {_value(field, [entry])[1:-1]}" for entry in item)]


def _value(field: Field, item: Any) -> str:
    shape = field.shape
    assert not isinstance(shape, Section)
    if isinstance(shape, Each):
        return f"[{', '.join(_mapping(shape.entry, entry) for entry in item)}]"
    if isinstance(item, list):
        return f"[{', '.join(_word(shape.kind, entry) for entry in item)}]"
    return _word(shape.kind, item)


def _mapping(section: Section, item: dict[str, Any], keys: tuple[str, ...] = ()) -> str:
    kept = [field for field in section.fields if not keys or field.key in keys]
    return f"{{{', '.join(f'{field.key}: {_value(field, item[field.key])}' for field in kept)}}}"


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
