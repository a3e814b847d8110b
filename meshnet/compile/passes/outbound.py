"""What is captured on its way out, after everything that isn't: loopback, then ports, then CIDRs."""

from __future__ import annotations

from meshnet.compile.draft import GUEST, OUT
from meshnet.compile.phrases import TCP, TO_LOOPBACK_INTERFACE, captures_nobody, loopback_inclusions
from meshnet.model.ports import PortRange
from meshnet.model.program import Destination, DestinationPorts, Redirect, Return

TYPE_CHECKING = False
if TYPE_CHECKING:
    from meshnet.compile.draft import Draft
    from meshnet.model.program import Match, Table


def loopback(draft: Draft) -> None:
    """Calls to loopback and to the own pod stay direct, but for the loopback blocks that a user lists."""
    outbound = draft.spec.outbound
    if not outbound.active or captures_nobody(draft.spec):
        return
    chain: tuple[Table, str] = ("nat", OUT)
    inclusions = draft.blocks(loopback_inclusions(draft.spec))
    if any(family == 4 for family, _ in inclusions):
        application: list[Match] = [Destination((outbound.loopback_cidr,))]
        draft.add(chain, "out.loopback.application", application, Return(), "outbound.loopbackCidr", 4)
    for family, blocks in inclusions:
        matches: list[Match] = [Destination(blocks), TO_LOOPBACK_INTERFACE, TCP]
        draft.add(chain, "out.loopback.capture", matches, _listener(draft), "outbound.cidrs", family)
    draft.add(chain, "out.loopback.direct", [TO_LOOPBACK_INTERFACE], Return(), "outbound.loopbackCidr")


def capture(draft: Draft) -> None:
    if not captures_nobody(draft.spec):
        _capture(draft, ("nat", OUT), "out")


def capture_guests(draft: Draft) -> None:
    _capture(draft, ("nat", GUEST), "guest")


def _capture(draft: Draft, chain: tuple[Table, str], where: str) -> None:
    outbound = draft.spec.outbound
    if not outbound.active:
        return
    if outbound.ports:
        matches: list[Match] = [TCP, DestinationPorts(outbound.ports)]
        draft.add(chain, f"{where}.capture.ports", matches, _listener(draft), "outbound.ports")
    if outbound.cidrs == "*":
        draft.add(chain, f"{where}.capture.all", [TCP], _listener(draft), "outbound.cidrs")
        return
    loopbacks = set(loopback_inclusions(draft.spec))
    for family, blocks in draft.blocks(cidr for cidr in outbound.cidrs if cidr not in loopbacks):
        matches = [Destination(blocks), TCP]
        draft.add(chain, f"{where}.capture.cidrs", matches, _listener(draft), "outbound.cidrs", family)


def _listener(draft: Draft) -> Redirect:
    return Redirect(PortRange(draft.spec.outbound.port, draft.spec.outbound.port))
