"""Phrases that several passes say: who the sidecar is, what loopback is, which transports carry DNS."""

from __future__ import annotations

from meshnet.model.cidr import LOOPBACK, Cidr
from meshnet.model.marks import Mark
from meshnet.model.ports import PortRange
from meshnet.model.program import Destination, DestinationPorts, MarkIs, OutInterface, Owner, Protocol

TYPE_CHECKING = False
if TYPE_CHECKING:
    from meshnet.model.cidr import Family
    from meshnet.model.program import Match, Transport
    from meshnet.model.spec import Spec

TCP = Protocol("tcp")
TO_LOOPBACK_INTERFACE = OutInterface(("lo",))
DNS_TRANSPORTS: tuple[Transport, ...] = ("udp", "tcp")
TO_DNS = DestinationPorts((PortRange(53, 53),))


def identities(spec: Spec) -> tuple[tuple[str, str, Match], ...]:
    """Everything by which the sidecar is known, as (step, origin, match); the marks first, uids and gids after."""
    marks = () if spec.sidecar.mark is None else (spec.sidecar.mark,)
    return (
        *(("mark", "sidecar.mark", MarkIs(Mark(mark, spec.marks.mask))) for mark in marks),
        *(
            (f"uid-{uid}", f"sidecar.uids[{place}]", Owner("uid", (uid,)))
            for place, uid in enumerate(spec.sidecar.uids)
        ),
        *(
            (f"gid-{gid}", f"sidecar.gids[{place}]", Owner("gid", (gid,)))
            for place, gid in enumerate(spec.sidecar.gids)
        ),
    )


def listed(names: tuple[str, ...], field: str) -> tuple[str, str]:
    """The step and the origin of a rule about the interfaces that a field lists: a lone one is called by its name."""
    return (names[0], f"{field}[0]") if len(names) == 1 else ("interfaces", field)


def off_loopback(family: Family) -> Destination:
    """A destination on ``lo`` that is no loopback address: one of the pod's own addresses."""
    return Destination((LOOPBACK[family],), negated=True)


def loopback_inclusions(spec: Spec) -> tuple[Cidr, ...]:
    """The entries of ``outbound.cidrs`` that lie inside loopback: only these capture calls to loopback."""
    if spec.outbound.cidrs == "*" or not spec.outbound.active:
        return ()
    return tuple(cidr for cidr in spec.outbound.cidrs if LOOPBACK[cidr.family].covers(cidr))


def dns_captured(spec: Spec) -> bool:
    """DNS capture is on and not undone by an excluded port 53: exclusion wins over DNS capture too."""
    return spec.dns.capture != "off" and not any(ports.covers(53) for ports in spec.outbound.exclude_ports)


def keeps_source(spec: Spec) -> bool:
    return spec.inbound.active and spec.inbound.original_source


def captures_nobody(spec: Spec) -> bool:
    """An empty list of groups lets everybody go, by a rule that nothing gets past: rules behind it would be dead."""
    return spec.outbound.groups == ()
