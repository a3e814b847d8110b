"""DNS capture, in a conntrack zone of its own so that application and sidecar can share a source port.

The application's query is translated to the DNS proxy. If the sidecar then asks the same resolver from the same
port, its packet is, to conntrack, one more packet of the application's connection, and would be translated to the
sidecar itself. So captured queries and their answers live in a zone of their own, and nothing else does: the
sidecar's queries and the resolvers' answers meet in the default zone, where no rule has to know them.
"""

from __future__ import annotations

from meshnet.compile.draft import GUEST, OUT
from meshnet.compile.phrases import (
    DNS_TRANSPORTS,
    TO_DNS,
    TO_LOOPBACK_INTERFACE,
    captures_nobody,
    dns_captured,
    identities,
)
from meshnet.model.cidr import LOOPBACK
from meshnet.model.names import ZONE_CAPTURED
from meshnet.model.ports import PortRange
from meshnet.model.program import Destination, DestinationPorts, Protocol, Redirect, Return, SourcePorts, Zone

TYPE_CHECKING = False
if TYPE_CHECKING:
    from meshnet.compile.draft import Draft
    from meshnet.model.cidr import Family
    from meshnet.model.program import Match, Table, Transport


def sidecar_zones(draft: Draft) -> None:
    """raw OUTPUT, first part: the DNS proxy's answers belong to the captured queries; its own queries don't."""
    if not dns_captured(draft.spec):
        return
    answers = SourcePorts((PortRange(draft.spec.dns.port, draft.spec.dns.port),))
    for transport in DNS_TRANSPORTS:
        matches: list[Match] = [Protocol(transport), answers]
        draft.add(("raw", OUT), f"out.dns.answer-{transport}", matches, Zone(ZONE_CAPTURED), "dns.port")
    for step, origin, who in identities(draft.spec):
        draft.add(("raw", OUT), f"out.dns.{step}", [who], Return(), origin)


def query_zones(draft: Draft) -> None:
    """raw OUTPUT, last part, behind the exclusions: what the application asks."""
    if not dns_captured(draft.spec) or captures_nobody(draft.spec):
        return
    for transport in DNS_TRANSPORTS:
        _direct_zone(draft, transport)
    _zone(draft, OUT, "out")


def capture(draft: Draft) -> None:
    if not captures_nobody(draft.spec):
        _redirect(draft, ("nat", OUT), "out")


def capture_guests(draft: Draft) -> None:
    """A guest's queries; their answers leave from the DNS port and find their zone by the rule for answers."""
    if not dns_captured(draft.spec):
        return
    _redirect(draft, ("nat", GUEST), "guest")
    _zone(draft, GUEST, "guest")


def _zone(draft: Draft, chain: str, where: str) -> None:
    for transport in DNS_TRANSPORTS:
        for family, resolvers in _resolvers(draft):
            query: list[Match] = [*resolvers, Protocol(transport), TO_DNS]
            rule = f"{where}.dns.query-{transport}"
            draft.add(("raw", chain), rule, query, Zone(ZONE_CAPTURED), "dns.capture", family)


def _direct_zone(draft: Draft, transport: Transport) -> None:
    """Somebody in the pod who asks the DNS port directly is answered from it, so the query is in that zone too."""
    port = DestinationPorts((PortRange(draft.spec.dns.port, draft.spec.dns.port),))
    matches: list[Match] = [TO_LOOPBACK_INTERFACE, Protocol(transport), port]
    draft.add(("raw", OUT), f"out.dns.direct-{transport}", matches, Zone(ZONE_CAPTURED), "dns.port")


def _redirect(draft: Draft, chain: tuple[Table, str], where: str) -> None:
    if not dns_captured(draft.spec):
        return
    target = Redirect(PortRange(draft.spec.dns.port, draft.spec.dns.port))
    for transport in DNS_TRANSPORTS:
        for family, resolvers in _resolvers(draft, guest=chain == ("nat", GUEST)):
            matches: list[Match] = [*resolvers, Protocol(transport), TO_DNS]
            draft.add(chain, f"{where}.dns.{transport}", matches, target, "dns.capture", family)


def _resolvers(draft: Draft, *, guest: bool = False) -> list[tuple[Family | None, tuple[Destination, ...]]]:
    """One entry without a destination when all DNS is captured, otherwise one for each family that has resolvers.

    A resolver on the pod's loopback is nothing that a guest's packet can be addressed to.
    """
    if draft.spec.dns.capture == "all":
        return [(None, ())]
    reachable = [block for block in draft.spec.dns.resolvers if not (guest and LOOPBACK[block.family].covers(block))]
    return [(family, (Destination(blocks),)) for family, blocks in draft.blocks(reachable)]
