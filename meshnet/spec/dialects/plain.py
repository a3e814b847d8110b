"""Plain data of others' documents (dict, list, text, numbers), read by place; all problems are told at once."""

from __future__ import annotations

from meshnet.model.errors import SpecError, Wrong
from meshnet.model.spec import Spec
from meshnet.model.value import value
from meshnet.spec.check import conflicts
from meshnet.spec.nodes import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any


@value
class Translated:
    """A Spec, and the words left aside: they say how another tool works, and not which traffic it captures."""

    spec: Spec
    aside: tuple[str, ...] = ()


class Places:
    """Reads mappings, lists and words out of a document. ``where`` is the path of what is read in, with its dot."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def wrong(self, place: str, what: str, right: str) -> None:
        """Note a problem, once."""
        told = (printable(place, 160), printable(what, 160), right)  # the last one is our own words
        problem = ": ".join(part for part in told if part)
        if problem not in self.problems:
            self.problems.append(problem)

    def mapping(self, inside: dict[Any, Any], key: str, where: str = "") -> dict[Any, Any]:
        """The mapping under a key; an empty one for null, for none, and for what is no mapping."""
        item = inside.get(key)
        if item is not None and item != "" and not isinstance(item, dict):
            self.wrong(f"{where}{key}", f"no keys and values ({shown(item)})", "a mapping")
        return item if isinstance(item, dict) else {}

    def listing(self, inside: dict[Any, Any], key: str, where: str, of: str) -> list[Any]:
        item = inside.get(key)
        if item is not None and item != "" and not isinstance(item, list):
            self.wrong(f"{where}{key}", f"no list ({shown(item)})", f"a list of {of}")
        return item if isinstance(item, list) else []

    def read(self, place: str, text: str, read: Callable[[str], Any]) -> Any:
        """A word's value, or None and a problem."""
        try:
            return read(text)
        except Wrong as wrong:
            self.wrong(place, wrong.what, wrong.right)
            return None

    def judged(self, spec: Spec, where: Mapping[str, str]) -> Spec:
        """The spec if nothing is wrong; SpecError with all problems. ``where``: the foreign word of a spec's field."""
        if not self.problems:
            for conflict in conflicts(spec):
                self.wrong(where.get(conflict.path.partition("[")[0], conflict.path), conflict.what, conflict.right)
        if self.problems:
            raise SpecError(self.problems)
        return spec


def shown(item: object) -> str:
    """Plain data in a few printable characters, without a look inside: by an alias of YAML a list can hold itself."""
    if isinstance(item, dict):
        return f"a mapping of {len(item)}"
    if isinstance(item, list | tuple):
        return f"a list of {len(item)}"
    if item is None or isinstance(item, bool):
        return {None: "null", True: "true", False: "false"}[item]
    return printable(str(item)) or '""'
