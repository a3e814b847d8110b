"""A document as a tree of places: what is written, on which line, and whether it stood in quotes.

Nothing is interpreted here. A YAML reader that interprets turns ``010`` into eight, ``22:30`` into 1350 and ``off``
into false before anybody can say that it was not meant so.
"""

from __future__ import annotations

from meshnet.model.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Union

    Node = Union["Scalar", "Listing", "Mapping"]  # noqa: UP007  (the names come later in this file)

NULLS = ("", "~", "null", "Null", "NULL")
LONGEST = 100
"""No value of a spec is longer: an IPv6 block has 43 characters, a name 63."""


@value
class Scalar:
    """One word. ``plain`` is without quotes, where ``true``, ``null`` and numbers are more than text."""

    line: int
    text: str
    plain: bool = True

    @property
    def null(self) -> bool:
        return self.plain and self.text in NULLS


@value
class Listing:
    line: int
    items: list[Node]


@value
class Mapping:
    """Entries in the order of the document; a key may be there twice, and may be no word at all."""

    line: int
    entries: list[tuple[Node, Node]]


def shown(node: Node) -> str:
    """A node in a few printable characters, for a message of one line."""
    match node:
        case Scalar():
            return "null" if node.null else '""' if not node.text else printable(node.text)
        case Listing():
            return f"a list of {len(node.items)}"
        case Mapping():
            return f"a mapping of {len(node.entries)}"


def printable(text: str, longest: int = 60) -> str:
    """Text without control characters, cut to ``longest`` characters."""
    cut = text if len(text) <= longest else text[: longest - 1] + "…"
    return cut if cut.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in cut)


def node_of(plain: object) -> Node:
    """Plain data (dict, list, text, numbers, None) as a tree without lines."""
    if isinstance(plain, dict):
        return Mapping(0, [(node_of(key), node_of(item)) for key, item in plain.items()])
    if isinstance(plain, list | tuple):
        return Listing(0, [node_of(item) for item in plain])
    if isinstance(plain, str):
        return Scalar(0, plain, plain=False)
    if plain is None or isinstance(plain, bool):
        return Scalar(0, "null" if plain is None else "true" if plain else "false")
    return Scalar(0, str(plain))
