"""``trace``: what the kernel does with a packet, rule by rule, beside what was predicted."""

from __future__ import annotations

import click

from meshnet.cli import output
from meshnet.cli.flow_options import flow_options
from meshnet.cli.options import form_option, netns_options, place_of
from meshnet.model.errors import FINE, NEGATIVE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from meshnet.cli.in_force import InForce
    from meshnet.cli.simulated import Subject
    from meshnet.kernel.netns import Namespace
    from meshnet.model.cidr import Family
    from meshnet.model.flow import Flow
    from meshnet.model.ruleset import RuleSet
    from meshnet.model.trace import Trace
    from meshnet.probe.trace import Met

FORBIDDEN = set("{};\n\"'\\#")


@click.command()
@netns_options
@flow_options
@click.option("--peer", metavar="NAME|PATH", help="With --in: the namespace at the other end, to send from.")
@click.option("--follow", is_flag=True, help="Send nothing; show live packets until Ctrl-C.")
@click.option("--filter", "wanted", metavar="EXPR", default="", help="With --follow: which packets, in nft's words.")
@click.option("--family", type=click.Choice(["4", "6"]), default="4", help="With --follow: of which family.")
@form_option
def trace(
    netns: str | None,
    pid: int | None,
    peer: str | None,
    follow: bool,
    wanted: str,
    family: str,
    form: str,
    **given: Any,
) -> int:
    """Send one packet and show its real path beside the predicted one, rule by rule, with marks; exit 1 if they differ.

    The real path is the kernel's own account: nft's trace events, or the legacy tables' log. Which packets it tells of
    is decided by a table of meshnet's own that is gone afterwards, also after Ctrl-C; nobody's rules are touched.

    \b
    Examples:
      meshnet trace --netns pod --out --uid 1000 --dst 203.0.113.9 --dport 443
      meshnet trace --netns pod --in --peer client --src 10.77.0.1 --dport 80
      meshnet trace --netns pod --follow --filter 'tcp dport 80'
    """
    from meshnet.kernel.netns import open_namespace, require_capabilities, where
    from meshnet.model.errors import UsageError

    if wanted and not follow:
        raise UsageError("--filter is for --follow", hint="flags such as --dst and --dport describe the one packet")
    if FORBIDDEN & set(wanted):
        raise UsageError("--filter takes matches only", hint="such as 'tcp dport 80' (nft(8), PAYLOAD EXPRESSIONS)")
    if given["proto"] == "icmp" or given["state"] != "NEW":
        raise UsageError("trace sends the first packet of a connection", hint="meshnet explain answers for others")
    require_capabilities(("CAP_NET_ADMIN", "CAP_SYS_ADMIN", "CAP_NET_RAW"), "trace")
    place = place_of(netns, pid)
    with open_namespace(place) as namespace:
        found = _in_force(namespace)
        if follow:
            return _follow(namespace, found, 6 if family == "6" else 4, wanted, form)
        far = open_namespace(where(peer)) if peer else None
        try:
            return _one(namespace, found, far, given, form)
        finally:
            if far is not None:
                far.close()


def _in_force(namespace: Namespace) -> InForce:
    """The rules that are in force. Two at one place have an order that no text tells."""
    from meshnet.cli import in_force
    from meshnet.model.errors import UnsupportedError

    found = in_force.read(namespace)
    if found.unordered:
        raise UnsupportedError(
            list(found.unordered), hint="a rule set lives in one backend; meshnet doctor says where ours is"
        )
    if found.tables and found.legacy:
        raise UnsupportedError(
            ["rules are in iptables-legacy and in our table of nftables"],
            hint="the kernel tells of each by a way of its own, and not in which order; meshnet explain follows both",
        )
    for note in found.subject.notes:
        output.say(f"note: {note}")
    return found


