"""Hosts that stop in the middle of the work: one that fails at a step, one that kills its process there."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

from meshnet.apply.session import Session
from meshnet.kernel.netns import held, where
from meshnet.model.errors import ToolError

if TYPE_CHECKING:
    from collections.abc import Callable

    from meshnet.apply.host import Host
    from meshnet.kernel.conntrack import Entry
    from meshnet.kernel.netns import Namespace
    from meshnet.kernel.ports import Work
    from meshnet.kernel.rtnetlink import SeenRouting
    from meshnet.model.cidr import Family
    from meshnet.model.nft import NftTable
    from meshnet.model.plan import SetText, Step


class Stopping:
    """A host that calls ``stop`` at step ``at`` (from 0), ahead of doing it or after; then it works like its owner."""

    def __init__(self, host: Host, at: int, stop: Callable[[], None], *, after: bool = False) -> None:
        self._host, self._at, self._stop, self._after = host, at, stop, after
        self.done = 0

    @property
    def name(self) -> str:
        return self._host.name

    @property
    def families(self) -> tuple[Family, ...]:
        return self._host.families

    @property
    def adopting(self) -> bool:
        return self._host.adopting

    @adopting.setter
    def adopting(self, adopting: bool) -> None:
        self._host.adopting = adopting

    def save(self, counters: bool = False) -> dict[Family, str]:
        return self._host.save(counters)

    def read_sets(self) -> tuple[SetText, ...]:
        return self._host.read_sets()

    def read_tables(self) -> tuple[tuple[NftTable, ...], frozenset[str]]:
        return self._host.read_tables()

    def forget(self, stale: Callable[[Entry], bool]) -> int:
        return self._host.forget(stale)

    def tracked(self) -> tuple[Entry, ...]:
        return self._host.tracked()

    def read_routing(self, family: Family) -> SeenRouting:
        return self._host.read_routing(family)

    def begin(self, step: Step) -> Work[object]:
        number, self.done = self.done, self.done + 1
        if number == self._at and not self._after:
            self._stop()
        work = self._host.begin(step)
        return StoppedAfter(work, self._stop) if number == self._at and self._after else work


class StoppedAfter:
    """Work that is done, and then ``stop`` is called all the same."""

    def __init__(self, work: Work[object], stop: Callable[[], None]) -> None:
        self._work, self._stop = work, stop
        self.stop = work.stop

    def finish(self) -> None:
        self._work.finish()
        self._stop()


def refuse() -> None:
    raise ToolError("the test says no")


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def stopped_session(namespace: Namespace, backend: str, at: int, stop: Callable[[], None], after: bool) -> Session:
    """A session to enter, whose host stops once at a step."""

    class StoppedSession(Session):
        def _look(self) -> None:
            super()._look()
            self.host = Stopping(self.host, at, stop, after=after)  # type: ignore[assignment]

    return StoppedSession(where(namespace.where.text), backend)  # type: ignore[arg-type]


def killed_at(namespace: Namespace, backend: str, at: int, work: Callable[[Session], object]) -> bool:
    """Do the work in a child that kills itself ahead of step ``at``; False when there was no such step."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            with stopped_session(namespace, backend, at, kill, after=False) as session:
                work(session)
            code = 0
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert code in (0, -signal.SIGKILL), f"the child ended with {code}"
    with held(namespace):  # the other family's tool, started side by side, outlives who started it
        pass
    return code != 0
