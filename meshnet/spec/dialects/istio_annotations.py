"""A Kubernetes Pod with Istio's annotations to a Spec, or to the reason why its traffic isn't intercepted.

Who is selected, what stands for an absent annotation and which of the proxy's facts count is what Istio's CNI plugin
does (istio/istio, cni/pkg/plugin); what the words mean is said once, by the options in ``dialects/istio``.
"""

from __future__ import annotations

from meshnet.model.errors import SpecError, Wrong
from meshnet.model.names import SIDECAR_ID, UNCAPTURED_INBOUND
from meshnet.model.ports import read_port
from meshnet.model.value import replace, value
from meshnet.spec import readers
from meshnet.spec.dialects.istio import spec_of
from meshnet.spec.dialects.istio_options import Word, read_truth
from meshnet.spec.dialects.plain import Places, shown
from meshnet.spec.nearest import nearest
from meshnet.spec.nodes import printable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from meshnet.model.spec import Families, Profile, Spec

PROXY = "istio-proxy"
INITS = ("istio-init", "meshnet-init")
"""Init containers that write the rules themselves: the original's, and that of ``meshnet init-container``."""

TRAFFIC = "traffic.sidecar.istio.io/"
INJECT, STATUS, MODE = "sidecar.istio.io/inject", "sidecar.istio.io/status", "sidecar.istio.io/interceptionMode"
STATUS_PORTS = ("status.sidecar.istio.io/port", "sidecar.istio.io/statusPort")
GUESTS = ("istio.io/reroute-virtual-interfaces", f"{TRAFFIC}kubevirtInterfaces")
"""Two names of one list; the first one counts where both are given, since the second is the older one."""

ANNOTATIONS = {
    f"{TRAFFIC}includeInboundPorts": "istio-inbound-ports",
    f"{TRAFFIC}excludeInboundPorts": "istio-local-exclude-ports",
    f"{TRAFFIC}includeOutboundPorts": "istio-outbound-ports",
    f"{TRAFFIC}excludeOutboundPorts": "istio-local-outbound-ports-exclude",
    f"{TRAFFIC}includeOutboundIPRanges": "istio-service-cidr",
    f"{TRAFFIC}excludeOutboundIPRanges": "istio-service-exclude-cidr",
    f"{TRAFFIC}excludeInterfaces": "istio-exclude-interfaces",
}
"""Which option an annotation is; ``kubevirtInterfaces`` and those outside this prefix are read by name."""

DEFAULTS = {"istio-inbound-ports": "*", "istio-service-cidr": "*", "istio-local-outbound-ports-exclude": "15020"}
"""What stands for an absent annotation. One that is given takes its default's place, an empty one too."""

DNS, DUAL_STACK, INVALID, DISABLED = "ISTIO_META_DNS_CAPTURE", "ISTIO_DUAL_STACK", "INVALID_DROP", "DISABLE_ENVOY"
VARIABLES = {DNS: ("redirect-dns", "capture-all-dns"), DUAL_STACK: ("dual-stack",), INVALID: ("drop-invalid",)}
"""Which options a variable of the proxy's container sets. Unlike ``istio-iptables``, the plugin captures all DNS."""

PATHS = {
    MODE: "inbound.mode",
    f"{TRAFFIC}includeInboundPorts": "inbound.ports",
    f"{TRAFFIC}excludeInboundPorts": "inbound.excludePorts",
    f"{TRAFFIC}includeOutboundPorts": "outbound.ports",
    f"{TRAFFIC}excludeOutboundPorts": "outbound.excludePorts",
    f"{TRAFFIC}includeOutboundIPRanges": "outbound.cidrs",
    f"{TRAFFIC}excludeOutboundIPRanges": "outbound.excludeCidrs",
    f"{TRAFFIC}excludeInterfaces": "interfaces.exclude",
    **dict.fromkeys(GUESTS, "interfaces.guest"),
}
"""The spec's field that an annotation is about."""

VARIABLE_PATHS = {DNS: "dns.capture", DUAL_STACK: "families", INVALID: "dropInvalid"}

YES, NO = ("y", "yes", "on"), ("n", "no", "off")
"""Further words of ``inject``, which the injector takes beside those of Go's ParseBool."""


@value
class NotIntercepted:
    """A pod that gets no rules; ``reason`` is part of a sentence, such as "it has no container istio-proxy"."""

    reason: str


