"""The way back to ``lo``: packets with the inbound mark are local, whatever their destination."""

from __future__ import annotations

from meshnet.compile.phrases import keeps_source
from meshnet.model.cidr import Cidr
from meshnet.model.program import LocalRoute, PolicyRule

TYPE_CHECKING = False
if TYPE_CHECKING:
    from meshnet.compile.draft import Draft


def policy(draft: Draft) -> None:
    spec = draft.spec
    if not (keeps_source(spec) or (spec.inbound.mode == "tproxy" and spec.inbound.active)):
        return
    for family in draft.families:
        draft.local_routes.append(LocalRoute(Cidr(family, 0, 0), spec.routing.table))
        draft.policy_rules.append(PolicyRule(family, spec.marks.inbound_mark, spec.routing.table))
