"""Nodes to a Spec. Every problem is collected; what is wrong takes its default, so that the rest can be judged too."""

from __future__ import annotations

from meshnet.model.errors import Wrong
from meshnet.spec.fields import FIELDS, HEAD, SPEC, Each, Many, One, Section
from meshnet.spec.nodes import LONGEST, Listing, Mapping, Scalar, printable, shown
from meshnet.spec.problem import Problem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from meshnet.model.spec import Spec
    from meshnet.spec.fields import Field, Kind
    from meshnet.spec.nodes import Node


class Decoder:
    """One document's way to a Spec: its problems, and the line of everything that it mentions."""

    def __init__(self) -> None:
        self.problems: list[Problem] = []
        self.lines: dict[str, int] = {}
        self.items: dict[str, list[int]] = {}

    def document(self, root: Mapping) -> Spec:
        """The Spec; only good when ``problems`` is empty afterwards."""
        from meshnet.spec.check import conflicts

        self.lines[""] = root.line
        entries = self._entries(root, "", [*HEAD, *(field.key for field in FIELDS)])
        for key, right in HEAD.items():
            node = entries.pop(key, None)
            if node is None:
                self._wrong(root.line, key, "missing", right)
            elif not isinstance(node, Scalar) or node.text != right:
                self._wrong(node.line, key, f"unknown {key} ({shown(node)})", right)
        spec: Spec = self._fields(SPEC, entries, "")
        reported = {problem.path.partition("[")[0] for problem in self.problems}
        for conflict in conflicts(spec):
            if not any(_touches(path, wrong) for path in conflict.involved for wrong in reported):
                self._wrong(self.line_of(conflict.path), conflict.path, conflict.what, conflict.right)
        return spec

    def line_of(self, path: str) -> int:
        """The line of a path, or of the nearest thing around it that the document mentions."""
        return find_line(self.lines, self.items, path)

    def _fields(self, section: Section, entries: dict[str, Node], path: str) -> Any:
        return section.made(**self._read(section, entries, path))

    def _read(self, section: Section, entries: dict[str, Node], path: str) -> dict[str, object]:
        """What could be read of a section's fields, by attribute."""
        found: dict[str, object] = {}
        for field in section.fields:
            node = entries.get(field.key)
            if node is None:
                continue
            try:
                found[field.attribute] = self._field(field, node, f"{path}.{field.key}" if path else field.key)
            except _Refused:
                continue
        return found

    def _field(self, field: Field, node: Node, path: str) -> object:
        match field.shape:
            case Section():
                return self._section(field.shape, node, path)
            case Many():
                return self._many(field.shape, node, path)
            case Each():
                return self._each(field.shape, node, path)
            case One():
                if field.shape.optional and isinstance(node, Scalar) and node.null:
                    return None
                return self._word(field.shape.kind, node, path)

    def _section(self, section: Section, node: Node, path: str) -> object:
        if isinstance(node, Scalar) and node.null:
            return section.made()
        if not isinstance(node, Mapping):
            right = f"keys and values, such as {section.fields[0].key}: …"
            raise self._wrong(node.line, path, f"no keys and values ({shown(node)})", right)
        return self._fields(section, self._entries(node, path, [field.key for field in section.fields]), path)

    def _many(self, shape: Many, node: Node, path: str) -> object:
        example = f"[{shape.kind.example}]"
        rights = f'"{shape.word}" or a list, such as {example}' if shape.word else f"a list, such as {example}"
        if isinstance(node, Scalar):
            if shape.word and node.text == shape.word:
                return shape.word
            if node.null or not node.text:
                rights += "" if shape.least else "; [] for none"
                raise self._wrong(node.line, path, f"nothing is given ({shown(node)})", rights)
            raise self._wrong(node.line, path, f"one word in place of a list ({shown(node)})", rights)
        if isinstance(node, Mapping):
            raise self._wrong(node.line, path, f"keys and values in place of a list ({shown(node)})", rights)
        if len(node.items) < shape.least:
            raise self._wrong(node.line, path, "an empty list ([])", rights)
        return self._list(lambda item, place: self._word(shape.kind, item, place, empty="an empty item"), node, path)

    def _each(self, shape: Each, node: Node, path: str) -> object:
        if not isinstance(node, Listing):
            what = "nothing is given" if isinstance(node, Scalar) and (node.null or not node.text) else "no list"
            right = f"a list, such as [{_example(shape)}]; [] for none"
            raise self._wrong(node.line, path, f"{what} ({shown(node)})", right)
        return self._list(lambda item, place: self._entry(shape, item, place), node, path)

    def _entry(self, shape: Each, node: Node, path: str) -> object:
        if not isinstance(node, Mapping):
            raise self._wrong(node.line, path, f"no keys and values ({shown(node)})", _example(shape))
        before = len(self.problems)
        entries = self._entries(node, path, [field.key for field in shape.entry.fields])
        for key in shape.needs:
            if key not in entries:
                self._wrong(node.line, f"{path}.{key}", "missing", f"such as in {_example(shape)}")
        found = self._read(shape.entry, entries, path)
        if len(self.problems) > before:
            raise _Refused
        return shape.entry.made(**found)

    def _list(self, read: Callable[[Node, str], object], node: Listing, path: str) -> tuple[object, ...]:
        self.items[path] = [item.line for item in node.items]
        first: dict[object, int] = {}
        before = len(self.problems)
        for place, item in enumerate(node.items):
            try:
                found = read(item, f"{path}[{place}]")
            except _Refused:
                continue
            if found in first:
                there = first[found]
                line = f" on line {node.items[there].line}" if node.items[there].line else ""
                what = f"given twice ({shown(item)})"
                self._wrong(item.line, f"{path}[{place}]", what, f"once; it is {path}[{there}]{line} already")
            else:
                first[found] = place
        if len(self.problems) > before:
            raise _Refused  # a list of the good items alone has other places than the document's
        return tuple(first)

    def _word(self, kind: Kind, node: Node, path: str, empty: str = "nothing is given") -> object:
        right = f"{kind.says}, such as {kind.example}"
        if not isinstance(node, Scalar):
            raise self._wrong(node.line, path, f"{shown(node)} in place of {kind.says}", right)
        if node.null or not node.text:
            raise self._wrong(node.line, path, f"{empty} ({shown(node)})", right)
        if len(node.text) > LONGEST or not node.text.isprintable():
            raise self._wrong(node.line, path, f"not {kind.says} ({shown(node)})", right)
        if not node.plain and not kind.text:
            raise self._wrong(node.line, path, f'text, not {kind.says} ("{shown(node)}")', "the same without quotes")
        try:
            return kind.read(node.text)
        except Wrong as wrong:
            raise self._wrong(node.line, path, wrong.what, wrong.right) from None

    def _entries(self, node: Mapping, path: str, known: list[str]) -> dict[str, Node]:
        """The values by key. Unknown keys, keys given twice and keys that are no words are reported and left out."""
        found: dict[str, Node] = {}
        inside = f"{path}." if path else ""
        for key, item in node.entries:
            if not isinstance(key, Scalar) or key.null or not key.text:
                self._wrong(key.line, path, f"a key that is no word ({shown(key)})", f"one of {', '.join(known)}")
            elif key.text not in known:
                self._wrong(key.line, inside + printable(key.text), f"unknown key ({shown(key)})", _meant(key, known))
            elif key.text in found:
                what = f"a key given twice (first on line {self.lines[inside + key.text]})"
                self._wrong(key.line, inside + key.text, what, "one of the two")
            else:
                found[key.text] = item
                self.lines[inside + key.text] = key.line
        return found

    def _wrong(self, line: int, path: str, what: str, right: str) -> _Refused:
        self.problems.append(Problem(line, path, what, right))
        return _Refused()