def spec_of_pod(pod: object, *, profile: Profile = "istio", families: Families = "auto") -> Spec | NotIntercepted:
    """What a Pod's manifest (plain data, as from JSON) asks for. SpecError names everything that is wrong at once.

    ``kind`` and ``apiVersion`` may be absent, as in the lists that the API server answers with.
    """
    manifest = _Manifest(pod)
    reason = "" if manifest.problems else _reason(manifest)
    if manifest.problems:
        raise SpecError(manifest.problems)
    if reason:
        return NotIntercepted(reason)
    given = dict(_given(manifest))
    problems = list(manifest.problems)
    try:
        spec = spec_of(given, profile=profile, families=families)
    except SpecError as error:
        problems += error.problems
    if problems:
        raise SpecError(list(dict.fromkeys(problems)))  # one variable may set two options
    return replace(spec, name=manifest.name or spec.name)


def decided_by(pod: object) -> frozenset[str]:
    """The spec's fields that this manifest itself decides; for all others ``spec_of_pod`` took a default."""
    manifest = _Manifest(pod)
    found = {path for key, path in PATHS.items() if manifest.annotated(key)}
    found |= {path for name, path in VARIABLE_PATHS.items() if manifest.variable(name)}
    return frozenset(found | manifest.identities_given())


def _reason(pod: _Manifest) -> str:
    """Why a pod isn't intercepted, in the plugin's order; empty when it is."""
    if pod.host_network:
        return "it has the node's network (hostNetwork), which is no pod's to change"
    if init := next((name for name in INITS if name in pod.containers), ""):
        return f"its own container {init} writes the rules"
    if not pod.proxy:
        return f"it has no container {PROXY}, neither beside the application nor as a sidecar in initContainers"
    if pod.truth(pod.variable(DISABLED)):
        return f"{DISABLED} of {PROXY} is true"
    if pod.role not in ("", "sidecar"):
        return f"its {PROXY} is a {printable(pod.role)}, not a sidecar"
    inject = pod.label(INJECT) or pod.annotation(INJECT)
    if inject and inject.text and not pod.truth(inject, YES, NO):
        return f"{INJECT} is {printable(inject.text)}"
    if not pod.annotated(STATUS):
        return f"it has no annotation {STATUS}, so no sidecar was injected"
    mode = pod.annotation(MODE)
    return f"{MODE} is NONE" if mode and mode.text == "NONE" else ""


def _given(pod: _Manifest) -> Iterator[tuple[str, Word]]:
    for option, text in DEFAULTS.items():
        yield option, Word(text, option)
    for key, option in ANNOTATIONS.items():
        if word := pod.annotation(key):
            yield option, word
    mode = pod.annotation(MODE)
    if mode and pod.read(mode.label, mode.text, readers.choice("REDIRECT", "TPROXY", "NONE")):
        yield "istio-inbound-interception-mode", mode
    yield "istio-local-exclude-ports", _uncaptured(pod)
    if guests := next((word for key in GUESTS if (word := pod.annotation(key))), None):
        yield "kube-virt-interfaces", guests
    for option, field in (("proxy-uid", "runAsUser"), ("proxy-gid", "runAsGroup")):
        yield option, pod.identity(field)
    for name, options in VARIABLES.items():
        if word := pod.variable(name):
            yield from ((option, word) for option in options)
    pod.look_for_unknown()


def _uncaptured(pod: _Manifest) -> Word:
    """Excluded inbound ports: those of the annotation, the status port, and always the sidecar's own three."""
    listed = pod.annotation(f"{TRAFFIC}excludeInboundPorts")
    texts = [item for item in listed.text.split(",") if item.strip()] if listed else []
    for key in STATUS_PORTS:
        port = pod.annotation(key)
        if port and port.text != "0" and pod.read(port.label, port.text, read_port):  # 0 switches the status port off
            texts.append(port.text)
    own = [str(number) for number in UNCAPTURED_INBOUND if str(number) not in texts]
    return Word(",".join([*texts, *own]), listed.label if listed else "istio-local-exclude-ports")


