"""``doctor``: what is wrong with rules, saved or in force: loops, lost replies, rules that nothing reaches."""

from __future__ import annotations

import click

from meshnet.cli import output
from meshnet.cli.explain import POD_OPTIONS, SIDECAR_OPTIONS, SUBJECT_OPTIONS, with_options
from meshnet.cli.options import BACKEND_HELP, BACKENDS, form_option, netns_options
from meshnet.model.errors import FINE, NEGATIVE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from meshnet.cli.simulated import Subject
    from meshnet.doctor.finding import Finding, Report, Where
    from meshnet.model.cidr import Family
    from meshnet.model.host import Host
    from meshnet.model.story import Conduct, Step

FLOW = {"way": "in", "src": None, "dst": None, "iface": "eth0", "dport": None, "proto": "tcp", "uid": None, "gid": None}
"""What the flags of a packet would say, for what is shared with ``explain``."""


@click.command()
@click.argument("spec", metavar="[SPEC]", required=False)
@with_options(*SUBJECT_OPTIONS)
@netns_options
@click.option("--backend", type=click.Choice(BACKENDS), default="auto", help=BACKEND_HELP)
@with_options(*POD_OPTIONS, *SIDECAR_OPTIONS)
@form_option
def doctor(spec: str | None, netns: str | None, pid: int | None, backend: str, form: str, **given: Any) -> int:
    """Say what is wrong with rules: those of SPEC, anybody's saved ones, or the ones in force in a namespace.

    Found are a sidecar that meets itself, answers that never reach their caller, rules that no packet can reach with
    the rules that take all of theirs, and rules of ours on two backends at once. Exit 1 if there is any finding.
    Without SPEC and --rules the rules in force are examined, which needs root; the others need nothing.

    \b
    Examples:
      meshnet doctor pod.yaml
      meshnet doctor --rules saved.txt --sidecar-uid 1337
      meshnet doctor --netns pod -o json
    """
    from meshnet.doctor.finding import Report

    saved = spec is not None or given["rules"] is not None or given["rules6"] is not None
    if saved:
        subject, report = _of_text(spec, netns, pid, backend, given), Report()
    else:
        subject, report = _in_force(netns, pid, given)
    for note in subject.notes:
        output.say(f"note: {note}")
    reports = [report, *(_examined(subject, held.family, given) for held in subject.rules)]
    findings = tuple(finding for each in reports for finding in each.findings)
    notes = tuple(note for each in reports for note in each.notes)
    for note in notes:
        output.say(f"note: {note}")
    data = {
        "rules": subject.name,
        "healthy": not findings,
        "findings": [_data(finding, subject) for finding in findings],
        "notes": [*subject.notes, *notes],
    }
    output.answer(data, _text(findings, subject), form)
    return NEGATIVE if findings else FINE


def _of_text(spec: str | None, netns: str | None, pid: int | None, backend: str, given: dict[str, Any]) -> Subject:
    from meshnet.cli.explain import subject_of
    from meshnet.model.errors import UsageError

    if netns is not None or pid is not None:
        raise UsageError(
            "a namespace has rules of its own", hint="either SPEC or --rules and --rules6, or --netns or --pid"
        )
    return subject_of(spec, given["rules"], given["rules6"], (4, 6), backend)


def _in_force(netns: str | None, pid: int | None, given: dict[str, Any]) -> tuple[Subject, Report]:
    """The rules that a namespace holds, and its routing; a finding if rules of ours are in more than one backend."""
    from meshnet.cli import in_force
    from meshnet.doctor.backends import two_backends
    from meshnet.doctor.finding import Report

    subject, holders = in_force.look("doctor", netns, pid, given)
    return subject, Report(tuple(two_backends(holders)))


