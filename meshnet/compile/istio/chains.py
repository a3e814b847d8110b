"""istio-iptables' chains, and the phrases that its rules share."""

from __future__ import annotations

from meshnet.model.cidr import LOOPBACK
from meshnet.model.ports import PortRange
from meshnet.model.program import Destination, Owner

TYPE_CHECKING = False
if TYPE_CHECKING:
    from meshnet.model.cidr import Family
    from meshnet.model.program import Match, Table
    from meshnet.model.spec import Spec

INBOUND, OUTPUT, OUTPUT_DNS = "ISTIO_INBOUND", "ISTIO_OUTPUT", "ISTIO_OUTPUT_DNS"
REDIRECT, IN_REDIRECT = "ISTIO_REDIRECT", "ISTIO_IN_REDIRECT"
DIVERT, TPROXY, DROP = "ISTIO_DIVERT", "ISTIO_TPROXY", "ISTIO_DROP"


def one(number: int) -> PortRange:
    return PortRange(number, number)


def own_loopback(spec: Spec, family: Family, *, negated: bool = False) -> Destination:
    """The block that counts as the pod's own loopback: for IPv6 always the one address."""
    return Destination((spec.outbound.loopback_cidr if family == 4 else LOOPBACK[6],), negated)


def owners(spec: Spec) -> tuple[tuple[str, str, Owner], ...]:
    """Whom the sidecar runs as, as (step, origin, match): every uid, then every gid."""
    return (
        *((f"uid-{uid}", f"sidecar.uids[{n}]", Owner("uid", (uid,))) for n, uid in enumerate(spec.sidecar.uids)),
        *((f"gid-{gid}", f"sidecar.gids[{n}]", Owner("gid", (gid,))) for n, gid in enumerate(spec.sidecar.gids)),
    )


def anybody_else(who: Owner) -> Match:
    return Owner(who.kind, who.ids, negated=True)


def inbound_table(spec: Spec) -> Table:
    return "mangle" if spec.inbound.mode == "tproxy" else "nat"


def redirects_dns(spec: Spec) -> bool:
    """Asked for a list of resolvers and given none, istio-iptables captures no DNS."""
    return spec.dns.capture == "all" or (spec.dns.capture == "resolvers" and bool(spec.dns.resolvers))


def captures_loopback(spec: Spec) -> bool:
    """Whether a listed block begins inside loopback, of either family: calls on ``lo`` are then looked at."""
    cidrs = spec.outbound.cidrs
    return cidrs != "*" and any(LOOPBACK[cidr.family].holds(cidr.family, cidr.network) for cidr in cidrs)
