"""The sidecar meets itself: a call that it makes is captured, and comes back to it."""

from __future__ import annotations

from meshnet.doctor.advice import in_words_of
from meshnet.doctor.finding import Finding, Where, where
from meshnet.doctor.grouped import Group, grouped
from meshnet.model.rule import Comment, ProtocolIs
from meshnet.model.story import Step

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from meshnet.doctor.calls import Own, Told
    from meshnet.doctor.patient import Patient
    from meshnet.model.ruleset import RuleSet
    from meshnet.model.story import Conduct, Story
    from meshnet.model.trace import Hop, Trace

CAPTURES = ("REDIRECT", "TPROXY", "DNAT")
PROXIES = ("inbound-proxy", "outbound-proxy", "dns-proxy")


def loops(patient: Patient, told: Iterable[Told], own: Iterable[Own]) -> Iterator[Finding]:
    """One finding for each identity of the sidecar and each rule that sends its calls back."""
    settings = len(patient.hosts)
    for group in grouped((_of_story(patient.rules, item) for item in told), settings):
        yield _finding(patient.rules, group)
    for group in grouped((_of_own(patient.rules, item) for item in own), settings):
        yield _finding(patient.rules, group)


def _of_story(rules: RuleSet, told: Told) -> Group | None:
    story = told.story
    if story.disposition != "loop":
        return None
    again = recaptured(story)
    at = capture(rules, again) if again is not None else None
    return Group(told.flow, told.sidecar, told.setting, at, story.sentence, story.steps)


def _of_own(rules: RuleSet, own: Own) -> Group | None:
    trace = own.trace
    if trace.disposition not in PROXIES:
        return None
    name = {"dns-proxy": "its own DNS proxy"}.get(trace.disposition, "itself")
    step = Step(f"the sidecar (uid {own.sidecar.uid}, gid {own.sidecar.gid}) sends {own.flow}", trace)
    sentence = f"what the sidecar itself sends out is taken back to {name} (port {trace.port})"
    return Group(own.flow, own.sidecar, own.setting, capture(rules, trace), sentence, (step,))


def capture(rules: RuleSet, trace: Trace) -> Where | None:
    """The rule that took a packet elsewhere; where that one takes whatever comes, the one that led there."""
    hops = [hop for hop in trace.hops if hop.rule is not None]
    for place in range(len(hops) - 1, -1, -1):
        if hops[place].verdict.startswith(CAPTURES):
            hop = _decides(rules, hops[: place + 1])
            return where(rules, hop.table, hop.chain, hop.number)
    return None


def _decides(rules: RuleSet, hops: list[Hop]) -> Hop:
    last = hops[-1]
    held = rules.table(last.table)
    chain = held.chain(last.chain) if held is not None else None
    assert chain is not None
    if all(isinstance(item, ProtocolIs | Comment) for rule in chain.rules for item in rule.conditions):
        leads = (f"to {last.chain}", f"goto {last.chain}")
        callers = [hop for hop in hops if hop.verdict in leads and (hop.hook, hop.table) == (last.hook, last.table)]
        return callers[-1] if callers else last
    return last


def recaptured(story: Story) -> Trace | None:
    """The last of the sidecar's calls that came back to it."""
    again = [step.trace for step in story.steps if step.trace.captured and step.title.startswith("the sidecar (")]
    return again[-1] if again else None


def _finding(rules: RuleSet, group: Group) -> Finding:
    sidecar = group.sidecar
    who = f"a sidecar under uid {sidecar.uid}, gid {sidecar.gid}"
    return Finding(
        "loop",
        group.flow.family,
        f"{who} meets itself",
        (group.sentence, *group.more()),
        let_go(rules, sidecar, group.where),
        group.where,
        steps=group.steps,
    )


def let_go(rules: RuleSet, sidecar: Conduct, at: Where | None) -> str:
    """The next step where the sidecar's own call is captured."""
    ahead = f"ahead of {at}" if at is not None else "ahead of what captures"
    if sidecar.spoofs and sidecar.mark:
        mark = f"{sidecar.mark:#x}"
        words = in_words_of(rules, f"-m mark --mark {mark} -j RETURN", f"meta mark {mark} return")
        return f"let calls with the sidecar's mark go {ahead}: {words}"
    uid = sidecar.uid
    words = in_words_of(rules, f"-m owner --uid-owner {uid} -j RETURN", f"meta skuid {uid} return")
    return f"let the sidecar's calls go {ahead}: {words}; or run the sidecar under the uid that the rules let go"
