"""Which pod gets which rules, and why: by the runtime's words, the pod's own, and the network's configuration.

Who is selected is what Istio's CNI plugin selects (``spec/dialects/istio_annotations``); here is who is asked, and in
which order, so that a pod that can't be meant waits for nobody.
"""

from __future__ import annotations

from meshnet.cni.podinfo import from_annotations, pod_name
from meshnet.cni.protocol import BAD_CONFIG, POD_REFUSED, CniError
from meshnet.model.errors import SpecError
from meshnet.model.value import replace, value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from meshnet.cni.config import Config
    from meshnet.cni.protocol import Call
    from meshnet.model.spec import Spec


@value
class Decision:
    """``spec`` is None for a pod that gets no rules; ``reason`` is a sentence's rest in either case."""

    spec: Spec | None
    reason: str
    pod: str = ""


def decide(config: Config, call: Call) -> Decision:
    """Whether and how a pod is intercepted. CniError: 102 for a pod whose words are wrong, 11 for an API that is away,
    4 for what is no pod's name, 7 for an ``interception`` that is no spec, 50 for a kubeconfig that is none."""
    name = pod_name(call)
    pod = str(name) if name else ""
    if name is not None:
        if name.namespace in config.exclude_namespaces:
            return Decision(None, f"excludeNamespaces has {name.namespace}", pod)
        namespace, _, start = config.agent.partition("/")
        if config.kubeconfig and name.namespace == namespace and name.name.startswith(start):
            return Decision(None, f"it is the node's own agent ({config.agent})", pod)
    annotations = config.annotations
    if config.kubeconfig:
        if name is None:
            # Somebody else's container on the node: podman and its like take their networks from the same folder.
            return Decision(None, "the runtime names no pod (K8S_POD_NAMESPACE and K8S_POD_NAME in CNI_ARGS)")
        from meshnet.cni.kubernetes import Api, read_kubeconfig
        from meshnet.spec.dialects.istio_annotations import STATUS

        if annotations and STATUS not in annotations:
            # Without it no pod is selected whatever else the API knows, so that it need not be asked.
            return Decision(None, f"it has no annotation {STATUS}, so no sidecar was injected", pod)

        manifest = Api(read_kubeconfig(config.kubeconfig)).pod(name.namespace, name.name, name.uid)
        return of_manifest(config, manifest, pod, "the pod's manifest")
    if annotations is not None:
        return of_manifest(config, from_annotations(annotations, name), pod, "the annotations from the runtime")
    return Decision(interception(config)[0], "every pod of this network is intercepted", pod)


def of_manifest(config: Config, manifest: dict[str, Any], pod: str, whence: str) -> Decision:
    """What a pod's manifest asks for, with the configuration's words where it says nothing. CniError 7 or 102."""
    from meshnet.spec.dialects.istio_annotations import NotIntercepted, decided_by, spec_of_pod

    base, given = interception(config) if config.interception else (None, frozenset())
    profile = base.profile if base is not None and "profile" in given else "istio"
    try:
        spec = spec_of_pod(manifest, profile=profile)
    except SpecError as error:
        raise CniError(POD_REFUSED, f"{pod or 'the pod'}: {error}", "\n".join(error.problems)) from None
    if isinstance(spec, NotIntercepted):
        return Decision(None, spec.reason, pod)
    if base is not None:
        spec = _with_defaults(spec, base, given - decided_by(manifest), pod)
    return Decision(spec, f"by {whence}", pod)


def interception(config: Config) -> tuple[Spec, frozenset[str]]:
    """The configuration's spec, and which of its fields are written there."""
    from meshnet.spec.load import load_body

    try:
        document = load_body(config.interception or {}, "interception")
    except SpecError as error:
        raise CniError(BAD_CONFIG, f"interception: {error}", "\n".join(error.problems)) from None
    return document.spec, frozenset(document.lines)


def _with_defaults(spec: Spec, base: Spec, paths: frozenset[str], pod: str) -> Spec:
    """The pod's spec with the configuration's word wherever the pod has none of its own."""
    from meshnet.spec.check import conflicts
    from meshnet.spec.fields import FIELDS, Section

    for field in FIELDS:
        mine, theirs = getattr(spec, field.attribute), getattr(base, field.attribute)
        if isinstance(field.shape, Section):
            inner = [item for item in field.shape.fields if f"{field.key}.{item.key}" in paths]
            changes = {item.attribute: getattr(theirs, item.attribute) for item in inner}
            spec = replace(spec, **{field.attribute: replace(mine, **changes)}) if changes else spec
        elif field.key in paths and field.key != "name":
            spec = replace(spec, **{field.attribute: theirs})
    problems = [": ".join((item.path, item.what, item.right)) for item in conflicts(spec)]
    if problems:
        said = f"{pod or 'the pod'}: its words and those of interception don't fit each other"
        raise CniError(POD_REFUSED, said, "\n".join(problems))
    return spec
