"""What nothing else may touch: excluded interfaces in every table, and invalid segments where they are dropped.

Scenario behind ``dropInvalid``: a client retransmits a segment outside the window; conntrack calls it INVALID and
takes no NAT back, so under REDIRECT the pod's own stack answers a connection it never had with a reset.
"""

from __future__ import annotations

from meshnet.compile.draft import OUT, PRE
from meshnet.compile.phrases import TCP, listed
from meshnet.model.program import TABLES, CtState, Drop, InInterface, OutInterface, Return, Syn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from meshnet.compile.draft import Draft
    from meshnet.model.program import Match


def interfaces(draft: Draft) -> None:
    """An excluded interface is left alone in every table, both directions."""
    names = draft.spec.interfaces.exclude
    if not names:
        return
    step, origin = listed(names, "interfaces.exclude")
    for table in TABLES:
        draft.add((table, PRE), f"in.guard.{step}", [InInterface(names)], Return(), origin)
        draft.add((table, OUT), f"out.guard.{step}", [OutInterface(names)], Return(), origin)


def mid_stream(draft: Draft) -> None:
    """A connection that was open before us: nat is shown its next segment as if it were the first.

    Redirected then, it would reach a listener that knows nothing of it, and both ends would wait for ever.
    """
    if draft.spec.enrol != "new-connections":
        return
    matches: list[Match] = [TCP, Syn(negated=True)]
    draft.add(("nat", PRE), "in.guard.mid-stream", matches, Return(), "enrol")
    draft.add(("nat", OUT), "out.guard.mid-stream", matches, Return(), "enrol")


def invalid(draft: Draft) -> None:
    if draft.spec.drop_invalid:
        draft.add(("mangle", PRE), "in.guard.invalid", [CtState(("INVALID",))], Drop(), "dropInvalid")
