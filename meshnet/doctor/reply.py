"""Lost replies: an answer leaves by the wrong interface, or reaches its caller under a name that it never called."""

from __future__ import annotations

from meshnet.doctor.advice import in_words_of
from meshnet.doctor.finding import Finding, where
from meshnet.doctor.grouped import Group, grouped
from meshnet.doctor.loop import capture, let_go, recaptured

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from meshnet.doctor.calls import Told
    from meshnet.doctor.patient import Patient
    from meshnet.model.ruleset import HeldRule
    from meshnet.model.story import Story


def lost_replies(patient: Patient, told: Iterable[Told]) -> Iterator[Finding]:
    for group in grouped((_of(patient, item) for item in told), len(patient.hosts)):
        sidecar = group.sidecar
        yield Finding(
            "lost-reply",
            group.flow.family,
            f"with a sidecar under uid {sidecar.uid}, gid {sidecar.gid} an answer is lost",
            (group.sentence, *group.more()),
            _next(patient, group),
            group.where,
            steps=group.steps,
        )


def _of(patient: Patient, told: Told) -> Group | None:
    story = told.story
    if story.disposition != "lost-reply" or undecided(story):
        return None
    again = recaptured(story)
    if again is not None:  # the answer is lost because the call went astray
        return Group(told.flow, told.sidecar, told.setting, capture(patient.rules, again), story.sentence, story.steps)
    last = [hop for hop in story.steps[-1].trace.hops if hop.rule is not None]
    at = where(patient.rules, last[-1].table, last[-1].chain, last[-1].number) if last else None
    return Group(told.flow, told.sidecar, told.setting, at, story.sentence, story.steps)


def undecided(story: Story) -> bool:
    """Whether the last packet met what nobody can answer: then nobody knows whether anything is lost."""
    return story.steps[-1].trace.end == "undecided"


def _next(patient: Patient, group: Group) -> str:
    sidecar = group.sidecar
    if any(step.trace.captured and step.title.startswith("the sidecar (") for step in group.steps):
        return let_go(patient.rules, sidecar, group.where)
    if group.where is not None and group.steps[-1].trace.end in ("dropped", "rejected"):
        words = in_words_of(patient.rules, "-p tcp -m conntrack --ctdir REPLY -j RETURN", "ct direction reply return")
        return f"let answers go ahead of {group.where}: {words}"
    if not sidecar.spoofs:
        return "follow the answer in the trace: what was translated on the way there isn't translated back"
    mark = f"{sidecar.mark:#x}"
    if not sidecar.mark:
        return "give the sidecar's calls a mark (SO_MARK), save it on the connection, and restore it to the answers"
    if not any(rule.saves_mark for rule in _rules(patient)):
        words = in_words_of(
            patient.rules,
            f"mangle PREROUTING, -m mark --mark {mark} -j CONNMARK --save-mark",
            f"in a chain of prerouting behind conntrack, meta mark {mark} ct mark set meta mark",
        )
        return f"save the sidecar's mark on the connection: {words}"
    if not any(rule.restores_mark for rule in _rules(patient)):
        words = in_words_of(
            patient.rules,
            f"mangle OUTPUT, -m connmark --mark {mark} -j CONNMARK --restore-mark",
            f"in an output chain of type route, ct mark {mark} meta mark set ct mark",
        )
        return f"give the connection's mark back to the application's answers: {words}"
    led = any(
        lookup.mark is not None and lookup.mark.matches(sidecar.mark)
        for _, host in patient.hosts
        for lookup in host.lookups
        if lookup.family == patient.rules.family
    )
    if not led:
        everything = "0.0.0.0/0" if patient.rules.family == 4 else "::/0"
        return (
            f"lead answers with the mark back to lo: ip -{patient.rules.family} rule add fwmark {mark} lookup 133; "
            f"ip -{patient.rules.family} route add local {everything} dev lo table 133"
        )
    return f"see in the trace whether the sidecar's call has mark {mark} when its connection is saved"


def _rules(patient: Patient) -> Iterator[HeldRule]:
    return (rule for table in patient.rules.tables for chain in table.chains for rule in chain.rules)