class _Manifest(Places):
    """A Pod's manifest, read as far as it matters here."""

    def __init__(self, pod: object) -> None:
        super().__init__()
        if not isinstance(pod, dict):
            self.wrong("", f"{shown(pod)} in place of a Pod", "a manifest with kind: Pod")
            pod = {}
        self._kind(pod)
        metadata = self.mapping(pod, "metadata")
        self._annotations = self.mapping(metadata, "annotations", "metadata.")
        self._labels = self.mapping(metadata, "labels", "metadata.")
        name = metadata.get("name")
        self.name = name if isinstance(name, str) and _is_name(name) else ""
        spec = self.mapping(pod, "spec")
        self.host_network = spec.get("hostNetwork") is True
        self._security = self.mapping(spec, "securityContext", "spec.")
        self.containers: list[str] = []
        self.proxy: dict[Any, Any] = {}
        self.place = ""
        self._look_at_containers(spec)
        self._environment = self._variables()
        words = self.proxy.get("args")
        role = str(words[1]) if isinstance(words, list) and words[:1] == ["proxy"] and len(words) > 1 else ""
        self.role = "" if role.startswith("-") else role

    def annotated(self, key: str) -> bool:
        return key in self._annotations

    def annotation(self, key: str) -> Word | None:
        return self._word(self._annotations, key, f"metadata.annotations[{key}]")

    def label(self, key: str) -> Word | None:
        return self._word(self._labels, key, f"metadata.labels[{key}]")

    def variable(self, name: str) -> Word | None:
        return self._environment.get(name)

    def identity(self, field: str) -> Word:
        """The proxy's user or group id: its container's, or else the pod's. 0 and none at all stand for 1337."""
        own = self.mapping(self.proxy, "securityContext", f"{self.place}.")
        where, there = (f"{self.place}.", own) if own.get(field) is not None else ("spec.", self._security)
        place, number = f"{where}securityContext.{field}", there.get(field)
        if number is not None and (not isinstance(number, int) or isinstance(number, bool)):
            self.wrong(place, f"not a number ({shown(number)})", "a number such as 1337, without quotes")
            number = None
        return Word(str(number or SIDECAR_ID), place)

    def identities_given(self) -> set[str]:
        """Which identities of the proxy the manifest names by number."""
        own = self.mapping(self.proxy, "securityContext")
        named = {"runAsUser": "sidecar.uids", "runAsGroup": "sidecar.gids"}
        return {path for field, path in named.items() if own.get(field) or self._security.get(field)}

    def truth(self, word: Word | None, yes: tuple[str, ...] = (), no: tuple[str, ...] = ()) -> bool:
        if word is None or not word.text:
            return False
        if word.text.lower() in (*yes, *no):
            return word.text.lower() in yes
        return bool(self.read(word.label, word.text, read_truth))

    def look_for_unknown(self) -> None:
        """An annotation about traffic with a misspelled name would be a promise that nobody keeps."""
        known = (*ANNOTATIONS, *GUESTS)
        for key in self._annotations:
            if isinstance(key, str) and key.startswith(TRAFFIC) and key not in known:
                right = nearest(key, known) or ", ".join(known)
                self.wrong(f"metadata.annotations[{printable(key, 80)}]", "an unknown annotation about traffic", right)

    def _kind(self, pod: dict[Any, Any]) -> None:
        kind = pod.get("kind", "Pod")
        if kind == "Pod" and pod.get("apiVersion", "v1") != "v1":
            self.wrong("apiVersion", f"unknown apiVersion ({shown(pod['apiVersion'])})", "v1")
        if kind == "Pod":
            return
        spec = pod.get("spec")
        maker = isinstance(spec, dict) and ("template" in spec or "jobTemplate" in spec)
        right = "the manifest of one Pod that is made from it (kubectl get pod -o yaml)" if maker else "kind: Pod"
        self.wrong("kind", f"not a Pod ({shown(kind)})", right)

    def _look_at_containers(self, spec: dict[Any, Any]) -> None:
        for key in ("containers", "initContainers"):
            for place, container in enumerate(self.listing(spec, key, "spec.", "containers")):
                where = f"spec.{key}[{place}]"
                if not isinstance(container, dict):
                    self.wrong(where, f"no container ({shown(container)})", "a mapping with a name")
                    continue
                self.containers.append(str(container.get("name")))
                lasting = key == "containers" or container.get("restartPolicy") == "Always"
                if container.get("name") == PROXY and lasting and not self.proxy:
                    self.proxy, self.place = container, where

    def _variables(self) -> dict[str, Word]:
        found: dict[str, Word] = {}
        for entry in self.listing(self.proxy, "env", f"{self.place}.", "names with values"):
            name = entry.get("name") if isinstance(entry, dict) else None
            if name not in (*VARIABLES, DISABLED):
                continue
            place = f"{self.place}.env[{name}]"
            if entry.get("valueFrom") is not None:
                self.wrong(place, "a value from elsewhere (valueFrom)", "the value itself, true or false")
            elif word := self._word(entry, "value", place):
                found[name] = word  # the last one counts, as in the container
        return found

    def _word(self, inside: dict[Any, Any], key: str, place: str) -> Word | None:
        item = inside.get(key)
        if item is None:
            return None
        if not isinstance(item, str):
            self.wrong(place, f"not text ({shown(item)})", "the same in quotes")
            return None
        return Word(item.strip(), place)


def _is_name(text: str) -> bool:
    try:
        readers.read_name(text)
    except Wrong:
        return False
    return True
