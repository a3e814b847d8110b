"""Text to a Spec, with the line of everything in it."""

from __future__ import annotations

from meshnet.model.errors import SpecError
from meshnet.model.spec import Spec
from meshnet.model.value import value
from meshnet.spec.decode import Decoder, find_line
from meshnet.spec.nodes import Mapping, Scalar, node_of, shown
from meshnet.spec.problem import refusal


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


def load_body(body: object, name: str) -> Document:
    """The document whose fields are plain data, as from JSON, without ``apiVersion`` and ``kind``.

    ``name`` stands in front of each field in messages. SpecError with all problems at once.
    """
    from meshnet.spec.fields import HEAD

    try:
        tree = node_of(body)
    except RecursionError:
        raise SpecError([f"{name}: nested too deeply: a spec has six levels"]) from None
    if not isinstance(tree, Mapping):
        raise SpecError([f"{name}: no keys and values ({shown(tree)}): the fields of a spec"])
    # Whoever writes the two all the same has them judged like any document's.
    given = {key.text for key, _ in tree.entries if isinstance(key, Scalar)}
    head = [(Scalar(0, key), Scalar(0, word)) for key, word in HEAD.items() if key not in given]
    decoder = Decoder()
    spec = decoder.document(Mapping(0, [*head, *tree.entries]))
    if decoder.problems:
        raise SpecError([": ".join((f"{name}.{item.path}", item.what, item.right)) for item in decoder.problems])
    return Document(spec, name, decoder.lines, decoder.items)


def load_text(text: str, file: str) -> Document:
    """The document in YAML or JSON text; ``file`` is its name in messages. SpecError with all problems at once."""
    from meshnet.spec.tree import read_tree  # for text alone: the plugin, whose specs are plain data, reads none

    decoder = Decoder()
    spec = decoder.document(read_tree(text, file))
    if decoder.problems:
        raise refusal(file, decoder.problems)
    return Document(spec, file, decoder.lines, decoder.items)
