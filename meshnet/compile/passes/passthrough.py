"""The bypass: what the sidecar sends from 127.0.0.6 or ::6 is an inbound connection on its last step."""

from __future__ import annotations

from meshnet.compile.draft import OUT
from meshnet.compile.phrases import TO_LOOPBACK_INTERFACE
from meshnet.model.program import LoopbackAddress, Return, Source

TYPE_CHECKING = False
if TYPE_CHECKING:
    from meshnet.compile.draft import Draft
    from meshnet.model.program import Match, Table


def bypass(draft: Draft) -> None:
    spec = draft.spec
    if not spec.inbound.active:
        return
    tables: tuple[Table, ...] = ("mangle", "nat") if spec.inbound.mode == "tproxy" else ("nat",)
    for family in draft.families:
        address = spec.passthrough.of(family)
        origin = f"passthrough.ipv{family}"
        for table in tables:
            matches: list[Match] = [Source((address,)), TO_LOOPBACK_INTERFACE]
            draft.add((table, OUT), "out.passthrough.bypass", matches, Return(), origin, family)
        if family == 6:
            draft.loopback_addresses.append(LoopbackAddress(address, spec.routing.table))
