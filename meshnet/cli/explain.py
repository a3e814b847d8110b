"""``explain``: what happens to a packet, and why, without root and without a namespace."""

from __future__ import annotations

import click

from meshnet.cli import output
from meshnet.cli.flow_options import family_of, flow_options
from meshnet.cli.options import BACKEND_HELP, BACKENDS, form_option, netns_options
from meshnet.model.errors import FINE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    from meshnet.cli.simulated import Subject
    from meshnet.model.cidr import Family
    from meshnet.model.flow import Flow
    from meshnet.model.story import Story
    from meshnet.model.trace import Proxies

    F = TypeVar("F", bound=Callable[..., Any])

PORT = click.IntRange(1, 65535)
ID = click.IntRange(0, 4294967294)
SUBJECT_OPTIONS = (
    click.option("--rules", metavar="FILE", help="Rules as iptables-save or nft list prints them; - is stdin."),
    click.option("--rules6", metavar="FILE", help="IPv6 rules as ip6tables-save prints them."),
)
POD_OPTIONS = (
    click.option("--address", multiple=True, metavar="[IFACE=]CIDR", help="An address of the pod; may be repeated."),
    click.option("--route-localnet/--no-route-localnet", default=None, help="The sysctl of the pod's interfaces."),
    click.option("--src-valid-mark", is_flag=True, help="The sysctl: source checks look at the mark."),
    click.option("--forward/--no-forward", default=True, show_default=True, help="Whether the pod forwards packets."),
    click.option("--no-policy-route", is_flag=True, help="No policy rule leads marked packets to a local route."),
    click.option("--inbound-port", type=PORT, help="What counts as the inbound proxy; the spec's, or 15006."),
    click.option("--outbound-port", type=PORT, help="What counts as the outbound proxy; the spec's, or 15001."),
    click.option("--dns-port", type=PORT, help="What counts as the DNS proxy; the spec's, or 15053."),
)
SIDECAR_OPTIONS = (
    click.option(
        "--sidecar",
        type=click.Choice(["original-source", "passthrough", "loopback"]),
        help="How the sidecar calls the application: with the client's address, from 127.0.0.6, or at 127.0.0.1.",
    ),
    click.option("--sidecar-uid", type=ID, help="The sidecar's uid; with --in, --uid means the same."),
    click.option("--sidecar-gid", type=ID, help="The sidecar's gid; with --in, --gid means the same."),
    click.option("--sidecar-mark", metavar="N", help="The mark on the sidecar's call to the application."),
)


def with_options(*options: Callable[[Any], Any]) -> Callable[[F], F]:
    def decorate(command: F) -> F:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


@click.command()
@click.argument("words", metavar="[SPEC]", nargs=-1)
@with_options(*SUBJECT_OPTIONS)
@click.option("--scenario", metavar="FILE", help="Predict every measurement of a scenario file; SPEC names its cases.")
@netns_options
@click.option("--backend", type=click.Choice(BACKENDS), default="auto", help=BACKEND_HELP)
@flow_options
@with_options(*POD_OPTIONS)
@click.option("--conversation", is_flag=True, help="Tell the whole story: client, sidecar, application, and answers.")
@with_options(*SIDECAR_OPTIONS)
@click.option("--svg", metavar="FILE", help="Draw the path as a picture.")
@form_option
def explain(words: tuple[str, ...], scenario: str | None, svg: str | None, form: str, **given: Any) -> int:
    """Tell what happens to a packet, and why: every hook and every rule that fits, and how it ends.

    The rules are those of SPEC, or anybody's as iptables-save or nft list printed them; that needs no root. With
    --netns or --pid they are those in force in a namespace. What isn't known is never guessed: a match that can't be
    answered ends in "undecided", with its rule.

    \b
    Examples:
      meshnet explain pod.yaml --in --src 10.0.0.7 --dst 10.0.0.9 --dport 80
      meshnet explain pod.yaml --out --uid 1000 --dst 10.96.0.10 --dport 53 --proto udp
      meshnet explain --rules saved.txt --conversation --in --dport 80
      meshnet explain --netns pod --out --uid 1000 --dst 203.0.113.9 --dport 443
      meshnet explain --scenario cases.json
    """
    from meshnet.model.errors import UsageError

    if scenario is not None:
        if given["rules"] or given["rules6"]:
            raise UsageError("--scenario names its own rules", hint="leave --rules and --rules6 out")
        from meshnet.cli.scenario import tell

        return tell(scenario, words, form)
    if len(words) > 1:
        raise UsageError("explain takes one SPEC", hint="names of cases go with --scenario")
    family = family_of(given)
    subject = _asked_about(words[0] if words else None, family, given)
    for note in subject.notes:
        output.say(f"note: {note}")
    if not any(held.family == family for held in subject.rules):
        output.say(f"note: {subject.name} has no rules for IPv{family}")
    return _conversation(subject, given, svg, form) if given["conversation"] else _packet(subject, given, svg, form)


