"""Remove without breaking what was captured: first nothing new is captured, and what carries the rest goes with it.

The rules that are left keep conntrack and its translations at work in the namespace: if they went and nobody else used
it, the next segment of a translated connection would go to an application that knows nothing of it.
"""

from __future__ import annotations

import time

from meshnet.apply.apply import NOTHING
from meshnet.apply.captures import carried, without_captures
from meshnet.apply.session import Session
from meshnet.kernel import conntrack, netns
from meshnet.model.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from meshnet.apply.captures import Carried
    from meshnet.apply.session import Asked
    from meshnet.kernel.netns import Where
    from meshnet.model.plan import Receipt

STEP = 0.25
"""Seconds between two looks."""


@value
class Drained:
    """``left`` are the captured connections that were still open when the time was over; then the rules that carry them
    are still there. ``superseded``: somebody has applied a spec meanwhile, and its rules stay."""

    backend: str
    reason: str
    receipt: Receipt
    left: int = 0
    superseded: bool = False


def drain(place: Where, backend: Asked, patience: float, progress: Callable[[int], None] = lambda _: None) -> Drained:
    """Capture nothing new, wait at most ``patience`` seconds until what was captured has ended, remove the rest.

    ``progress`` hears how many are open, whenever it is another number. Nobody is kept out meanwhile: when somebody
    applies a spec while this waits, its rules stay.
    """
    with Session(place, backend) as session:
        held = carried(*session.held().values())
        receipt = session.settle(without_captures)
        drained = session.held()
    deadline = time.monotonic() + patience
    told = -1
    while (count := _open(place, held)) and time.monotonic() < deadline:
        if count != told:
            told = count
            progress(count)
        time.sleep(STEP)
    with Session(place, backend) as session:
        now = session.held()
        superseded = any(plan not in (drained.get(name), NOTHING) for name, plan in now.items())
        if count or superseded:
            return Drained(session.backend, session.reason, receipt, count, superseded)
        return Drained(session.backend, session.reason, session.remove())


def _open(place: Where, held: Carried) -> int:
    """How many captured connections are open."""
    with netns.open_namespace(place) as namespace, namespace.entered():
        found = [entry for family in (4, 6) for entry in conntrack.entries(family)]
    return sum(entry.open and held.holds(entry) for entry in found)
