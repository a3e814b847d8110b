"""YAML or JSON text to a tree of nodes.

Built from the parser's events and not from its composer: events show tags, anchors and further documents, a loop
over them takes no stack (a thousand open brackets do), and it costs a third of the composer's time.
"""

from __future__ import annotations

from meshnet.spec.nodes import Listing, Mapping, Scalar, printable
from meshnet.spec.problem import Problem, refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    import yaml

    from meshnet.spec.nodes import Node

DEEPEST = 16
"""A spec is six levels deep. A document of brackets is stopped here, before it takes the parser's time."""

EXAMPLE = "apiVersion: meshnet/v1, kind: Interception, and what to intercept"


def read_tree(text: str, file: str) -> Mapping:
    """The mapping that a document is. SpecError for text that is no YAML, no mapping or more than one document."""
    builder = _Builder()
    try:
        for event in _events(text):
            builder.take(event)
    except _Stop as stop:
        raise refusal(file, [*builder.problems, stop.problem]) from None
    root = builder.root
    if root is None or (isinstance(root, Scalar) and root.null):
        builder.problems.append(Problem(1, "", "nothing is written here", EXAMPLE))
    elif not isinstance(root, Mapping):
        kind = "a list" if isinstance(root, Listing) else f"one word ({printable(root.text)})"
        builder.problems.append(Problem(root.line, "", f"{kind} in place of keys and values", EXAMPLE))
    if builder.problems or not isinstance(root, Mapping):
        raise refusal(file, builder.problems)
    return root


class _Stop(Exception):
    """Ends the reading; what a caller sees is a SpecError."""

    def __init__(self, line: int, what: str, right: str) -> None:
        super().__init__(what)
        self.problem = Problem(line, "", what, right)


class _Builder:
    """Puts events together. ``open`` holds the collections that are not closed yet, each with its waiting key."""

    def __init__(self) -> None:
        self.root: Node | None = None
        self.problems: list[Problem] = []
        self._documents = 0
        self._open: list[Listing | Mapping] = []
        self._keys: list[Node | None] = []
        self._anchors: dict[str, Node] = {}

    def take(self, event: Any) -> None:
        name = type(event).__name__
        if name == "ScalarEvent":
            self._put(event, Scalar(event.start_mark.line + 1, event.value, not event.style))
        elif name == "SequenceStartEvent":
            self._begin(event, Listing(event.start_mark.line + 1, []))
        elif name == "MappingStartEvent":
            self._begin(event, Mapping(event.start_mark.line + 1, []))
        elif name in ("SequenceEndEvent", "MappingEndEvent"):
            self._open.pop()
            self._keys.pop()
        elif name == "AliasEvent":
            self._alias(event)
        elif name == "DocumentStartEvent":
            self._documents += 1
            if self._documents > 1:
                raise _Stop(event.start_mark.line + 1, "a second document", "one Interception in a file")

    def _begin(self, event: Any, node: Listing | Mapping) -> None:
        self._put(event, node)
        self._open.append(node)
        self._keys.append(None)
        if len(self._open) > DEEPEST:
            raise _too_deep(node.line)

    def _alias(self, event: Any) -> None:
        """The node that was anchored. Decoding goes by the spec's own shape, so a node in itself is no endless way."""
        line = event.start_mark.line + 1
        node = self._anchors.get(event.anchor)
        if node is None:
            raise _Stop(line, f"an alias of nothing (*{printable(event.anchor)})", "an anchor above it, or the value")
        match node:  # what the alias stands for, on the line of the alias
            case Scalar():
                self._place(Scalar(line, node.text, node.plain))
            case Listing():
                self._place(Listing(line, node.items))
            case Mapping():
                self._place(Mapping(line, node.entries))

    def _put(self, event: Any, node: Node) -> None:
        if event.tag is not None:
            tag = printable(event.tag.replace("tag:yaml.org,2002:", "!!"))
            self.problems.append(Problem(node.line, "", f"a YAML tag ({tag})", "the value alone"))
        if event.anchor is not None:
            self._anchors[event.anchor] = node
        self._place(node)

    def _place(self, node: Node) -> None:
        if not self._open:
            self.root = node
            return
        parent = self._open[-1]
        if isinstance(parent, Listing):
            parent.items.append(node)
            return
        key = self._keys[-1]
        if key is None:
            self._keys[-1] = node
        else:
            parent.entries.append((key, node))
            self._keys[-1] = None


def _events(text: str) -> Iterator[Any]:
    import yaml  # a third of a spec's loading time; the library's callers who build a Spec by hand never pay it

    loader = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    if text.lstrip("\ufeff \t\r\n")[:1] == "{":
        # JSON indented with tabs is good JSON; YAML takes tabs in brackets or refuses them, depending on the parser.
        text = text.replace("\t", " ")
    try:
        yield from yaml.parse(text, Loader=loader)
    except yaml.reader.ReaderError as error:
        place = error.position if isinstance(error.position, int) else 0
        before = text.encode("utf-8", "replace")[:place] if error.encoding != "unicode" else text[:place].encode()
        raise _Stop(before.count(b"\n") + 1, f"not text ({printable(error.reason)})", "UTF-8 text") from None
    except yaml.MarkedYAMLError as error:
        raise _syntax(error, text) from None
    except UnicodeError as error:
        line = text.count("\n", 0, getattr(error, "start", 0)) + 1
        raise _Stop(line, "not text (half of a character)", "UTF-8 text") from None


def _too_deep(line: int) -> _Stop:
    return _Stop(line, f"nested more than {DEEPEST} levels deep", "a spec has six levels")


def _syntax(error: yaml.MarkedYAMLError, text: str) -> _Stop:
    mark = error.problem_mark or error.context_mark
    line = mark.line + 1 if mark else 1
    lines = text.splitlines()
    said = ", ".join(part for part in (error.context, error.problem) if part)
    if line <= len(lines) and lines[line - 1][: len(lines[line - 1]) - len(lines[line - 1].lstrip())].count("\t"):
        return _Stop(line, "a tab in the indentation", "blanks; YAML takes no tabs there")
    if "nesting depth" in said:  # libyaml looks ahead, and may count the brackets of one line before we do
        return _too_deep(line)
    if "node content" in said:
        return _Stop(
            line,
            "nothing between two commas, or a bracket too many",
            "a value for each comma; in brackets, ::6 needs quotes",
        )
    return _Stop(line, f"not YAML ({printable(said, 160)})", "key: value, two blanks for each level")
