"""What TPROXY needs besides: the mark kept on the connection, and the sidecar's way to its own pod."""

from __future__ import annotations

from meshnet.compile.istio.chains import INBOUND, own_loopback, owners
from meshnet.compile.phrases import TCP, TO_LOOPBACK_INTERFACE
from meshnet.model.cidr import Cidr
from meshnet.model.program import (
    ConnmarkIs,
    InInterface,
    LocalRoute,
    MarkIs,
    PolicyRule,
    RestoreMark,
    Return,
    SaveMark,
    SetMark,
    Source,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from meshnet.compile.draft import Draft
    from meshnet.model.program import Match


def guard(draft: Draft) -> None:
    """At the head of the inbound chain: what has the mark, what comes from 127.0.0.6, what calls itself."""
    spec = draft.spec
    if spec.inbound.mode != "tproxy":
        return
    marked: list[Match] = [TCP, MarkIs(spec.marks.inbound_mark)]
    draft.add(("mangle", INBOUND), "in.guard.marked", marked, Return(), "marks.inbound")
    for family in draft.families:
        passed: list[Match] = [TCP, Source((spec.passthrough.of(family),)), InInterface(("lo",))]
        draft.add(("mangle", INBOUND), "in.guard.passthrough", passed, Return(), f"passthrough.ipv{family}", family)
    itself: list[Match] = [TCP, InInterface(("lo",)), MarkIs(spec.marks.outbound_mark, negated=True)]
    draft.add(("mangle", INBOUND), "in.guard.itself", itself, Return(), "marks.outbound")


def marks(draft: Draft) -> None:
    spec = draft.spec
    if spec.inbound.mode != "tproxy":
        return
    mark = spec.marks.inbound_mark
    spoofed: list[Match] = [TCP, MarkIs(mark)]
    origin = "inbound.originalSource"
    draft.enter("mangle", "PREROUTING", "in.source.save", spoofed, SaveMark(mark.mask), origin)
    on_lo: list[Match] = [TCP, TO_LOOPBACK_INTERFACE, MarkIs(mark)]
    draft.enter("mangle", "OUTPUT", "out.source.done", on_lo, Return(), origin)
    for step, place, who in owners(spec):
        for family in draft.families:
            matches: list[Match] = [own_loopback(spec, family, negated=True), TCP, TO_LOOPBACK_INTERFACE, who]
            target = SetMark(spec.marks.outbound_mark)
            draft.enter("mangle", "OUTPUT", f"out.own-pod.{step}", matches, target, place, family)
    reply: list[Match] = [TCP, ConnmarkIs(mark)]
    draft.enter("mangle", "OUTPUT", "out.source.restore", reply, RestoreMark(mark.mask), origin)


def routes(draft: Draft) -> None:
    """None without a captured port, though the marks' rules are written all the same."""
    spec = draft.spec
    if spec.inbound.mode != "tproxy" or not spec.inbound.active:
        return
    for family in draft.families:
        draft.local_routes.append(LocalRoute(Cidr(family, 0, 0), spec.routing.table))
        draft.policy_rules.append(PolicyRule(family, spec.marks.inbound_mark, spec.routing.table))
