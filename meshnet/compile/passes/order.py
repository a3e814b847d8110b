"""The passes of profile meshnet. Read this first: their order is the order of meaning in every chain.

In OUTPUT: passthrough bypass, the sidecar's mark, exclusions, the sidecar to its own pod, the sidecar itself, groups
that aren't included, DNS capture, loopback, inclusions. Exclusion always wins over inclusion, DNS capture included.
"""

from __future__ import annotations

from meshnet.compile.passes import (
    dns,
    exclude,
    guard,
    guest_interfaces,
    identity,
    inbound,
    original_source,
    outbound,
    passthrough,
    routes,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from meshnet.compile.draft import Draft

PASSES: tuple[Callable[[Draft], None], ...] = (
    guard.interfaces,
    guard.mid_stream,
    guard.invalid,
    guest_interfaces.enter,
    passthrough.bypass,
    original_source.keep,
    inbound.tproxy_own_pod_enter,
    dns.sidecar_zones,
    exclude.outbound,
    exclude.queries,
    exclude.guests,
    inbound.tproxy,
    inbound.redirect,
    inbound.redirect_own_pod,
    inbound.tproxy_own_pod,
    identity.sidecar,
    identity.groups,
    dns.query_zones,
    dns.capture,
    dns.capture_guests,
    outbound.loopback,
    outbound.capture,
    outbound.capture_guests,
    routes.policy,
)
