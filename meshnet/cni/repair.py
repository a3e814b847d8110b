"""Finds running pods of a node that should be captured and are not, and does about it what the policy says.

A pod that started while the plugin wasn't in the chain runs on, and its traffic goes past the proxy; nobody is told.
"""

from __future__ import annotations

import os

from meshnet.cni.protocol import CniError
from meshnet.cni.selection import of_manifest
from meshnet.cni.visit import visit
from meshnet.kernel.netns import Where, open_namespace
from meshnet.model.errors import MeshnetError
from meshnet.model.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, Literal

    from meshnet.apply.session import Session
    from meshnet.cni.config import Config
    from meshnet.cni.kubernetes import Api
    from meshnet.model.spec import Spec

    Policy = Literal["report", "apply", "label", "delete"]
    State = Literal["captured", "drifted", "repaired", "labelled", "deleted", "unknown"]

POLICIES: tuple[Policy, ...] = ("report", "apply", "label", "delete")
LABEL = "cni.meshnet/uncaptured"
GOOD = ("captured", "repaired")
STATES: tuple[State, ...] = ("captured", "drifted", "repaired", "labelled", "deleted", "unknown")


@value
class Checked:
    """One pod that should be captured. ``said``: how many differences, or why it couldn't be seen."""

    namespace: str
    name: str
    state: State
    said: str = ""

    @property
    def good(self) -> bool:
        return self.state in GOOD


def repair(api: Api, config: Config, node: str, policy: Policy, proc: str = "/proc") -> list[Checked]:
    """Look at every running pod of a node that the plugin selects, in the order of their names.

    CniError when the API can't be asked; what goes wrong with one pod is said of that pod alone.
    """
    found = []
    for pod in sorted(api.pods_of(node), key=_key):
        namespace, name, _ = _key(pod)
        if not _is_running(pod) or namespace in config.exclude_namespaces:
            continue
        try:
            spec = of_manifest(config, pod, f"{namespace}/{name}", "the pod's manifest").spec
            if spec is not None:
                found.append(_one(api, pod, spec, policy, proc))
        except CniError as error:
            found.append(Checked(namespace, name, "unknown", error.message))
        except MeshnetError as error:
            found.append(Checked(namespace, name, "unknown", str(error)))
    return found


def metrics(checked: Iterable[Checked], node: str) -> str:
    """A line for each pod and one for each state, in Prometheus' text format."""
    listed = list(checked)
    lines = [
        "# HELP meshnet_cni_pod_captured Whether a running pod that should be captured is.",
        "# TYPE meshnet_cni_pod_captured gauge",
    ]
    for item in listed:
        labels = {"node": node, "namespace": item.namespace, "pod": item.name, "state": item.state}
        lines.append(f"meshnet_cni_pod_captured{_labels(labels)} {int(item.good)}")
    lines += [
        "# HELP meshnet_cni_pods Running pods that should be captured, by what was found or done.",
        "# TYPE meshnet_cni_pods gauge",
    ]
    for state in STATES:
        count = sum(item.state == state for item in listed)
        lines.append(f"meshnet_cni_pods{_labels({'node': node, 'state': state})} {count}")
    return "\n".join([*lines, ""])


def process_of(uid: str, proc: str = "/proc") -> int | None:
    """Any process of a pod: its id stands in the names of its control groups, with the driver's own joints."""
    names = (f"pod{uid}", f"pod{uid.replace('-', '_')}")
    for entry in os.listdir(proc):
        if not entry.isdigit():
            continue
        try:
            with open(f"{proc}/{entry}/cgroup", encoding="utf-8", errors="replace") as file:
                groups = file.read()
        except OSError:
            continue  # it has ended meanwhile
        if any(name in groups for name in names):
            return int(entry)
    return None


def _one(api: Api, pod: dict[str, Any], spec: Spec, policy: Policy, proc: str) -> Checked:
    namespace, name, uid = _key(pod)
    pid = process_of(uid, proc) if uid else None
    if pid is None:
        return Checked(namespace, name, "unknown", "no process of it is seen here: hostPID?")
    with open_namespace(Where("path", f"{proc}/{pid}/ns/net")) as opened:
        if opened.is_current or opened.is_initial:
            return Checked(namespace, name, "unknown", "it is in the agent's own network namespace")
        drift = visit(opened, lambda session: list(session.changes(spec).differences))
        if not drift:
            return Checked(namespace, name, "captured")
        said = drift[0] if len(drift) == 1 else f"{len(drift)} differences, the first: {drift[0]}"
        if policy == "apply":
            visit(opened, lambda session: _applied(session, spec))
            return Checked(namespace, name, "repaired", said)
    if policy == "label":
        api.label(namespace, name, {LABEL: "true"})
        return Checked(namespace, name, "labelled", said)
    if policy == "delete":
        api.delete(namespace, name, uid)
        return Checked(namespace, name, "deleted", said)
    return Checked(namespace, name, "drifted", said)


def _applied(session: Session, spec: Spec) -> list[str]:
    return list(session.apply(spec).changes.differences)


def _key(pod: dict[str, Any]) -> tuple[str, str, str]:
    metadata = pod.get("metadata") or {}
    return (str(metadata.get("namespace", "")), str(metadata.get("name", "")), str(metadata.get("uid", "")))


def _is_running(pod: dict[str, Any]) -> bool:
    status, metadata = pod.get("status") or {}, pod.get("metadata") or {}
    return status.get("phase") == "Running" and not metadata.get("deletionTimestamp")


def _labels(labels: dict[str, str]) -> str:
    quoted = (
        f'{key}="{word.replace(chr(92), chr(92) * 2).replace(chr(34), chr(92) + chr(34)).replace(chr(10), " ")}"'
        for key, word in labels.items()
    )
    return f"{{{','.join(quoted)}}}"
