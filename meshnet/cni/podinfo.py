"""What is known about a pod, and from whom: the runtime's arguments, its annotations, or the Kubernetes API."""

from __future__ import annotations

from meshnet.cni.protocol import BAD_ENVIRONMENT, CniError
from meshnet.model.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from meshnet.cni.protocol import Call


@value
class PodName:
    """Of which pod the sandbox is, as kubelet's runtimes say in CNI_ARGS; ``uid`` tells two of one name apart."""

    namespace: str
    name: str
    uid: str = ""

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


def pod_name(call: Call) -> PodName | None:
    """None when the runtime is none of kubelet's. CniError 4 for words that would be another path of the API.

    Half a name is none: podman gives its containers' names as K8S_POD_NAME, and no namespace.
    """
    given = call.arguments
    namespace, name = given.get("K8S_POD_NAMESPACE", ""), given.get("K8S_POD_NAME", "")
    if not namespace or not name:
        return None
    for key, word in (("K8S_POD_NAMESPACE", namespace), ("K8S_POD_NAME", name)):
        if not _is_object_name(word):
            raise CniError(BAD_ENVIRONMENT, f"CNI_ARGS: {key} is no name of Kubernetes")
    return PodName(namespace, name, given.get("K8S_POD_UID", ""))


def from_annotations(annotations: Mapping[str, Any], name: PodName | None) -> dict[str, Any]:
    """A manifest with what annotations alone say. The injector's status lists the containers that it put in.

    The proxy's user and variables stand in the pod's spec alone, so that they take their defaults here.
    """
    from meshnet.spec.dialects.istio_annotations import PROXY, STATUS

    status = annotations.get(STATUS)
    spec: dict[str, Any] = {"containers": [], "initContainers": []}
    listed = _injected(status) if isinstance(status, str) else {}
    for key in spec:
        names = listed.get(key)
        spec[key] = [{"name": item} for item in names if isinstance(item, str)] if isinstance(names, list) else []
    for container in spec["initContainers"]:
        if container["name"] == PROXY:
            container["restartPolicy"] = "Always"  # the injector puts it there for that alone
    if status is not None and not listed:
        spec["containers"] = [{"name": PROXY}]
    metadata = {"annotations": dict(annotations)}
    if name is not None:
        metadata |= {"name": name.name, "namespace": name.namespace}  # type: ignore[dict-item]
    return {"metadata": metadata, "spec": spec}


def _injected(status: str) -> dict[str, Any]:
    from meshnet.spec.jsontext import NotJson, decode

    try:
        found = decode(status)
    except NotJson:
        return {}
    return found if isinstance(found, dict) and ("containers" in found or "initContainers" in found) else {}


def _is_object_name(word: str) -> bool:
    """A DNS subdomain name (Kubernetes, "Object Names and IDs")."""
    letters = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-.")
    return 0 < len(word) <= 253 and letters.issuperset(word) and word[0] not in "-." and word[-1] not in "-."