class _Refused(Exception):
    """Leaves a field whose problem is noted."""


def find_line(lines: dict[str, int], items: dict[str, list[int]], path: str) -> int:
    """The line of ``path`` among the lines of keys and list items, or of the nearest thing around it."""
    while path and path not in lines:
        base, bracket, place = path.rpartition("[")
        index = place.removesuffix("]")
        if not bracket or not path.endswith("]"):
            path = path.rpartition(".")[0]
        elif index.isdecimal() and int(index) < len(items.get(base, ())):
            return items[base][int(index)]
        else:
            path = base
    return lines.get(path, 1)


def _example(shape: Each) -> str:
    from meshnet.spec.dump import word_of

    return word_of(shape.entry, shape.example, shape.needs)


def _touches(path: str, wrong: str) -> bool:
    return path == wrong or wrong == "" or path.startswith(f"{wrong}.") or wrong.startswith(f"{path}.")


def _meant(key: Scalar, known: list[str]) -> str:
    """What an unknown key may have been: a neighbour in spelling, or the same key of another section."""
    from meshnet.spec.nearest import nearest

    if key.text == "<<":
        return "the keys themselves; mappings are not merged"
    near = nearest(key.text, known)
    if near and near.lower() == key.text.lower():
        return near
    sections = [field for field in FIELDS if isinstance(field.shape, Section)]
    elsewhere = [
        f"{field.key}.{inner.key}"
        for field in sections
        if isinstance(field.shape, Section)
        for inner in field.shape.fields
        if inner.key == key.text
    ]
    if elsewhere and not near:
        return " or ".join(elsewhere)
    return near or f"one of {', '.join(known)}"
