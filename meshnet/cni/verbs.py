"""What each verb does (CNI specification 1.1.0, section 2). Each returns the text for standard output."""

from __future__ import annotations

from meshnet.cni import result
from meshnet.cni.attachments import Attachment, Attachments
from meshnet.cni.identities import require_mapped
from meshnet.cni.protocol import (
    BAD_CONFIG,
    BAD_NAMESPACE,
    DRIFTED,
    NOT_AVAILABLE,
    REFUSED,
    UNKNOWN_CONTAINER,
    CniError,
    OwnNamespace,
)
from meshnet.cni.visit import open_pod, visit
from meshnet.spec.jsontext import encode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from meshnet.apply.session import Session
    from meshnet.cni.config import Config
    from meshnet.cni.journal import Journal
    from meshnet.cni.protocol import Call
    from meshnet.kernel.netns import Namespace
    from meshnet.model.spec import Spec

    Verb = Callable[[Call, Config, Journal], str]

VALID = ("cni.dev/valid-attachments", "cni.dev/attachments")
"""Keys of GC's list; the second is what libcni also writes, as an earlier text of the specification had it."""


def add(call: Call, config: Config, journal: Journal) -> str:
    """Give a selected pod its rules, and hand the result of the plugins before us on.

    A selected pod that can't get them fails: it would start with its traffic going past the proxy.
    """
    from meshnet.cni.selection import decide
    from meshnet.spec.dump import document_of

    said = encode(result.passed_on(result.previous(config.raw), config.version))
    decision = decide(config, call)
    who = decision.pod or call.container
    if decision.spec is None:
        journal.info(f"{who}: not intercepted: {decision.reason}")
        return said
    spec = decision.spec
    kept = Attachments(config.state_folder)
    with open_pod(call.netns) as namespace:
        _not_another_s(call, config, kept, namespace)
        kept.keep(
            Attachment(
                config.network,
                call.container,
                call.interface,
                call.netns,
                namespace.device,
                namespace.inode,
                decision.pod,
                document_of(spec),
            )
        )
        done = visit(namespace, lambda session: _applied(session, spec))
    for line in done:
        journal.debug(f"{who}: {line}")
    journal.info(f"{who}: intercepted: {decision.reason}")
    return said


def check(call: Call, config: Config, journal: Journal) -> str:
    """Compare the namespace with what ADD was asked for; CniError 101 names every object that differs."""
    result.previous(config.raw)
    kept = Attachments(config.state_folder)
    record = kept.find(config.network, call.container, call.interface)
    spec, reason = _asked_for(call, config, record)
    if spec is None:
        journal.info(f"{call.container}: nothing to check: {reason}")
        return ""
    with open_pod(call.netns) as namespace:
        if record is not None and not record.is_in(namespace.device, namespace.inode):
            raise CniError(BAD_NAMESPACE, f"CNI_NETNS is another namespace than the one that {call.container} got")
        _not_another_s(call, config, kept, namespace)
        drift = visit(namespace, lambda session: list(session.changes(spec).differences))
    if drift:
        count = f"{len(drift)} difference{'s' if len(drift) != 1 else ''}"
        raise CniError(
            DRIFTED, f"{count} from what ADD wrote (+ is missing, - is too much): {drift[0]}", "\n".join(drift)
        )
    return ""


def delete(call: Call, config: Config, journal: Journal) -> str:
    """Take away what is ours. Success whenever nothing is left to do, however little is known: a pod has to end."""
    if config.complaint is not None:
        journal.warn(f"{call.container}: half a configuration: {config.complaint.message}")
    kept = Attachments(config.state_folder)
    mine = (config.network, call.container, call.interface)
    try:
        namespace = open_pod(call.netns) if call.netns else None
    except OwnNamespace:
        raise
    except CniError as error:
        if error.code not in (UNKNOWN_CONTAINER, BAD_NAMESPACE):
            raise
        journal.debug(f"{call.container}: {error.message}")
        namespace = None
    if namespace is not None:
        with namespace:
            _take_away(namespace, kept.others_in(namespace.device, namespace.inode, mine), call.container, journal)
    kept.drop(*mine)
    return ""


