"""A namespace that is opened and entered without a kernel: which one was asked for, and whether one is inside."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self

    from meshnet.kernel.netns import Where


class FakePlace:
    def __init__(self) -> None:
        self.opened: list[Where] = []
        self.closed = 0
        self.inside = False

    def open(self, place: Where) -> Self:
        self.opened.append(place)
        return self

    def close(self) -> None:
        self.closed += 1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def entered(self) -> Iterator[None]:
        self.inside = True
        yield
        self.inside = False
