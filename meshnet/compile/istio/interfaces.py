"""Interfaces that are left alone, and those behind which virtual machines live."""

from __future__ import annotations

from meshnet.compile.istio.chains import REDIRECT
from meshnet.compile.phrases import listed
from meshnet.model.program import Destination, InInterface, Jump, OutInterface, Return

TYPE_CHECKING = False
if TYPE_CHECKING:
    from meshnet.compile.draft import Draft
    from meshnet.model.cidr import Family
    from meshnet.model.program import Match, Table


def exclude(draft: Draft) -> None:
    names = draft.spec.interfaces.exclude
    if not names:
        return
    tables: tuple[Table, ...] = ("nat", "mangle") if draft.spec.inbound.mode == "tproxy" else ("nat",)
    step, origin = listed(names, "interfaces.exclude")
    for table in tables:
        draft.enter(table, "PREROUTING", f"in.interface.{step}", [InInterface(names)], Return(), origin)
        draft.enter(table, "OUTPUT", f"out.interface.{step}", [OutInterface(names)], Return(), origin)


def guests(draft: Draft) -> None:
    """The original puts each of these first, so the last one stands first: redirections ahead of returns."""
    names = draft.spec.interfaces.guest
    if not names:
        return
    step, origin = listed(names, "interfaces.guest")
    came = InInterface(names[::-1])
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
        matches: list[Match] = [came, *destination]
        draft.enter("nat", "PREROUTING", f"in.guest.{step}", matches, Jump(REDIRECT), origin, family, first=True)
    draft.enter("nat", "PREROUTING", f"in.guest.{step}-done", [came], Return(), origin, first=True)
