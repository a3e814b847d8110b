"""``meshnet-init``: istio-iptables' command line, for an init container. No click here: its start is a pod's start."""

from __future__ import annotations

import posix
import sys

from meshnet.cli.init_flags import BINARIES, Settings, read, require_words, seconds
from meshnet.kernel.netns import OWN, Where, missing_capabilities
from meshnet.kernel.run import environment
from meshnet.model.errors import FINE, REFUSED, MeshnetError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from meshnet.apply.session import Asked, Session
    from meshnet.model.facts import Facts
    from meshnet.model.plan import ChangeSet
    from meshnet.model.spec import Families, Profile, Spec

NOT_VALIDATED = 126
"""The original's exit code for it: whoever waits for a pod's start looks at this number."""

PROBE_PORT = 15002
"""The original's default; nothing listens there."""

NEXT = (
    "meshnet-init --dry-run shows which rules are missing; if a CNI plugin was to write them, the pod started before "
    "the plugin was ready: delete the pod, so that it starts anew"
)


def run() -> None:
    """The console script: every way to fail ends in a line and an exit code, none in a traceback."""
    code = call(sys.argv[1:], environment())
    try:
        if sys.stdout is not None:  # it was closed before we came
            sys.stdout.flush()
    except BrokenPipeError:
        pass  # the reader of our output went away: nobody is left to tell
    except OSError as error:
        _say(f"the output couldn't be written: {error.strerror}")
        code = code or REFUSED
    posix._exit(code)  # without taking every module apart first, which costs a tenth of a start


