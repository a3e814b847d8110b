"""A trace and a story, as lines for a person and as data."""

from __future__ import annotations

from meshnet.cli import output
from meshnet.model.cidr import address_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from meshnet.cli.simulated import Subject
    from meshnet.model.flow import Flow
    from meshnet.model.ruleset import HeldRule
    from meshnet.model.story import Story
    from meshnet.model.trace import Hop, Trace

WIDEST_RULE = 100
SENTENCES = {
    "inbound-proxy": "the inbound proxy gets it",
    "outbound-proxy": "the outbound proxy gets it",
    "dns-proxy": "the DNS proxy gets it",
    "captured": "it is taken to another port",
    "direct": "nobody takes it",
    "dropped": "it is dropped",
    "rejected": "it is rejected",
    "loop": "the sidecar meets itself",
    "lost-reply": "an answer is lost",
    "undecided": "nobody can tell",
}


def rule_words(rule: HeldRule | None, family: int) -> str:
    """A rule's text without its comment, which is shown as its origin or is long."""
    from meshnet.model.rule import Comment
    from meshnet.model.value import replace
    from meshnet.render.saved import rule_text

    if rule is None:
        return ""
    plain = tuple(item for item in rule.conditions if not isinstance(item, Comment))
    return rule_text(replace(rule, conditions=plain), family)  # type: ignore[arg-type]


def trace_lines(trace: Trace, subject: Subject) -> list[str]:
    """One line for each rule that fitted and each decision of the kernel's own."""
    rows = []
    for hop in trace.hops:
        _, place = subject.origin(hop.rule)
        words = rule_words(hop.rule, trace.family)
        shown = words if len(words) <= WIDEST_RULE else f"{words[: WIDEST_RULE - 1]}…"
        where = f"{hop.chain}:{hop.number}" if hop.number else hop.chain
        rows.append((hop.hook, hop.table, where, shown, hop.verdict, f"{hop.mark:#x}" if hop.mark else "", place))
    if not rows:
        return ["no rule fits"]
    return output.table(("hook", "table", "rule", "words", "verdict", "mark", "from"), rows).splitlines()


def sentence(trace: Trace) -> str:
    port = f" (port {trace.port})" if trace.captured and trace.end == "delivered" else ""
    return f"{trace.disposition}: {SENTENCES[trace.disposition]}{port}; the packet {trace.reason}"


def trace_text(flow: Flow, trace: Trace, subject: Subject) -> str:
    return "\n".join([str(flow), "", *trace_lines(trace, subject), "", sentence(trace)])


def story_text(story: Story, subject: Subject) -> str:
    return "\n".join(_story_lines(story, subject))


def _story_lines(story: Story, subject: Subject) -> Iterator[str]:
    for number, step in enumerate(story.steps, 1):
        yield f"{number}. {step.title}"
        for line in trace_lines(step.trace, subject):
            yield f"   {line}"
        yield f"   => {step.trace.reason}"
        yield ""
    yield f"{story.disposition}: {story.sentence}"


def hop_data(hop: Hop, trace: Trace, subject: Subject) -> dict[str, Any]:
    origin, place = subject.origin(hop.rule)
    return {
        "hook": hop.hook,
        "table": hop.table,
        "chain": hop.chain,
        "number": hop.number,
        "rule": rule_words(hop.rule, trace.family),
        "verdict": hop.verdict,
        "mark": hop.mark,
        **({"comment": hop.rule.comment} if hop.rule is not None and hop.rule.comment else {}),
        **({"origin": origin, "place": place} if origin else {}),
    }


def trace_data(trace: Trace, subject: Subject) -> dict[str, Any]:
    direct = trace.end == "delivered" and not trace.captured
    return {
        "disposition": trace.disposition,
        "port": trace.port,
        "app_sees": address_text(trace.family, trace.source) if direct else None,
        "end": trace.end,
        "reason": trace.reason,
        "destination": address_text(trace.family, trace.to),
        "interface": trace.link,
        "mark": trace.mark,
        "hops": [hop_data(hop, trace, subject) for hop in trace.hops],
    }


def story_data(story: Story, subject: Subject) -> dict[str, Any]:
    first = story.steps[0].trace
    seen = story.app_sees
    return {
        "disposition": story.disposition,
        "port": story.port,
        "app_sees": None if seen is None else address_text(first.family, seen),
        "sentence": story.sentence,
        "hops": [hop_data(hop, step.trace, subject) for step in story.steps for hop in step.trace.hops],
        "steps": [{"title": step.title, **trace_data(step.trace, subject)} for step in story.steps],
    }


def flow_data(flow: Flow) -> dict[str, Any]:
    """A flow in the words of the flags that ask for it."""
    return {
        "way": flow.way,
        "src": address_text(flow.family, flow.source),
        "dst": address_text(flow.family, flow.destination),
        "sport": flow.source_port,
        "dport": flow.port,
        "proto": flow.transport,
        "iface": flow.interface,
        "uid": flow.uid,
        "gid": flow.gid,
        "groups": list(flow.groups),
        "sender_mark": flow.mark,
        "state": flow.state,
    }
