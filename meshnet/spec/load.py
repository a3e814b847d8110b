"""Text to a Spec, with the line of everything in it."""

from __future__ import annotations

from meshnet.model.spec import Spec
from meshnet.model.value import value
from meshnet.spec.decode import Decoder, find_line
from meshnet.spec.problem import refusal
from meshnet.spec.tree import read_tree


@value
class Document:
    """A spec and where it is written. ``lines`` has the keys' lines by path, ``items`` those of each list's items."""

    spec: Spec
    file: str
    lines: dict[str, int]
    items: dict[str, list[int]]

    def line_of(self, path: str) -> int:
        """The line (from 1) of a path such as ``inbound.excludePorts[1]``; of what is around it for a default."""
        return find_line(self.lines, self.items, path)

    def place(self, path: str) -> str:
        return f"{self.file}:{self.line_of(path)}"


def load_text(text: str, file: str) -> Document:
    """The document in YAML or JSON text; ``file`` is its name in messages. SpecError with all problems at once."""
    decoder = Decoder()
    spec = decoder.document(read_tree(text, file))
    if decoder.problems:
        raise refusal(file, decoder.problems)
    return Document(spec, file, decoder.lines, decoder.items)
