"""Which right word a wrong one was meant to be. Loaded only when there is something to say."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


def nearest(word: str, words: Iterable[str]) -> str:
    """The right word that differs least, or nothing when all of them differ in more than a third of the letters."""
    plain = _letters(word)[:40]
    best, least = "", 1 + max(1, len(plain) // 3)
    for candidate in words:
        steps = distance(plain, _letters(candidate))
        if steps < least:
            best, least = candidate, steps
    return best


def distance(one: str, other: str) -> int:
    """How many letters are put in, left out, changed or swapped with their neighbour to come from one to the other."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        above, before, row = before, row, [i]
        for j, target in enumerate(other, 1):
            steps = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != target))
            if i > 1 and j > 1 and letter == other[j - 2] and one[i - 2] == target:
                steps = min(steps, above[j - 2] + 1)
            row.append(steps)
    return row[-1]


def _letters(word: str) -> str:
    """``exclude_ports`` and ``ExcludePorts`` are spelled like ``excludePorts``."""
    return word.replace("_", "").replace("-", "").lower()
