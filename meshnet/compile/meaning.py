"""What a spec says about one flow, told without rules: a second, independent statement of the spec's meaning.

The passes say it in rules, this module in sentences; ``verify`` and the tests hold the kernel, which runs the rules,
against it. A mistake would have to be made twice, in two forms, to go unnoticed. So nothing of the passes is used.
"""

from __future__ import annotations

from meshnet.model.cidr import LOOPBACK
from meshnet.model.flow import Prediction

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from meshnet.model.cidr import Cidr, Family
    from meshnet.model.flow import Flow
    from meshnet.model.ports import PortRange
    from meshnet.model.spec import Spec


def predict(spec: Spec, flow: Flow) -> Prediction:
    """The disposition of a flow under a spec whose families and resolvers are settled (``resolve``)."""
    for place, name in enumerate(spec.interfaces.exclude):
        if _is_interface(name, flow.interface):
            return Prediction("direct", f"interfaces.exclude[{place}]")
    return _arriving(spec, flow) if flow.way == "in" else _leaving(spec, flow)


def _arriving(spec: Spec, flow: Flow) -> Prediction:
    if any(_is_interface(name, flow.interface) for name in spec.interfaces.guest):
        return _left_alone(spec, flow) or _asks_dns(spec, flow) or _wanted_outbound(spec, flow)
    for network in spec.interfaces.networks:
        blocks = [block for block in network.cidrs if block.family == flow.family]
        if not blocks or not _is_interface(network.interface, flow.interface):
            continue
        if not _within(blocks, flow.family, flow.destination):
            return _left_alone(spec, flow) or _asks_dns(spec, flow) or _wanted_outbound(spec, flow)
        if flow.transport == "udp" and not _left_alone(spec, flow) and (asked := _asks_dns(spec, flow)):
            return asked
    return _inbound(spec, flow)


def _leaving(spec: Spec, flow: Flow) -> Prediction:
    passthrough = spec.passthrough.of(flow.family)
    inbound = spec.inbound.mode != "none" and spec.inbound.ports != ()
    if inbound and flow.interface == "lo" and passthrough.holds(flow.family, flow.source):
        return Prediction("direct", f"passthrough.ipv{flow.family}")
    if inbound and spec.inbound.original_source and flow.transport == "tcp" and _marked(spec, flow, spec.marks.inbound):
        return Prediction("direct", "inbound.originalSource")
    if excluded := _left_alone(spec, flow):
        return excluded
    sidecar = _is_sidecar(spec, flow)
    if sidecar:
        own_pod = flow.interface == "lo" and not LOOPBACK[flow.family].holds(flow.family, flow.destination)
        return _inbound(spec, flow) if own_pod and inbound and spec.inbound.own_pod else Prediction("direct", sidecar)
    if spec.outbound.groups != "*" and flow.gid not in spec.outbound.groups:
        return Prediction("direct", "outbound.groups")
    if asked := _asks_dns(spec, flow):
        return asked
    if flow.interface == "lo":
        return _to_loopback(spec, flow)
    return _wanted_outbound(spec, flow)


def _inbound(spec: Spec, flow: Flow) -> Prediction:
    inbound = spec.inbound
    if flow.transport != "tcp" or inbound.mode == "none":
        return Prediction("direct", "inbound.mode")
    if _within(inbound.exclude_sources, flow.family, flow.source):
        return Prediction("direct", "inbound.excludeSources")
    if flow.port == inbound.tunnel_port:
        return Prediction("direct", "inbound.tunnelPort")
    if _among(inbound.exclude_ports, flow.port):
        return Prediction("direct", "inbound.excludePorts")
    captured = inbound.ports == "*" or _among(inbound.ports, flow.port)
    return Prediction("inbound-proxy" if captured else "direct", "inbound.ports")


def _left_alone(spec: Spec, flow: Flow) -> Prediction | None:
    outbound = spec.outbound
    if flow.transport == "tcp" and _among(outbound.exclude_ports, flow.port):
        return Prediction("direct", "outbound.excludePorts")
    if _within(outbound.exclude_cidrs, flow.family, flow.destination):
        return Prediction("direct", "outbound.excludeCidrs")
    if flow.gid is not None and flow.gid in outbound.exclude_groups:
        return Prediction("direct", "outbound.excludeGroups")
    for place, entry in enumerate(outbound.exclude_users):
        port = entry.ports == "*" or _among(entry.ports, flow.port)
        user = flow.uid is not None and any(ids.first <= flow.uid <= ids.last for ids in entry.uids)
        if user and port and entry.transport in ("all", flow.transport):
            return Prediction("direct", f"outbound.excludeUsers[{place}]")
    return None


def _asks_dns(spec: Spec, flow: Flow) -> Prediction | None:
    if spec.dns.capture == "off" or flow.port != 53 or _among(spec.outbound.exclude_ports, 53):
        return None
    if spec.dns.capture == "all" or _within(spec.dns.resolvers, flow.family, flow.destination):
        return Prediction("dns-proxy", "dns.capture")
    return None


def _to_loopback(spec: Spec, flow: Flow) -> Prediction:
    """Loopback and the own pod: direct, unless a listed block lies inside loopback and holds the destination."""
    outbound = spec.outbound
    if outbound.mode == "none" or flow.transport != "tcp" or outbound.cidrs == "*":
        return Prediction("direct", "outbound.loopbackCidr")
    listed = [cidr for cidr in outbound.cidrs if LOOPBACK[cidr.family].covers(cidr)]
    for_application = outbound.loopback_cidr.holds(flow.family, flow.destination)
    if not for_application and _within(listed, flow.family, flow.destination):
        return Prediction("outbound-proxy", "outbound.cidrs")
    return Prediction("direct", "outbound.loopbackCidr")


def _wanted_outbound(spec: Spec, flow: Flow) -> Prediction:
    outbound = spec.outbound
    if outbound.mode == "none" or flow.transport != "tcp":
        return Prediction("direct", "outbound.mode")
    if _among(outbound.ports, flow.port):
        return Prediction("outbound-proxy", "outbound.ports")
    if outbound.cidrs == "*":
        return Prediction("outbound-proxy", "outbound.cidrs")
    listed = [cidr for cidr in outbound.cidrs if not LOOPBACK[cidr.family].covers(cidr)]
    captured = _within(listed, flow.family, flow.destination)
    return Prediction("outbound-proxy" if captured else "direct", "outbound.cidrs")


def _is_sidecar(spec: Spec, flow: Flow) -> str:
    """The path by which the sender is known as the sidecar; empty for anybody else."""
    if spec.sidecar.mark is not None and _marked(spec, flow, spec.sidecar.mark):
        return "sidecar.mark"
    if flow.uid in spec.sidecar.uids:
        return f"sidecar.uids[{spec.sidecar.uids.index(flow.uid)}]"
    if flow.gid in spec.sidecar.gids:
        return f"sidecar.gids[{spec.sidecar.gids.index(flow.gid)}]"
    return ""


def _marked(spec: Spec, flow: Flow, mark: int) -> bool:
    return flow.mark & spec.marks.mask == mark


def _is_interface(pattern: str, name: str) -> bool:
    return name.startswith(pattern[:-1]) if pattern.endswith("+") else name == pattern


def _among(ports: Iterable[PortRange], port: int) -> bool:
    return any(entry.first <= port <= entry.last for entry in ports)


def _within(blocks: Iterable[Cidr], family: Family, address: int) -> bool:
    return any(block.holds(family, address) for block in blocks)
