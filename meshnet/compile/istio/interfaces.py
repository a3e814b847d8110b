"""Interfaces that are left alone, and those behind which virtual machines live."""

from __future__ import annotations

from meshnet.compile.istio.chains import REDIRECT
from meshnet.model.program import Destination, InInterface, Jump, OutInterface, Return

TYPE_CHECKING = False
if TYPE_CHECKING:
    from meshnet.compile.draft import Draft
    from meshnet.model.cidr import Family
    from meshnet.model.program import Match, Table


def exclude(draft: Draft) -> None:
    tables: tuple[Table, ...] = ("nat", "mangle") if draft.spec.inbound.mode == "tproxy" else ("nat",)
    for table in tables:
        for place, name in enumerate(draft.spec.interfaces.exclude):
            origin = f"interfaces.exclude[{place}]"
            draft.enter(table, "PREROUTING", f"in.interface.{name}", [InInterface(name)], Return(), origin)
            draft.enter(table, "OUTPUT", f"out.interface.{name}", [OutInterface(name)], Return(), origin)


def guests(draft: Draft) -> None:
    """The original puts each of these first, so the last one stands first: redirections ahead of returns."""
    names = draft.spec.interfaces.guest
    outbound = draft.spec.outbound
    captured: list[tuple[Family | None, list[Match]]] = []
    if outbound.mode == "none":
        pass
    elif outbound.cidrs == "*":
        captured = [(None, [])]
    else:
        blocks = [block for block in outbound.cidrs if block.family in draft.families]
        captured = [(block.family, [Destination((block,))]) for block in blocks]
    for family, destination in reversed(captured):
        for place, name in reversed(list(enumerate(names))):
            matches: list[Match] = [InInterface(name), *destination]
            origin = f"interfaces.guest[{place}]"
            draft.enter("nat", "PREROUTING", f"in.guest.{name}", matches, Jump(REDIRECT), origin, family, first=True)
    for place, name in reversed(list(enumerate(names))):
        matches = [InInterface(name)]
        origin = f"interfaces.guest[{place}]"
        draft.enter("nat", "PREROUTING", f"in.guest.{name}-done", matches, Return(), origin, first=True)
