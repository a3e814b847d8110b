"""Traffic to the pod: the listeners' chains, and which ports lead there. Excluded ports count beside ``*`` alone."""

from __future__ import annotations

from meshnet.compile.istio.chains import (
    DIVERT,
    DROP,
    IN_REDIRECT,
    INBOUND,
    REDIRECT,
    TPROXY,
    inbound_table,
    one,
    own_loopback,
)
from meshnet.compile.phrases import TCP
from meshnet.model.program import (
    Accept,
    CtState,
    DestinationPorts,
    Drop,
    Jump,
    Redirect,
    Return,
    SetMark,
    Tproxy,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from meshnet.compile.draft import Draft
    from meshnet.model.program import Match


def invalid(draft: Draft) -> None:
    if draft.spec.drop_invalid:
        matches: list[Match] = [CtState(("INVALID",))]
        draft.enter("mangle", "PREROUTING", "in.invalid", matches, Jump(DROP), "dropInvalid")
        draft.add(("mangle", DROP), "in.invalid.drop", (), Drop(), "dropInvalid")


def listeners(draft: Draft) -> None:
    spec = draft.spec
    if spec.inbound.tunnel_port is not None:
        tunnel: list[Match] = [TCP, DestinationPorts((one(spec.inbound.tunnel_port),))]
        draft.add(("nat", INBOUND), "in.tunnel", tunnel, Return(), "inbound.tunnelPort")
    draft.add(("nat", REDIRECT), "out.redirect", [TCP], Redirect(one(spec.outbound.port)), "outbound.port")
    draft.add(("nat", IN_REDIRECT), "in.redirect", [TCP], Redirect(spec.inbound.port), "inbound.port")


def capture(draft: Draft) -> None:
    spec = draft.spec
    if not spec.inbound.active:
        return
    table = inbound_table(spec)
    if table == "mangle":
        _tproxy_chains(draft)
    draft.enter(table, "PREROUTING", "in.enter", [TCP], Jump(INBOUND), "inbound.mode")
    if spec.inbound.ports != "*":
        for place, ports in enumerate(spec.inbound.ports):
            _listen(draft, [TCP, DestinationPorts((ports,))], f"inbound.ports[{place}]")
        return
    for place, ports in enumerate(spec.inbound.exclude_ports):
        matches: list[Match] = [TCP, DestinationPorts((ports,))]
        draft.add((table, INBOUND), f"in.exclude.{ports}", matches, Return(), f"inbound.excludePorts[{place}]")
    _listen(draft, [TCP], "inbound.ports")


def _listen(draft: Draft, matches: list[Match], origin: str) -> None:
    if inbound_table(draft.spec) == "nat":
        draft.add(("nat", INBOUND), "in.capture", matches, Jump(IN_REDIRECT), origin)
        return
    known = CtState(("RELATED", "ESTABLISHED"))
    draft.add(("mangle", INBOUND), "in.established", [*matches, known], Jump(DIVERT), origin)
    draft.add(("mangle", INBOUND), "in.capture", matches, Jump(TPROXY), origin)


def _tproxy_chains(draft: Draft) -> None:
    spec = draft.spec
    mark = spec.marks.inbound_mark
    draft.add(("mangle", DIVERT), "in.divert.mark", (), SetMark(mark), "marks.inbound")
    draft.add(("mangle", DIVERT), "in.divert.accept", (), Accept(), "inbound.mode")
    for family in draft.families:
        matches: list[Match] = [own_loopback(spec, family, negated=True), TCP]
        target = Tproxy(spec.inbound.port.first, mark)
        draft.add(("mangle", TPROXY), "in.tproxy", matches, target, "inbound.port", family)
