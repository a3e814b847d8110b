"""Several pieces of work side by side: all are started before the first is waited for."""

from __future__ import annotations

from meshnet.model.errors import MeshnetError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, TypeVar

    from meshnet.kernel.ports import Work
    from meshnet.kernel.run import Ran, Started

    A = TypeVar("A")
    T = TypeVar("T")


def later(finish: Callable[[], T]) -> Work[T]:
    """Work that needs no process: done when it is waited for."""
    return _Later(finish)


def awaited(started: Started, finish: Callable[[Ran], T]) -> Work[T]:
    """The work of a process under way: ``finish`` makes its end a result, or raises why there is none."""
    return _Awaited(started, finish)


def outcomes(
    begin: Callable[[A], Work[T]], items: Iterable[A], meanwhile: Callable[[], object] | None = None
) -> list[T | MeshnetError]:
    """What came of each item, or why it failed, in their order. One that fails leaves the others to their end.

    ``meanwhile`` is done here after the start of all. Whatever it raises, and anything that is no MeshnetError, Ctrl-C
    above all, stops what is under way and goes on to the caller.
    """
    under_way: list[Work[T] | MeshnetError] = []
    try:
        for item in items:
            try:
                under_way.append(begin(item))
            except MeshnetError as error:
                under_way.append(error)
        if meanwhile is not None:
            meanwhile()
        return [_outcome(work) for work in under_way]
    except BaseException:
        for work in under_way:
            if not isinstance(work, MeshnetError):
                work.stop()
        raise


def results(begin: Callable[[A], Work[T]], items: Iterable[A]) -> list[T]:
    """What came of each item; when any failed, the first failure is raised as soon as all have ended."""
    found: list[T] = []
    for outcome in outcomes(begin, items):
        if isinstance(outcome, MeshnetError):
            raise outcome
        found.append(outcome)
    return found


class _Later:
    __slots__ = ("finish",)

    def __init__(self, finish: Callable[[], Any]) -> None:
        self.finish = finish

    def stop(self) -> None:
        return None


class _Awaited:
    __slots__ = ("_finish", "_started")

    def __init__(self, started: Started, finish: Callable[[Ran], Any]) -> None:
        self._started, self._finish = started, finish

    def finish(self) -> Any:
        return self._finish(self._started.wait())

    def stop(self) -> None:
        self._started.stop()


def _outcome(work: Work[T] | MeshnetError) -> T | MeshnetError:
    if isinstance(work, MeshnetError):
        return work
    try:
        return work.finish()
    except MeshnetError as error:
        return error
