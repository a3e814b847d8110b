"""``meshnet-init``: istio-iptables' command line, for an init container. No click here: its start is a pod's start."""

from __future__ import annotations

import os
import sys

from meshnet.cli.init_flags import Settings, read, seconds
from meshnet.kernel.netns import OWN, Where, missing_capabilities
from meshnet.model.errors import FINE, REFUSED, MeshnetError, SpecError, UnsupportedError, UsageError
from meshnet.model.ports import read_port
from meshnet.spec.dialects.istio import Directory, spec_of, wants_both_families

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from meshnet.apply.session import Asked, Session
    from meshnet.model.cidr import Family
    from meshnet.model.facts import Facts
    from meshnet.model.plan import ChangeSet
    from meshnet.model.spec import Families, Spec

NOT_VALIDATED = 126
"""The original's exit code for it: whoever waits for a pod's start looks at this number."""

PROBE_PORT = 15002
"""The original's default; nothing listens there."""

NEXT = (
    "meshnet-init --dry-run shows which rules are missing; if a CNI plugin was to write them, the pod started before "
    "the plugin was ready: delete the pod, so that it starts anew"
)

BINARIES: dict[str, Asked] = {
    "": "auto",
    "nft": "iptables-nft",
    "legacy": "iptables-legacy",
    "iptables-nft": "iptables-nft",
    "iptables-legacy": "iptables-legacy",
}


def run() -> None:
    """The console script: every way to fail ends in a line and an exit code, none in a traceback."""
    import gc

    gc.disable()  # nothing lives long enough here to be worth looking for
    code = call(sys.argv[1:], os.environ)
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        pass  # the reader of our output went away: nobody is left to tell
    os._exit(code)  # without taking every module apart first, which costs a tenth of a start


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
        sys.stderr.close()  # the reader of our output went away: nobody is left to tell
        return FINE
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
    form = settings.text("output", "text")
    profile = settings.text("profile", "istio")
    wrong = []
    if form not in ("text", "json"):
        wrong.append(f"--output: not a form ({form}): text or json")
    if profile not in ("istio", "meshnet"):
        wrong.append(f"--profile: not a profile ({profile}): istio or meshnet")
    if settings.text("force-iptables-binary") not in BINARIES:
        word = settings.given["force-iptables-binary"]
        wrong.append(f"{word.label}: no variant of iptables ({word.text}): nft or legacy")
    if wrong:
        raise SpecError(wrong)
    if settings.flag("native-nftables"):
        raise UnsupportedError(
            ["--native-nftables (NATIVE_NFTABLES): there is no nftables backend yet"],
            hint="leave it out: iptables-nft puts the same rules into nf_tables",
        )
    place = _place(settings)
    if settings.flag("cleanup-only"):
        return _clean(settings, place, form)
    facts = _facts(place)
    spec = spec_of(
        settings.given,
        profile=profile,  # type: ignore[arg-type]
        families=_families(settings, facts, profile),
        directory=Directory(_user, _group),
    )
    if settings.flag("print-spec"):
        from meshnet.spec.dump import to_yaml

        print(to_yaml(spec), end="")
        return FINE
    return _work(settings, place, spec, facts, form)


def _work(settings: Settings, place: Where, spec: Spec, facts: Facts, form: str) -> int:
    from meshnet.compile.istio.shortcomings import shortcomings

    data: dict[str, Any] = {"profile": spec.profile}
    if not settings.flag("skip-rule-apply"):
        for line in shortcomings(spec):
            _say(f"warning: {line}")
        data |= _apply(settings, place, spec, facts, form)
    code = FINE
    if settings.flag("run-validation") and not settings.flag("dry-run"):
        families = facts.families if spec.families == "auto" else spec.families
        data["validation"] = found = _validate(settings, place, spec, families, form)
        code = FINE if found["redirected"] else NOT_VALIDATED
    if form == "json":
        _json(data)
    return code


def _apply(settings: Settings, place: Where, spec: Spec, facts: Facts, form: str) -> dict[str, Any]:
    dry = settings.flag("dry-run")
    if dry and missing_capabilities(("CAP_NET_ADMIN",)):
        from meshnet.apply.reconcile import reconcile
        from meshnet.compile.pipeline import compile_spec
        from meshnet.model.plan import Observed
        from meshnet.render.plan import render

        _say("note: not permitted to look at what is there; this is what an empty namespace would get")
        plan = render(compile_spec(spec, facts), traced=settings.flag("iptables-trace-logging"))
        return _shown("iptables", reconcile(plan, Observed(), disposable=False), form)
    with _session(settings, place) as session:
        if dry:
            changes = session.changes(spec)
            _talk(session)
            return _shown(session.backend, changes, form) | _about(session)
        receipt = session.apply(spec, anew=settings.flag("force-apply"))
        return _done(session, receipt.changes, form, f"applied, profile {spec.profile}")


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


def _session(settings: Settings, place: Where) -> Session:
    from meshnet.apply.session import Session

    backend = BINARIES[settings.text("force-iptables-binary")]
    return Session(place, backend, adopting=True, traced=settings.flag("iptables-trace-logging"))


def _shown(backend: str, changes: ChangeSet, form: str) -> dict[str, Any]:
    from meshnet.cli.steps import steps_text

    if form == "text":
        print(steps_text(backend, changes).rstrip("\n") if not changes.empty else "nothing to do")
    steps = [{"tool": step.tool, "family": step.family, "text": step.text} for step in changes.steps]
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


def _validate(settings: Settings, place: Where, spec: Spec, families: tuple[Family, ...], form: str) -> dict[str, Any]:
    from meshnet.probe.validation import validate

    port, wait = settings.read("iptables-probe-port", read_port, PROBE_PORT), settings.read("probe-timeout", seconds, 5)
    found = validate(place, spec, families, probe_port=port, wait=wait)
    for item in found.families:
        if not item.redirected:
            _say(f"validation failed, IPv{item.family}: {item.said}")
        elif form == "text":
            print(f"validated, IPv{item.family}: {item.said}")
    if not found.families:
        _say("note: nothing to validate: no inbound connection is captured")
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


def _families(settings: Settings, facts: Facts, profile: str) -> Families:
    """The original's choice: IPv6 in a pod that has nothing else, or when it is asked for.

    A proxy that wasn't told of IPv6 doesn't listen there, and whatever is led to it would be refused.
    """
    if profile == "meshnet" or wants_both_families(settings.given):
        return "auto"
    if facts.global_ipv6 and not facts.global_ipv4:
        return (4, 6)
    if facts.global_ipv6:
        _say("note: IPv6 is left alone as there is an IPv4 address; --dual-stack (ISTIO_DUAL_STACK) captures both")
    return (4,)


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
    print(f"meshnet-init: {line}", file=sys.stderr)


def _json(data: Any) -> None:
    import json

    print(json.dumps(data, indent=2))
