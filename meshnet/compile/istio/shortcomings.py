"""Where profile istio is known to fail for what a spec asks: one line each, and the profile that doesn't."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from meshnet.model.spec import Spec


def shortcomings(spec: Spec) -> tuple[str, ...]:
    """What to tell who is about to get these rules; docs/profiles.md has the packets that show each."""
    if spec.profile != "istio" or not spec.inbound.active:
        return ()
    found = []
    mortal = [uid for uid in spec.sidecar.uids if uid != 0]
    if spec.inbound.mode == "tproxy" and mortal:
        found.append(
            f"a sidecar that runs as uid {mortal[0]} under TPROXY is sent back to itself without end when it keeps a "
            "client's address; --profile meshnet lets it through"
        )
    if spec.inbound.mode == "redirect" and len(spec.sidecar.uids) > 1:
        found.append(
            f"with several proxy uids under REDIRECT, calls of uid {spec.sidecar.uids[1]} to its own pod pass the "
            "inbound listener by; --profile meshnet takes them all there"
        )
    return tuple(found)