def _examined(subject: Subject, family: Family, given: dict[str, Any]) -> Report:
    from meshnet.cli.explain import proxies_of
    from meshnet.cli.simulated import host_for
    from meshnet.doctor.examine import examine
    from meshnet.doctor.patient import Patient

    asked = {**FLOW, **given}
    sidecars, notes = _sidecars(subject, asked, family)
    for note in notes:
        output.say(f"note: IPv{family}: {note}")
    if subject.host is not None:
        hosts: tuple[tuple[str, Host], ...] = (("", subject.host),)
    else:
        known = given["route_localnet"]
        settings = (bool(known),) if known is not None else (False, True)
        hosts = tuple((f"route_localnet={int(one)}", host_for(subject, asked, one)) for one in settings)
    return examine(
        Patient(subject.of(family), hosts, sidecars, proxies_of(subject, given), assumed=subject.host is None)
    )


def _sidecars(subject: Subject, asked: dict[str, Any], family: Family) -> tuple[tuple[Conduct, ...], tuple[str, ...]]:
    """Who the sidecar may be: the flags' identity, or each one that the spec lists."""
    from meshnet.cli.simulated import conduct_for
    from meshnet.model.value import replace

    first, notes = conduct_for(subject, asked, family)
    if subject.document is None:
        return (first,), notes
    listed = subject.document.spec.sidecar
    uids = listed.uids if asked["sidecar_uid"] is None else ()
    gids = listed.gids if asked["sidecar_gid"] is None else ()
    found = [first, *(replace(first, uid=uid) for uid in uids), *(replace(first, gid=gid) for gid in gids)]
    return tuple(dict.fromkeys(found)), notes


def _text(findings: tuple[Finding, ...], subject: Subject) -> str:
    if not findings:
        return f"nothing is wrong with {subject.name}"
    lines = [f"{len(findings)} finding{'s' if len(findings) > 1 else ''}"]
    for number, finding in enumerate(findings, 1):
        lines += ["", f"{number}. {finding.kind} (IPv{finding.family}): {finding.what}"]
        if finding.where is not None:
            lines.append(f"   {_at(finding.where, subject)}")
        lines += [f"   {line}" for line in finding.why]
        lines += [f"     {_at(taker, subject)}" for taker in finding.takers]
        lines += [f"   {line}" for line in _path(finding, subject)]
        lines.append(f"   next: {finding.next_step}")
    return "\n".join(lines)


def _at(where: Where, subject: Subject) -> str:
    _, place = subject.origin(where.rule)
    return f"{where.table} {where.chain}:{where.number}  {where.words}{f'  ({place})' if place else ''}"


def _path(finding: Finding, subject: Subject) -> list[str]:
    """Every packet in a line, and the rules that the deciding one met."""
    from meshnet.cli import explained

    lines = []
    shown = _deciding(finding)
    for number, step in enumerate(finding.steps, 1):
        lines.append(f"{number}. {step.title}: the packet {step.trace.reason}")
        if step is shown:
            lines += [f"   {line}" for line in explained.trace_lines(step.trace, subject)]
    return lines


def _deciding(finding: Finding) -> Step | None:
    """Of a loop the sidecar's call that was captured, of a lost reply the answer."""
    steps = finding.steps
    if finding.kind == "loop":
        captured = [step for step in steps if step.trace.captured and step.title.startswith("the sidecar (")]
        return captured[-1] if captured else None
    return steps[-1] if steps else None


def _data(finding: Finding, subject: Subject) -> dict[str, Any]:
    from meshnet.cli import explained

    return {
        "kind": finding.kind,
        "family": finding.family,
        "what": finding.what,
        "where": None if finding.where is None else _where_data(finding.where, subject),
        "taken_by": [_where_data(taker, subject) for taker in finding.takers],
        "why": list(finding.why),
        "next": finding.next_step,
        "steps": [{"title": step.title, **explained.trace_data(step.trace, subject)} for step in finding.steps],
    }


def _where_data(where: Where, subject: Subject) -> dict[str, Any]:
    origin, place = subject.origin(where.rule)
    return {
        "family": where.family,
        "table": where.table,
        "chain": where.chain,
        "number": where.number,
        "rule": where.words,
        **({"comment": where.rule.comment} if where.rule.comment else {}),
        **({"line": where.rule.line} if where.rule.line else {}),
        **({"origin": origin, "place": place} if origin else {}),
    }
