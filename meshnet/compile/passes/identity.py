"""Who is never captured on the way out: the sidecar itself, and who isn't in the groups that are."""

from __future__ import annotations

from meshnet.compile.draft import OUT
from meshnet.compile.phrases import dns_captured, identities
from meshnet.model.program import MarkIs, Owner, Return

TYPE_CHECKING = False
if TYPE_CHECKING:
    from meshnet.compile.draft import Draft
    from meshnet.model.program import Match


def sidecar(draft: Draft) -> None:
    spec = draft.spec
    for step, origin, who in identities(spec):
        draft.add(("nat", OUT), f"out.sidecar.{step}", [who], Return(), origin)
    marks_own_pod = spec.inbound.mode == "tproxy" and spec.inbound.active and spec.inbound.own_pod
    if marks_own_pod and spec.sidecar.mark is not None:
        # Marking the call to the own pod took the bits by which this sidecar is known.
        own: list[Match] = [MarkIs(spec.marks.outbound_mark)]
        draft.add(("nat", OUT), "out.sidecar.own-pod", own, Return(), "sidecar.mark")


def groups(draft: Draft) -> None:
    """With a list of groups, everybody else is left alone, DNS included."""
    included = draft.spec.outbound.groups
    if included == "*":
        return
    matches: list[Match] = [Owner("gid", included, negated=True)] if included else []
    draft.add(("nat", OUT), "out.groups.others", matches, Return(), "outbound.groups")
    if dns_captured(draft.spec):
        draft.add(("raw", OUT), "out.groups.others", matches, Return(), "outbound.groups")