def call(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a command line and return its exit code."""
    try:
        settings = read(arguments, environment)
        return _main(settings)
    except MeshnetError as error:
        for line in error.lines():
            _say(line)
        if "json" in arguments or "--output=json" in arguments:
            _json({"error": {"kind": error.kind, "lines": error.lines()}})
        return error.exit_code
    except KeyboardInterrupt:
        _say("interrupted")
        return 130
    except BrokenPipeError:
        return FINE  # the reader of our output went away: nobody is left to tell
    except OSError as error:
        _say(str(error))
        return REFUSED


def _main(settings: Settings) -> int:
    if settings.flag("help"):
        from meshnet.cli.init_flags import help_lines

        print("\n".join(help_lines()))
        return FINE
    if settings.flag("version"):
        from meshnet import __version__

        print(f"meshnet-init, version {__version__}")
        return FINE
    require_words(settings)
    form = settings.text("output", "text")
    place = _place(settings)
    printing = settings.flag("print-spec")  # and doing nothing, whatever else is said
    if settings.flag("cleanup-only") and not (printing or settings.flag("skip-rule-apply")):
        return _clean(settings, place, form)
    asked = _Asked(settings)
    if printing:
        from meshnet.spec.dump import to_yaml

        asked.understand(_facts(place))
        print(to_yaml(asked.spec), end="")
        return FINE
    data = _apply(asked, place, form)
    code = FINE
    if settings.flag("run-validation") and not settings.flag("dry-run"):
        data["validation"] = found = _validate(asked, place, form)
        code = FINE if found["redirected"] else NOT_VALIDATED
    if form == "json":
        _json(data)
    return code


class _Asked:
    """What is asked for, understood once the namespace's facts are known: while its rules are being read, if they are.

    The lists of ports are read and the compiler is loaded on one core, the tools read on another.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    def understand(self, facts: Facts) -> None:
        from meshnet.spec.dialects.istio import Directory, spec_of, wants_both_families

        settings = self.settings
        profile: Profile = "meshnet" if settings.text("profile") == "meshnet" else "istio"
        families: Families = "auto"
        if profile == "istio":
            families = _families(facts, both=wants_both_families(settings.given))
        directory = Directory(_user, _group)
        self.facts = facts
        self.spec: Spec = spec_of(settings.given, profile=profile, families=families, directory=directory)

    def warn(self) -> None:
        """One line for each fault that the profile's rules are known to have for this."""
        if self.spec.profile != "istio":
            return
        from meshnet.compile.istio.shortcomings import shortcomings

        for line in shortcomings(self.spec):
            _say(f"warning: {line}")
        if self.spec.dns.capture == "resolvers" and not (self.spec.dns.resolvers or self.facts.resolvers):
            _say(
                f"warning: {self.facts.resolvers_from} names no resolver, so no DNS is captured; --capture-all-dns does"
            )


def _apply(asked: _Asked, place: Where, form: str) -> dict[str, Any]:
    settings = asked.settings
    dry, traced = settings.flag("dry-run"), settings.flag("iptables-trace-logging")
    blind = dry and bool(missing_capabilities(("CAP_NET_ADMIN",)))
    if settings.flag("skip-rule-apply") or blind:
        asked.understand(_facts(place))
        if settings.flag("skip-rule-apply"):
            return {"profile": asked.spec.profile}
        asked.warn()
        _say("note: not permitted to look at what is there; this is what an empty namespace would get")
        return {"profile": asked.spec.profile} | _shown("iptables", _for_nothing(asked, traced), form)
    with _session(settings, place, asked) as session:
        asked.warn()
        if dry:
            changes = session.changes(asked.spec)
            _talk(session)
            said = _shown(session.backend, changes, form) | _about(session)
        else:
            receipt = session.apply(asked.spec, anew=settings.flag("force-apply"))
            said = _done(session, receipt.changes, form, f"applied, profile {asked.spec.profile}")
    return {"profile": asked.spec.profile} | said


def _for_nothing(asked: _Asked, traced: bool) -> ChangeSet:
    """The change set for a namespace that holds nothing."""
    from meshnet.apply.reconcile import reconcile
    from meshnet.compile.pipeline import compile_spec
    from meshnet.model.plan import Observed
    from meshnet.render.plan import render

    plan = render(compile_spec(asked.spec, asked.facts), _backend(asked.settings), traced=traced)
    return reconcile(plan, Observed(), disposable=False)


def _clean(settings: Settings, place: Where, form: str) -> int:
    with _session(settings, place) as session:
        if settings.flag("dry-run"):
            changes = session.removal()
            _talk(session)
            data = _shown(session.backend, changes, form) | _about(session)
        else:
            data = _done(session, session.remove().changes, form, "removed")
    if form == "json":
        _json(data)
    return FINE


def _session(settings: Settings, place: Where, asked: _Asked | None = None) -> Session:
    from meshnet.apply.session import Session

    backend = _backend(settings)
    traced = settings.flag("iptables-trace-logging")
    return Session(place, backend, adopting=True, traced=traced, meanwhile=asked.understand if asked else None)


def _backend(settings: Settings) -> Asked:
    """As in the original, --native-nftables leaves nothing to choose between the variants of iptables."""
    return "nftables" if settings.flag("native-nftables") else BINARIES[settings.text("force-iptables-binary")]


def _shown(backend: str, changes: ChangeSet, form: str) -> dict[str, Any]:
    from meshnet.cli.steps import steps_data, steps_text

    if form == "text":
        print(steps_text(backend, changes).rstrip("\n") if not changes.empty else "nothing to do")
    steps = steps_data(backend, changes.steps)
    return {"dry_run": True, "steps": steps, "differences": list(changes.differences)}


def _done(session: Session, changes: ChangeSet, form: str, verb: str) -> dict[str, Any]:
    _talk(session)
    count = len(changes.differences)
    if form == "text":
        said = f"{verb}: {count} change{'s' if count != 1 else ''}"
        print("nothing to do: already as it should be" if changes.empty else said)
    return {"changed": not changes.empty, "differences": list(changes.differences)} | _about(session)


def _about(session: Session) -> dict[str, Any]:
    return {"backend": session.backend, "reason": session.reason, "notices": session.notices}


def _talk(session: Session) -> None:
    _say(f"backend {session.backend}: {session.reason}")
    for notice in session.notices:
        _say(f"note: {notice}")


def _validate(asked: _Asked, place: Where, form: str) -> dict[str, Any]:
    from meshnet.model.ports import read_port
    from meshnet.probe.validation import validate

    settings, spec = asked.settings, asked.spec
    families = asked.facts.families if spec.families == "auto" else spec.families
    port, wait = settings.read("iptables-probe-port", read_port, PROBE_PORT), settings.read("probe-timeout", seconds, 5)
    found = validate(place, spec, families, probe_port=port, wait=wait)
    for item in found.families:
        if not item.redirected:
            _say(f"validation failed, IPv{item.family}: {item.said}")
        elif form == "text":
            print(f"validated, IPv{item.family}: {item.said}")
    if not found.families:
        _say("note: nothing to validate: no call of the sidecar to its own pod is captured")
    if not found.redirected:
        _say(f"next: {NEXT}")
    outcomes = [{"family": item.family, "redirected": item.redirected, "said": item.said} for item in found.families]
    return {"redirected": found.redirected, "families": outcomes}


def _place(settings: Settings) -> Where:
    path = settings.text("network-namespace")
    if settings.flag("cni-mode") and not path:
        raise UsageError("--cni-mode (CNI_MODE) without --network-namespace (NETWORK_NAMESPACE): whose rules?")
    if not path:
        return OWN
    return Where("path" if path.startswith("/") else "name", path)


def _facts(place: Where) -> Facts:
    from meshnet.kernel.facts import gather
    from meshnet.kernel.netns import open_namespace

    with open_namespace(place) as namespace, namespace.entered():
        return gather(place)


def _families(facts: Facts, *, both: bool) -> Families:
    """The original's choice: IPv6 in a pod that has nothing else, or an address of each and the wish for both.

    A mesh has the wish for all of its pods. A proxy that wasn't told of IPv6 doesn't listen there, and whatever is led
    to it would be refused.
    """
    if facts.global_ipv6 and (both or not facts.global_ipv4):
        return (4, 6)
    if facts.global_ipv6:
        _say("note: IPv6 is left alone as there is an IPv4 address; --dual-stack (ISTIO_DUAL_STACK) captures both")
    return facts.families if both and not facts.global_ipv4 else (4,)


def _user(name: str) -> int | None:
    import pwd

    try:
        return pwd.getpwnam(name).pw_uid
    except KeyError:
        return None


def _group(name: str) -> int | None:
    import grp

    try:
        return grp.getgrnam(name).gr_gid
    except KeyError:
        return None


def _say(line: str) -> None:
    """A line on standard error, at once; nothing when nobody can be told."""
    if sys.stderr is None:
        return  # closed before we came; print would take standard output instead
    try:
        print(f"meshnet-init: {line}", file=sys.stderr, flush=True)
    except OSError:
        return  # nor can this be told


def _json(data: Any) -> None:
    import json

    print(json.dumps(data, indent=2))
