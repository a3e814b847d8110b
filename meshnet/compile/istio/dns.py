"""DNS capture with two conntrack zones: 1 for what the sidecar asks and is answered, 2 for what it is asked.

A family without a listed resolver gets the sidecar's zones alone: the original writes those without looking.
"""

from __future__ import annotations

from meshnet.compile.istio.chains import INBOUND, OUTPUT, OUTPUT_DNS, one, owners, redirects_dns
from meshnet.compile.phrases import TO_DNS
from meshnet.model.names import ISTIO_ZONE_SIDECAR, ZONE_CAPTURED
from meshnet.model.program import Destination, Jump, Protocol, Redirect, Source, SourcePorts, Zone

TYPE_CHECKING = False
if TYPE_CHECKING:
    from meshnet.compile.draft import Draft
    from meshnet.model.cidr import Cidr, Family
    from meshnet.model.program import Match, Table, Transport

UDP = Protocol("udp")
TRANSPORTS: tuple[Transport, ...] = ("tcp", "udp")


def capture(draft: Draft) -> None:
    if not redirects_dns(draft.spec):
        return
    resolvers = _resolvers(draft)
    target = Redirect(one(draft.spec.dns.port))
    for family in dict.fromkeys(family for family, _ in resolvers):
        draft.add(("nat", OUTPUT), "out.dns.enter", (), Jump(OUTPUT_DNS), "dns.capture", family)
    for transport in TRANSPORTS:
        for family, block in resolvers:
            matches: list[Match] = [Protocol(transport), TO_DNS, *(Destination((it,)) for it in block)]
            draft.add(("nat", OUTPUT_DNS), f"out.dns.{transport}", matches, target, "dns.capture", family)


def zones(draft: Draft) -> None:
    spec = draft.spec
    if not redirects_dns(spec):
        return
    queries: list[Match] = [UDP, TO_DNS]
    answers: list[Match] = [UDP, SourcePorts((one(spec.dns.port),))]
    draft.enter("raw", "OUTPUT", "out.dns.enter", (), Jump(OUTPUT_DNS), "dns.capture")
    chain: tuple[Table, str] = ("raw", OUTPUT_DNS)
    for step, origin, who in owners(spec):
        draft.add(chain, f"out.dns.asks.{step}", [*queries, who], Zone(ISTIO_ZONE_SIDECAR), origin)
        draft.add(chain, f"out.dns.answers.{step}", [*answers, who], Zone(ZONE_CAPTURED), origin)
    resolvers = _resolvers(draft)
    for family in dict.fromkeys(family for family, _ in resolvers):
        draft.enter("raw", "PREROUTING", "in.dns.enter", (), Jump(INBOUND), "dns.capture", family)
    for family, block in resolvers:
        to, from_ = (Destination((it,)) for it in block), (Source((it,)) for it in block)
        draft.add(chain, "out.dns.query", [*queries, *to], Zone(ZONE_CAPTURED), "dns.capture", family)
        answer: list[Match] = [UDP, SourcePorts((one(53),)), *from_]
        draft.add(("raw", INBOUND), "in.dns.answer", answer, Zone(ISTIO_ZONE_SIDECAR), "dns.capture", family)


def _resolvers(draft: Draft) -> list[tuple[Family | None, tuple[Cidr, ...]]]:
    """One entry without an address when all DNS is captured, else one for each resolver."""
    if draft.spec.dns.capture == "all":
        return [(None, ())]
    return [(block.family, (block,)) for block in draft.spec.dns.resolvers if block.family in draft.families]
