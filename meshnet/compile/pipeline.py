"""Spec to Program. Read this first: the list of passes is the order of meaning in every chain.

In OUTPUT: passthrough bypass, the sidecar's mark, exclusions, the sidecar to its own pod, the sidecar itself, groups
that aren't included, DNS capture, loopback, inclusions. Exclusion always wins over inclusion, DNS capture included.
"""

from __future__ import annotations

from meshnet.compile.draft import Draft
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
from meshnet.compile.resolve import resolve

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from meshnet.model.facts import Facts
    from meshnet.model.program import Program
    from meshnet.model.spec import Spec

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


def compile_spec(spec: Spec, facts: Facts) -> Program:
    """The program of a spec in a namespace with these facts; raises SpecError where the facts leave it undecided."""
    resolved, families = resolve(spec, facts)
    draft = Draft(resolved, families)
    if spec.profile == "istio":
        from meshnet.compile.istio.pipeline import PASSES as ISTIO_PASSES

        for step in ISTIO_PASSES:
            step(draft)
        return draft.finish_as_written()
    for step in PASSES:
        step(draft)
    return draft.finish()
