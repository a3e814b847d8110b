"""What enters by the interface of a guest (a virtual machine in the pod) is outbound traffic, never inbound."""

from __future__ import annotations

from meshnet.compile.draft import GUEST, PRE
from meshnet.model.program import TABLES, InInterface, Jump, Return

TYPE_CHECKING = False
if TYPE_CHECKING:
    from meshnet.compile.draft import Draft
    from meshnet.model.program import Match, Table


def enter(draft: Draft) -> None:
    """First its own chain decides; what that doesn't capture leaves the pod's tables untouched."""
    for place, name in enumerate(draft.spec.interfaces.guest):
        origin = f"interfaces.guest[{place}]"
        matches: list[Match] = [InInterface(name)]
        deciding: tuple[Table, ...] = ("raw", "nat")
        for table in deciding:
            draft.add((table, PRE), f"in.guest.{name}", matches, Jump(GUEST), origin)
        for table in TABLES:
            draft.add((table, PRE), f"in.guest.{name}-done", matches, Return(), origin)
