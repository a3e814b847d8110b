"""The passes of profile istio, in the order in which the original appends its rules."""

from __future__ import annotations

from meshnet.compile.istio import dns, inbound, interfaces, outbound, tproxy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from meshnet.compile.draft import Draft

PASSES: tuple[Callable[[Draft], None], ...] = (
    interfaces.guests,
    interfaces.exclude,
    inbound.invalid,
    inbound.listeners,
    tproxy.guard,
    inbound.capture,
    outbound.enter,
    outbound.exclude_ports,
    outbound.passthrough,
    outbound.sidecar,
    outbound.groups,
    dns.capture,
    dns.zones,
    outbound.loopback,
    outbound.exclude_cidrs,
    outbound.capture,
    tproxy.marks,
    tproxy.routes,
)
