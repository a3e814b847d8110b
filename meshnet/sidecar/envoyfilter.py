"""The same for a proxy that somebody else configures: Istio's EnvoyFilter, and what the pod has to grant.

Istio writes ``virtualInbound`` itself and has no field for the client's address. A patch of that listener adds the
filter; the pod's patch gives the proxy container the capability that the filter's sockets need.
"""

from __future__ import annotations

from meshnet.model.errors import UsageError
from meshnet.sidecar.envoy import TYPE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from meshnet.model.spec import Spec


def envoyfilter(spec: Spec) -> dict[str, Any]:
    """The resource that adds ``original_src`` to Istio's inbound listener. UsageError when the spec keeps no source."""
    _keeps(spec)
    config = {
        "@type": TYPE + "extensions.filters.listener.original_src.v3.OriginalSrc",
        "bind_port": False,
        "mark": spec.marks.inbound_mark.put(0),
    }
    added = {"name": "envoy.filters.listener.original_src", "typed_config": config}
    patch = {
        "applyTo": "LISTENER",
        "match": {"context": "SIDECAR_INBOUND", "listener": {"name": "virtualInbound"}},
        # Merging appends to a list, so the filter comes behind Istio's own original_dst.
        "patch": {"operation": "MERGE", "value": {"listener_filters": [added]}},
    }
    return {
        "apiVersion": "networking.istio.io/v1alpha3",
        "kind": "EnvoyFilter",
        "metadata": {"name": f"{spec.name}-original-source"},
        "spec": {"configPatches": [patch]},
    }


def pod_patch(spec: Spec) -> dict[str, Any]:
    """A strategic merge patch of a pod: the interception mode, and who the proxy container has to be.

    A container runtime gives an added capability to root alone: a process of another user has it in its bounding set
    only. So the proxy runs as root, and the rules know it by its group, or by its mark, instead of its user.
    UsageError when the spec keeps no source, or knows the sidecar by another user than root alone.
    """
    _keeps(spec)
    sidecar = spec.sidecar
    if not sidecar.gids and sidecar.mark is None and 0 not in sidecar.uids:
        raise UsageError(
            "the spec knows the sidecar by its user alone, and a container's user other than root gets no capability",
            hint="give sidecar.gids, such as [1337], or sidecar.mark",
        )
    context: dict[str, Any] = {"runAsUser": 0, "runAsNonRoot": False, "capabilities": {"add": ["NET_ADMIN"]}}
    if sidecar.gids:
        context["runAsGroup"] = sidecar.gids[0]
    mode = "TPROXY" if spec.inbound.mode == "tproxy" else "REDIRECT"
    return {
        "metadata": {"annotations": {"sidecar.istio.io/interceptionMode": mode}},
        "spec": {"containers": [{"name": "istio-proxy", "securityContext": context}]},
    }


def _keeps(spec: Spec) -> None:
    if not (spec.inbound.active and spec.inbound.original_source):
        raise UsageError(
            "this spec keeps no client address: there is nothing to add to the listener",
            hint="inbound.originalSource: true, with inbound traffic captured",
        )
