"""The network's configuration as it comes by standard input, read as far as this plugin has to do with it."""

from __future__ import annotations

from meshnet.cni.protocol import (
    BAD_CONFIG,
    INCOMPATIBLE,
    UNDECODABLE,
    UNSUPPORTED_FIELD,
    CniError,
    is_name,
    require_version,
)
from meshnet.model.value import replace, value
from meshnet.spec.jsontext import NotJson, decode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

ANNOTATIONS = "io.kubernetes.cri.pod-annotations"
"""The capability by which containerd and CRI-O hand over a pod's annotations (their documents on CNI)."""

STATE_FOLDER = "/run/meshnet-cni"
"""Gone after a boot, as the namespaces are that it tells of."""

LOG_FILE = "/var/log/meshnet-cni.log"
LEVELS = ("debug", "info", "warn", "error")

AGENT = "kube-system/meshnet-cni"
"""Namespace, and what the name begins with, of the pods that install this plugin: they never wait for it."""

MOST_STRANGE = 100
"""Keys that are looked at for a misspelling: a document of a hundred thousand of them would take minutes."""

OWN_KEYS = ("interception", "kubernetes", "excludeNamespaces", "logLevel", "logFile", "stateDir")
STANDARD_KEYS = (
    *("cniVersion", "name", "type", "prevResult", "runtimeConfig", "capabilities", "args", "dns", "ipMasq"),
    *("disableCheck", "cniVersions", "cni.dev/valid-attachments", "cni.dev/attachments", "plugins", "disableGC"),
)
"""Keys that runtimes and network lists bring along (section 1). Others' own keys say nothing to us either."""


@value
class Config:
    """``raw`` is the whole document. ``complaint`` is what is wrong with our part of it: DEL does without that part."""

    raw: Mapping[str, Any]
    version: str
    network: str
    interception: Mapping[str, Any] | None = None
    kubeconfig: str = ""
    agent: str = AGENT
    exclude_namespaces: tuple[str, ...] = ()
    log_level: str = "info"
    log_file: str = LOG_FILE
    state_folder: str = STATE_FOLDER
    complaint: CniError | None = None

    @property
    def annotations(self) -> Mapping[str, Any] | None:
        """The pod's annotations, when the runtime was asked to hand them over; empty when the pod has none."""
        for key, inside in (("runtimeConfig", self.raw), ("args", self.raw), ("cni", _mapping(self.raw, "args"))):
            if isinstance(found := _mapping(inside, key).get(ANNOTATIONS), dict):
                return found
        return {} if _mapping(self.raw, "capabilities").get(ANNOTATIONS) is True else None


def read_object(text: bytes) -> dict[str, Any]:
    """The JSON object on standard input; CniError 6."""
    try:
        found = decode(text.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise CniError(UNDECODABLE, f"the network configuration is not UTF-8 (byte {error.start})") from None
    except NotJson as error:
        said = "empty" if not text.strip() else f"no JSON: {error}"
        raise CniError(UNDECODABLE, f"the network configuration is {said}") from None
    if not isinstance(found, dict):
        kind = {list: "a list", str: "a text", type(None): "null"}.get(type(found), "a number or a truth value")
        raise CniError(UNDECODABLE, f"the network configuration is {kind} in place of an object")
    return found


def version_of(raw: Mapping[str, Any]) -> str:
    version = raw.get("cniVersion", "")
    if not isinstance(version, str):
        raise CniError(INCOMPATIBLE, "cniVersion is no text")
    return version


def read_config(verb: str, raw: Mapping[str, Any]) -> Config:
    """The configuration for a verb; CniError 1, 2 or 7. DEL takes half a configuration: a pod has to be able to end."""
    version = version_of(raw)
    if verb != "DEL" or version:
        require_version(verb, version)
    network = raw.get("name", "")
    if not isinstance(network, str) or not is_name(network) or len(network) > 200:
        if verb == "DEL":
            network = ""
        elif network == "":
            raise CniError(BAD_CONFIG, "the network has no name")
        else:
            raise CniError(BAD_CONFIG, "name is no network's name: letters, digits, _ . and -, the first alphanumeric")
    plain = _plain_part(raw, version, network)
    try:
        return _whole(plain, raw)
    except CniError as error:
        if verb != "DEL":
            raise
        return replace(plain, complaint=error)


def _plain_part(raw: Mapping[str, Any], version: str, network: str) -> Config:
    """Log and state: as far as these are good words they count, whatever is wrong with the rest."""
    level, log, state = raw.get("logLevel"), raw.get("logFile"), raw.get("stateDir")
    return Config(
        raw,
        version,
        network,
        log_level=level if level in LEVELS else "info",
        log_file=str(log) if _is_path(log) else LOG_FILE,
        state_folder=str(state) if _is_path(state) else STATE_FOLDER,
    )


def _whole(plain: Config, raw: Mapping[str, Any]) -> Config:
    _no_misspelled(raw)
    if raw.get("logLevel", "info") not in LEVELS:
        raise CniError(BAD_CONFIG, f"logLevel is none of {', '.join(LEVELS)}")
    for key in ("logFile", "stateDir"):
        if key in raw and not _is_path(raw[key]):
            raise CniError(BAD_CONFIG, f"{key} is no absolute path")
    namespaces = raw.get("excludeNamespaces") or []
    if not isinstance(namespaces, list) or not all(isinstance(item, str) for item in namespaces):
        raise CniError(BAD_CONFIG, "excludeNamespaces is no list of names")
    body, kubernetes = raw.get("interception"), raw.get("kubernetes")
    if body is not None and not isinstance(body, dict):
        raise CniError(BAD_CONFIG, "interception is no object: the body of a spec, without apiVersion and kind")
    if kubernetes is not None and not isinstance(kubernetes, dict):
        raise CniError(BAD_CONFIG, "kubernetes is no object")
    found = replace(plain, interception=body, exclude_namespaces=tuple(namespaces))
    if kubernetes is not None:
        kubeconfig, agent = kubernetes.get("kubeconfig"), kubernetes.get("agent", AGENT)
        if not _is_path(kubeconfig):
            raise CniError(BAD_CONFIG, "kubernetes.kubeconfig is no absolute path")
        if not isinstance(agent, str) or not all(agent.partition("/")):  # without a name it would be any pod of it
            raise CniError(BAD_CONFIG, "kubernetes.agent is no namespace and name, such as kube-system/meshnet-cni")
        return replace(found, kubeconfig=kubeconfig, agent=agent)
    if body is None and found.annotations is None:
        raise CniError(
            BAD_CONFIG,
            "neither interception nor kubernetes nor the pods' annotations: nothing says who gets which rules",
            f"interception: the body of a spec; kubernetes: a kubeconfig; capabilities: {ANNOTATIONS}",
        )
    return found


def _no_misspelled(raw: Mapping[str, Any]) -> None:
    """A misspelled key of ours would be a promise that nobody keeps; keys of a kind of their own are somebody's."""
    strange = [key for key in raw if key not in OWN_KEYS and key not in STANDARD_KEYS]
    if not strange:
        return
    from meshnet.spec.nearest import nearest

    for key in strange[:MOST_STRANGE]:
        if near := nearest(key, OWN_KEYS):
            said = str(raw[key])
            raise CniError(UNSUPPORTED_FIELD, f"unknown key {key} ({said[:60]})", f"{near}?")


def _mapping(inside: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = inside.get(key)
    return found if isinstance(found, dict) else {}


def _is_path(word: object) -> bool:
    return isinstance(word, str) and word.startswith("/") and word.isprintable()
