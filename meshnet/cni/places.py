"""Where a node keeps its plugins and its networks' configurations, by the distribution that set it up."""

from __future__ import annotations

from meshnet.model.value import value


@value
class Places:
    """``binaries``: the runtime's folder of plugins; ``networks``: that of its configurations."""

    binaries: str = "/opt/cni/bin"
    networks: str = "/etc/cni/net.d"


PROFILES = {
    "standard": Places(),
    "gke": Places("/home/kubernetes/bin"),
    "openshift": Places("/var/lib/cni/bin", "/etc/cni/multus/net.d"),
    "k3s": Places("/var/lib/rancher/k3s/data/cni", "/var/lib/rancher/k3s/agent/etc/cni/net.d"),
    "microk8s": Places("/var/snap/microk8s/current/opt/cni/bin", "/var/snap/microk8s/current/args/cni-network"),
    "minikube": Places(),
}
"""As the distributions' own documents and Istio's platform profiles have them. OpenShift's is where multus looks for
what it delegates to."""