def _asked_about(spec: str | None, family: Family, given: dict[str, Any]) -> Subject:
    from meshnet.cli import in_force
    from meshnet.model.errors import UsageError

    if given["netns"] is None and given["pid"] is None:
        return subject_of(spec, given["rules"], given["rules6"], (family,), given["backend"])
    if spec is not None or given["rules"] is not None or given["rules6"] is not None:
        raise UsageError(
            "a namespace has rules of its own", hint="either SPEC or --rules and --rules6, or --netns or --pid"
        )
    return in_force.look("explain", given["netns"], given["pid"], given)[0]


def subject_of(
    spec: str | None, rules: str | None, rules6: str | None, families: tuple[Family, ...], backend: str
) -> Subject:
    """The rules that are asked about: of a spec, or saved ones, and not both."""
    from meshnet.cli import simulated
    from meshnet.cli.options import read_document
    from meshnet.model.errors import UsageError

    saved = rules is not None or rules6 is not None
    if (spec is None) != saved:
        raise UsageError("name a SPEC, or rules with --rules and --rules6", hint="meshnet explain --help shows both")
    if spec is None:
        return simulated.of_files(rules, rules6)
    return simulated.of_document(read_document(spec), families, backend)


def proxies_of(subject: Subject, given: dict[str, Any]) -> Proxies:
    """The sidecar's ports: the flags', or the subject's."""
    from meshnet.model.ports import PortRange
    from meshnet.model.value import replace

    proxies = subject.proxies
    if given["inbound_port"] is not None:
        proxies = replace(proxies, inbound=PortRange(given["inbound_port"], given["inbound_port"]))
    if given["outbound_port"] is not None:
        proxies = replace(proxies, outbound=given["outbound_port"])
    if given["dns_port"] is not None:
        proxies = replace(proxies, dns=given["dns_port"])
    return proxies


def _packet(subject: Subject, given: dict[str, Any], svg: str | None, form: str) -> int:
    from meshnet.cli import explained
    from meshnet.cli.flow_options import flow_of
    from meshnet.cli.simulated import host_for
    from meshnet.simulate.walk import Pod

    host = host_for(subject, given, bool(given["route_localnet"]))
    flow = flow_of(given, host)
    trace = Pod(subject.rules, host, proxies_of(subject, given)).walk(flow)
    if svg is not None:
        from meshnet.render.picture import picture

        _draw(svg, picture(str(flow), [("", trace)], explained.sentence(trace)))
    data = {"flow": str(flow), "rules": subject.name, **explained.trace_data(trace, subject)}
    output.answer(data, explained.trace_text(flow, trace, subject), form)
    return FINE


def _conversation(subject: Subject, given: dict[str, Any], svg: str | None, form: str) -> int:
    from meshnet.cli import explained
    from meshnet.cli.simulated import conduct_for
    from meshnet.model.errors import UsageError

    if given["proto"] == "icmp":
        raise UsageError("a conversation is one of TCP or UDP", hint="leave --conversation out for a single packet")
    flow, story, notes = _told(subject, given)
    _, why = conduct_for(subject, given, flow.family)
    for note in (*why, *notes):
        output.say(f"note: {note}")
    if svg is not None:
        from meshnet.render.picture import picture

        steps = [(step.title, step.trace) for step in story.steps]
        _draw(svg, picture(str(flow), steps, f"{story.disposition}: {story.sentence}"))
    data = {"flow": str(flow), "rules": subject.name, "notes": [*why, *notes]}
    output.answer({**data, **explained.story_data(story, subject)}, explained.story_text(story, subject), form)
    return FINE


def _told(subject: Subject, given: dict[str, Any]) -> tuple[Flow, Story, tuple[str, ...]]:
    """The story; where nobody says what route_localnet is and it matters, the one that ends worse."""
    from meshnet.cli.flow_options import flow_of
    from meshnet.cli.simulated import conduct_for, host_for
    from meshnet.model.host import Listener
    from meshnet.model.value import replace
    from meshnet.simulate.conversation import converse
    from meshnet.simulate.walk import Pod

    worst = ("loop", "lost-reply", "dropped", "rejected", "undecided")
    unsaid = given["route_localnet"] is None and subject.host is None
    settings = [False, True] if unsaid else [bool(given["route_localnet"])]
    told = []
    for setting in settings:
        host = host_for(subject, given, setting)
        flow = flow_of(given, host)
        conduct, _ = conduct_for(subject, given, flow.family)
        sidecar = tuple(
            Listener("sidecar", "tcp", port, None, None, conduct.transparent, conduct.uid, conduct.gid)
            for port in (conduct.inbound_port, conduct.outbound_port)
        )
        pod = Pod(subject.rules, replace(host, listeners=sidecar), proxies_of(subject, given))
        told.append((setting, flow, converse(pod, flow, conduct)))
    told.sort(key=lambda item: worst.index(item[2].disposition) if item[2].disposition in worst else len(worst))
    setting, flow, story = told[0]
    other = told[-1][2]
    if (story.disposition, story.app_sees) == (other.disposition, other.app_sees):
        return flow, story, ()
    return (
        flow,
        story,
        (f"with route_localnet={int(not setting)} it ends otherwise: {other.disposition}: {other.sentence}",),
    )


def _draw(name: str, text: str) -> None:
    from meshnet.model.errors import UsageError

    try:
        with open(name, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise UsageError(f"can't write {name}: {error.strerror}", hint="a file's name for --svg") from error
