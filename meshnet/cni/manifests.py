"""What a cluster needs to have the plugin on its nodes, as plain data in Kubernetes' own forms."""

from __future__ import annotations

import json

from meshnet.cni.places import Places
from meshnet.model.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

NAME = "meshnet-cni"
HOST = "/host"
PACKED = "/opt/meshnet/meshnet-cni"
"""Where the image of ``scripts/Containerfile`` has the packed plugin."""

HIGHEST_PRIORITY = 1_000_000_000
"""What a class of one's own may have at most; above it are the system's. A node without the plugin captures nothing."""


@value
class Cluster:
    """The words that differ from cluster to cluster. ``taint``: the key of a taint that is taken off a node that is
    ready; ``repair``: a policy of ``cni/repair``, or empty for none; ``interception``: the body of a spec."""

    image: str
    namespace: str = "kube-system"
    places: Places = Places()
    interception: dict[str, Any] | None = None
    exclude_namespaces: tuple[str, ...] = ("kube-system",)
    log_level: str = "info"
    taint: str = ""
    repair: str = ""


def manifests(cluster: Cluster) -> list[dict[str, Any]]:
    """The objects in the order in which they are to be made."""
    return [
        _object("v1", "ServiceAccount", cluster),
        _object("rbac.authorization.k8s.io/v1", "ClusterRole", None, rules=_rules(cluster)),
        _object(
            "rbac.authorization.k8s.io/v1",
            "ClusterRoleBinding",
            None,
            roleRef={"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": NAME},
            subjects=[{"kind": "ServiceAccount", "name": NAME, "namespace": cluster.namespace}],
        ),
        _object(
            "scheduling.k8s.io/v1",
            "PriorityClass",
            None,
            value=HIGHEST_PRIORITY,
            globalDefault=False,
            description="Pods on a node without meshnet-cni run past their proxies.",
        ),
        _object("v1", "ConfigMap", cluster, data={"entry.json": json.dumps(_entry(cluster), indent=2) + "\n"}),
        _object("apps/v1", "DaemonSet", cluster, spec=_daemon_set(cluster)),
    ]


def init_container(image: str, words: list[str]) -> dict[str, Any]:
    """The part of a Pod that writes its rules by itself: the capabilities that this takes, and none besides."""
    security = {
        "runAsUser": 0,
        "runAsGroup": 0,
        "runAsNonRoot": False,
        "privileged": False,
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"], "add": ["NET_ADMIN", "NET_RAW"]},
    }
    container = {
        "name": "meshnet-init",
        "image": image,
        "command": ["meshnet-init", *words],
        "securityContext": security,
        "resources": _resources("10m", "64Mi"),
        # The legacy tools want a lock file, and the container's own file system is not to be written to.
        "volumeMounts": [{"name": "meshnet-run", "mountPath": "/run"}],
    }
    return {
        "spec": {
            "initContainers": [container],
            "volumes": [{"name": "meshnet-run", "emptyDir": {"medium": "Memory", "sizeLimit": "1Mi"}}],
        }
    }


def _entry(cluster: Cluster) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "excludeNamespaces": list(cluster.exclude_namespaces),
        "logLevel": cluster.log_level,
        # The installer puts the kubeconfig's path in.
        "kubernetes": {"agent": f"{cluster.namespace}/{NAME}"},
    }
    return entry | ({"interception": cluster.interception} if cluster.interception is not None else {})


def _rules(cluster: Cluster) -> list[dict[str, Any]]:
    verbs = ["get", "list"]
    verbs += {"label": ["patch"], "delete": ["delete"]}.get(cluster.repair, [])
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": verbs}]
    if cluster.taint:
        rules.append({"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "patch"]})
    return rules


def _daemon_set(cluster: Cluster) -> dict[str, Any]:
    return {
        "selector": {"matchLabels": {"app.kubernetes.io/name": NAME}},
        "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}},
        "template": {
            "metadata": {
                "labels": {"app.kubernetes.io/name": NAME},
                "annotations": {"sidecar.istio.io/inject": "false"},
            },
            "spec": _pod(cluster),
        },
    }


def _pod(cluster: Cluster) -> dict[str, Any]:
    host = {"name": "host", "hostPath": {"path": "/", "type": "Directory"}}
    folders = {"binaries": cluster.places.binaries, "networks": cluster.places.networks}
    made = [{"name": name, "hostPath": {"path": path, "type": "DirectoryOrCreate"}} for name, path in folders.items()]
    containers = [_installer(cluster)]
    if cluster.repair:
        containers.append(_repairer(cluster))
    found = {
        "serviceAccountName": NAME,
        "priorityClassName": NAME,
        # Not behind the network that it has a part in: it has to come up on a node whose network isn't ready.
        "hostNetwork": True,
        "tolerations": [{"operator": "Exists"}],
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "terminationGracePeriodSeconds": 5,
        "containers": containers,
        "volumes": [host, *made, {"name": "entry", "configMap": {"name": NAME}}],
    }
    return found | ({"hostPID": True} if cluster.repair else {})


def _installer(cluster: Cluster) -> dict[str, Any]:
    words = ["--root", HOST, "--binaries", cluster.places.binaries, "--networks", cluster.places.networks]
    taint = ["--remove-taint", cluster.taint, "--node", "$(NODE_NAME)"] if cluster.taint else []
    installing = ["--entry", "/etc/meshnet/entry.json", "--packed", PACKED, "--service-account"]
    return {
        "name": "installer",
        "image": cluster.image,
        "command": ["meshnet", "cni", "watch", *words, *installing, *taint],
        "env": [_node_name()],
        "securityContext": {"privileged": True, "runAsUser": 0},  # STATUS makes a namespace and puts rules into it
        "readinessProbe": {
            "exec": {"command": ["meshnet", "cni", "ready", *words]},
            "initialDelaySeconds": 1,
            "periodSeconds": 10,
            "timeoutSeconds": 10,
        },
        "resources": _resources("20m", "64Mi"),
        "volumeMounts": [
            {"name": "host", "mountPath": HOST, "readOnly": True},
            {"name": "binaries", "mountPath": HOST + cluster.places.binaries},
            {"name": "networks", "mountPath": HOST + cluster.places.networks},
            {"name": "entry", "mountPath": "/etc/meshnet", "readOnly": True},
        ],
    }


def _repairer(cluster: Cluster) -> dict[str, Any]:
    words = ["--root", HOST, "--networks", cluster.places.networks, "--policy", cluster.repair]
    return {
        "name": "repair",
        "image": cluster.image,
        "command": ["meshnet", "cni", "repair", *words, "--node", "$(NODE_NAME)", "--every", "60"],
        "env": [_node_name()],
        "securityContext": {"privileged": True, "runAsUser": 0},  # it enters every pod's namespace
        "resources": _resources("20m", "128Mi"),
        "volumeMounts": [{"name": "networks", "mountPath": HOST + cluster.places.networks, "readOnly": True}],
    }


def _node_name() -> dict[str, Any]:
    return {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}


def _resources(cpu: str, memory: str) -> dict[str, Any]:
    return {"requests": {"cpu": cpu, "memory": memory}, "limits": {"memory": memory}}


def _object(version: str, kind: str, cluster: Cluster | None, **more: Any) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": NAME}
    if cluster is not None:
        metadata["namespace"] = cluster.namespace
    metadata["labels"] = {"app.kubernetes.io/name": NAME}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **more}
