"""Traffic of the pod's processes, in the original's order: excluded ports, 127.0.0.6, the sidecar, groups, the rest."""

from __future__ import annotations

from meshnet.compile.istio.chains import (
    IN_REDIRECT,
    OUTPUT,
    REDIRECT,
    anybody_else,
    captures_loopback,
    one,
    own_loopback,
    owners,
    redirects_dns,
)
from meshnet.compile.phrases import DNS_TRANSPORTS, TCP, TO_LOOPBACK_INTERFACE
from meshnet.model.program import (
    Destination,
    DestinationPorts,
    Jump,
    LoopbackAddress,
    Owner,
    Protocol,
    Return,
    Source,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from meshnet.compile.draft import Draft
    from meshnet.model.ports import PortRange
    from meshnet.model.program import Match, Table

CHAIN: tuple[Table, str] = ("nat", OUTPUT)


def enter(draft: Draft) -> None:
    draft.enter("nat", "OUTPUT", "out.enter", (), Jump(OUTPUT), "outbound.mode")


def exclude_ports(draft: Draft) -> None:
    for place, ports in enumerate(draft.spec.outbound.exclude_ports):
        for transport in reversed(DNS_TRANSPORTS):
            matches: list[Match] = [Protocol(transport), DestinationPorts((ports,))]
            rule = f"out.exclude.{transport}-{ports}"
            draft.add(CHAIN, rule, matches, Return(), f"outbound.excludePorts[{place}]")


def passthrough(draft: Draft) -> None:
    spec = draft.spec
    for family in draft.families:
        address = spec.passthrough.of(family)
        matches: list[Match] = [TO_LOOPBACK_INTERFACE, Source((address,))]
        draft.add(CHAIN, "out.passthrough", matches, Return(), f"passthrough.ipv{family}", family)
        if family == 6:
            draft.loopback_addresses.append(LoopbackAddress(address, spec.routing.table))


def sidecar(draft: Draft) -> None:
    """Three rules for each uid and each gid. The second one's own-pod rule stands behind the first one's return."""
    spec = draft.spec
    with_dns = redirects_dns(spec)
    for step, origin, who in owners(spec):
        # TCP to port 53 is the DNS proxy's business, also when the sidecar's user sends it; gids lack the exception.
        around: list[PortRange] = [one(53)] if with_dns and who.kind == "uid" else []
        if spec.inbound.tunnel_port is not None:
            around.append(one(spec.inbound.tunnel_port))
        other_ports = (DestinationPorts(tuple(around), negated=True),) if around else ()
        for family in draft.families:
            own: list[Match] = [TO_LOOPBACK_INTERFACE, own_loopback(spec, family, negated=True), TCP, *other_ports, who]
            draft.add(CHAIN, f"out.own-pod.{step}", own, Jump(IN_REDIRECT), origin, family)
        if not captures_loopback(spec):
            but_dns = (TCP, DestinationPorts((one(53),), negated=True)) if with_dns else ()
            application: list[Match] = [TO_LOOPBACK_INTERFACE, *but_dns, anybody_else(who)]
            draft.add(CHAIN, f"out.itself.{step}", application, Return(), origin)
        draft.add(CHAIN, f"out.sidecar.{step}", [who], Return(), origin)


def groups(draft: Draft) -> None:
    outbound = draft.spec.outbound
    if outbound.groups == "*":
        for place, group in enumerate(outbound.exclude_groups):
            origin = f"outbound.excludeGroups[{place}]"
            draft.add(CHAIN, f"out.group.{group}", [Owner("gid", (group,))], Return(), origin)
        return
    others: list[Match] = [Owner("gid", outbound.groups, negated=True)] if outbound.groups else []
    draft.add(CHAIN, "out.groups.others", others, Return(), "outbound.groups")


def loopback(draft: Draft) -> None:
    for family in draft.families:
        matches: list[Match] = [own_loopback(draft.spec, family)]
        draft.add(CHAIN, "out.loopback", matches, Return(), "outbound.loopbackCidr", family)


def exclude_cidrs(draft: Draft) -> None:
    for place, block in enumerate(draft.spec.outbound.exclude_cidrs):
        if block.family in draft.families:
            origin = f"outbound.excludeCidrs[{place}]"
            draft.add(CHAIN, "out.exclude.cidr", [Destination((block,))], Return(), origin, block.family)


def capture(draft: Draft) -> None:
    outbound = draft.spec.outbound
    if outbound.mode == "none":
        return
    for place, ports in enumerate(outbound.ports):
        matches: list[Match] = [TCP, DestinationPorts((ports,))]
        draft.add(CHAIN, f"out.capture.{ports}", matches, Jump(REDIRECT), f"outbound.ports[{place}]")
    if outbound.cidrs == "*":
        draft.add(CHAIN, "out.capture.all", (), Jump(REDIRECT), "outbound.cidrs")
        return
    for place, block in enumerate(outbound.cidrs):
        if block.family in draft.families:
            origin = f"outbound.cidrs[{place}]"
            draft.add(CHAIN, "out.capture.cidr", [Destination((block,))], Jump(REDIRECT), origin, block.family)