def collect(call: Call, config: Config, journal: Journal) -> str:
    """GC: drop the attachments of this network that the runtime doesn't list, their rules and what is kept of them.

    Goes on after a failure and tells all of them at the end; what failed is kept for the next GC.
    """
    del call
    valid = _valid(config)
    kept = Attachments(config.state_folder)
    failed: list[str] = []
    for attachment in list(kept.of_network(config.network)):
        if attachment.key in valid:
            continue
        try:
            _collect_one(attachment, kept, journal)
        except CniError as error:
            failed.append(f"{attachment.container} {attachment.interface}: {error.message}")
    if failed:
        raise CniError(REFUSED, f"{len(failed)} attachments could not be dropped", "\n".join(failed))
    return ""


def status(call: Call, config: Config, journal: Journal) -> str:
    """Whether ADD would work now: rules are really put into a namespace made for it. CniError 50 says what lacks."""
    del call, journal
    from meshnet.cni.readiness import missing

    if problems := missing(config):
        raise CniError(NOT_AVAILABLE, f"this node can't apply rules: {problems[0]}", "\n".join(problems))
    return ""


VERBS: dict[str, Verb] = {"ADD": add, "CHECK": check, "DEL": delete, "GC": collect, "STATUS": status}


def _applied(session: Session, spec: Spec) -> list[str]:
    require_mapped(spec)
    receipt = session.apply(spec)
    about = [f"backend {session.backend}: {session.reason}", *receipt.notices]
    return [*about, f"{len(receipt.changes.differences)} changes"]


def _removed(session: Session) -> list[str]:
    return [f"{len(session.remove().changes.differences)} changes taken back"]


def _asked_for(call: Call, config: Config, record: Attachment | None) -> tuple[Spec | None, str]:
    """What ADD was asked for, as it was kept; decided anew for a pod that is older than this plugin."""
    if record is not None and record.spec is not None:
        from meshnet.spec.load import load_body

        return load_body(record.spec, "kept").spec, ""
    from meshnet.cni.selection import decide

    decision = decide(config, call)
    return decision.spec, decision.reason


def _not_another_s(call: Call, config: Config, kept: Attachments, namespace: Namespace) -> None:
    """CniError 8 for the namespace of another container. Inode numbers come again, a path together with one doesn't."""
    mine = (config.network, call.container, call.interface)
    for other in kept.others_in(namespace.device, namespace.inode, mine):
        if other.container != call.container and other.netns == call.netns:
            raise CniError(BAD_NAMESPACE, f"CNI_NETNS ({call.netns}) is the namespace of container {other.container}")


def _take_away(namespace: Namespace, others: list[Attachment], who: str, journal: Journal) -> None:
    path = str(namespace.where)
    if sharing := [other for other in others if other.netns == path]:
        # Another network's attachment of the same pod, or another pod whose namespace was given by mistake.
        journal.info(f"{who}: the rules stay, {sharing[0].container} {sharing[0].interface} is still there")
        return
    for line in visit(namespace, _removed):
        journal.info(f"{who}: {line}")


def _collect_one(attachment: Attachment, kept: Attachments, journal: Journal) -> None:
    mine = (attachment.network, *attachment.key)
    try:
        namespace = open_pod(attachment.netns)
    except CniError as error:
        if error.code not in (UNKNOWN_CONTAINER, BAD_NAMESPACE):
            raise
        journal.debug(f"{attachment.container}: {error.message}")
    else:
        with namespace:
            if attachment.is_in(namespace.device, namespace.inode):
                others = kept.others_in(namespace.device, namespace.inode, mine)
                _take_away(namespace, others, attachment.container, journal)
    kept.drop(*mine)
    journal.info(f"{attachment.container} {attachment.interface}: dropped, the runtime doesn't list it")


def _valid(config: Config) -> set[tuple[str, str]]:
    """The attachments that live. Without a list nothing would, so that it has to be there; null is Go's empty one."""
    key = next((key for key in VALID if key in config.raw), "")
    if not key:
        raise CniError(BAD_CONFIG, f"{VALID[0]} is missing: which attachments live?")
    listed = [] if config.raw[key] is None else config.raw[key]
    whole = isinstance(listed, list) and all(isinstance(item, dict) for item in listed)
    pairs = [(item.get("containerID"), item.get("ifname")) for item in listed] if whole else []
    if not whole or not all(isinstance(word, str) for pair in pairs for word in pair):
        raise CniError(BAD_CONFIG, f"{key} is no list of objects with containerID and ifname")
    return {(str(container), str(interface)) for container, interface in pairs}
