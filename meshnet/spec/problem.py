"""One thing that is wrong with a document, and how it is said."""

from __future__ import annotations

from meshnet.model.errors import SpecError
from meshnet.model.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


@value
class Problem:
    """``path`` is empty when the document as a whole is meant."""

    line: int
    path: str
    what: str
    right: str

    def text(self, file: str) -> str:
        return ": ".join(part for part in (f"{file}:{self.line}", self.path, self.what, self.right) if part)


def refusal(file: str, problems: Iterable[Problem]) -> SpecError:
    """All problems as one error, in the order of the lines."""
    return SpecError([problem.text(file) for problem in sorted(problems, key=lambda problem: problem.line)])