def _one(namespace: Namespace, there: InForce, peer: Namespace | None, given: dict[str, Any], form: str) -> int:
    from meshnet.cli.flow_options import flow_of
    from meshnet.probe.host import host_of
    from meshnet.probe.trace import follow, predicted, seen
    from meshnet.simulate.walk import Pod

    subject, host = there.subject, host_of(namespace)
    flow = flow_of({**given, "sport": given["sport"] or _fresh_port()}, host)
    found = Pod(subject.rules, host).walk(flow)
    real = seen(follow(namespace, flow, peer, there.numbers(flow.family)), subject.of(flow.family))
    expected = predicted(found)
    known = expected[:-1] if found.disposition == "undecided" else expected  # the last rule's match nobody can answer
    told = real[: len(known)] if found.disposition == "undecided" else real
    same = [met.place for met in known] == [met.place for met in told]
    output.answer(_data(flow, found, expected, real, same), _text(flow, found, expected, real, subject, same), form)
    return FINE if same else NEGATIVE


def _fresh_port() -> int:
    """A sender's port of Linux's usual range (ip_local_port_range), another one each time.

    A packet that got no answer leaves an entry in conntrack for two minutes, and a second one from the same port
    belongs to it: nat's rules aren't asked again, and the kernel would seem to have done something else.
    """
    import os

    return 32768 + int.from_bytes(os.urandom(4), "big") % 28232


def _rows(expected: tuple[Met, ...], real: tuple[Met, ...]) -> list[tuple[Met | None, Met | None]]:
    """Both accounts side by side; where they part, what one has and the other hasn't stands alone."""
    from difflib import SequenceMatcher

    matcher = SequenceMatcher(None, [met.place for met in expected], [met.place for met in real], autojunk=False)
    rows: list[tuple[Met | None, Met | None]] = []
    for tag, start, end, start2, end2 in matcher.get_opcodes():
        if tag == "equal":
            rows += zip(expected[start:end], real[start2:end2], strict=True)
        else:
            rows += [(met, None) for met in expected[start:end]]
            rows += [(None, met) for met in real[start2:end2]]
    return rows


def _shown(met: Met | None) -> tuple[str, str]:
    if met is None:
        return "-", ""
    return f"{met.table} {met.chain}:{met.number}", "?" if met.mark is None else f"{met.mark:#x}"


def _words(met: Met, rules: RuleSet) -> str:
    from meshnet.cli import explained

    held = rules.table(met.table)
    chain = held.chain(met.chain) if held is not None else None
    return explained.rule_words(chain.rules[met.number - 1] if chain is not None else None, rules.family)


def _text(
    flow: Flow, found: Trace, expected: tuple[Met, ...], real: tuple[Met, ...], subject: Subject, same: bool
) -> str:
    from meshnet.cli import explained

    rows = []
    for one, other in _rows(expected, real):
        met = one or other
        assert met is not None
        rows.append((*_shown(one), *_shown(other), _words(met, subject.of(flow.family))))
    table = output.table(("predicted", "mark", "real", "mark", "rule"), rows) if rows else "no rule was met"
    far = ", as far as that goes" if found.disposition == "undecided" else ""
    end = f"the kernel did what was predicted{far}" if same else "THE KERNEL DID SOMETHING ELSE"
    return "\n".join([str(flow), "", table, "", f"predicted {explained.sentence(found)}", end])


def _data(flow: Flow, found: Trace, expected: tuple[Met, ...], real: tuple[Met, ...], same: bool) -> dict[str, Any]:
    def each(mets: tuple[Met, ...]) -> list[dict[str, Any]]:
        return [
            {"table": met.table, "chain": met.chain, "number": met.number, "verdict": met.verdict, "mark": met.mark}
            for met in mets
        ]

    return {
        "flow": str(flow),
        "agree": same,
        "disposition": found.disposition,
        "predicted": each(expected),
        "real": each(real),
    }


def _follow(namespace: Namespace, there: InForce, family: Family, wanted: str, form: str) -> int:
    from meshnet.probe.trace import live, seen

    output.say("showing packets until Ctrl-C")
    rules = there.subject.of(family)
    for events in live(namespace, family, wanted, there.numbers(family)):
        mets = seen(events, rules)
        if form == "json":
            output.answer(
                [{"table": m.table, "chain": m.chain, "number": m.number, "mark": m.mark} for m in mets], "", form
            )
            continue
        lines = [(*_shown(met), _words(met, rules)) for met in mets]
        told = output.table(("rule", "mark", "words"), lines) if lines else "a packet met no rule"
        output.answer(None, f"{told}\n\n", form)
    return FINE
