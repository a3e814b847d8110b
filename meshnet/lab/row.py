"""One row from beginning to end: what was expected, what was measured, and what tells why."""

from __future__ import annotations

import time

from meshnet.lab.measured import ELSE, MEASURED
from meshnet.lab.scenario import LOOP
from meshnet.lab.servers import Counts
from meshnet.lab.steps import take
from meshnet.lab.world import World
from meshnet.model.errors import MeshnetError
from meshnet.model.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from meshnet.lab.capture import Frame
    from meshnet.lab.evidence import Moment
    from meshnet.lab.scenario import Row


@value
class Outcome:
    """What a row showed. ``trouble`` is why it could not be measured, with its exit code; ``seconds`` it took."""

    row: Row
    measured: dict[str, str]
    counts: Counts = Counts()
    frames: tuple[Frame, ...] = ()
    moments: tuple[Moment, ...] = ()
    counters: tuple[str, ...] = ()
    logs: tuple[tuple[str, str], ...] = ()
    begun: tuple[tuple[int, str], ...] = ()
    trouble: str = ""
    exit_code: int = 0
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        return not self.trouble and self.judged == self.row.expected

    @property
    def judged(self) -> dict[str, str]:
        """The measured words that something was expected of."""
        return {label: word for label, word in self.measured.items() if label in self.row.expected}


def run_row(row: Row) -> Outcome:
    """Build, measure, take down. What fails is told in the outcome, so that the other rows go on."""
    began = time.monotonic()
    measured: dict[str, str] = {}
    world = World(row)
    try:
        with world:
            for step in row.variant.steps:
                world.begun.append((time.time_ns(), step.label))
                measured[step.label] = take(world, step)
            outcome = _outcome(world, _joined(row, measured), began)
    except MeshnetError as error:
        return Outcome(
            row,
            measured,
            logs=tuple(world.logs().items()),
            trouble="\n".join(error.lines()),
            exit_code=error.exit_code,
            seconds=time.monotonic() - began,
        )
    return outcome


def _joined(row: Row, measured: dict[str, str]) -> dict[str, str]:
    """A measurement of a rule set says ``loop`` also when only the pod's own call loops (``lab.measured``)."""
    if row.variant.rules is not None and measured.get(ELSE) == LOOP:
        return {**measured, MEASURED: LOOP}
    return measured


def _outcome(world: World, measured: dict[str, str], began: float) -> Outcome:
    return Outcome(
        world.row,
        measured,
        world.counts(),
        tuple(world.watch()),
        tuple(world.moments),
        world.counters(),
        tuple(world.logs().items()),
        tuple(world.begun),
        seconds=time.monotonic() - began,
    )
