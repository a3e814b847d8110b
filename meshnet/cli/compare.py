"""``compare``: are two specs or rule sets the same for every packet, and if not, which packet shows it."""

from __future__ import annotations

import click

from meshnet.cli import output
from meshnet.cli.options import BACKEND_HELP, BACKENDS, form_option, once_from_stdin
from meshnet.model.errors import FINE, NEGATIVE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from meshnet.cli.simulated import Subject
    from meshnet.model.cidr import Family
    from meshnet.simulate.compare import Compared, Side


@click.command()
@click.argument("one", metavar="A")
@click.argument("other", metavar="B")
@click.option("--family", type=click.Choice(["4", "6"]), help="Of saved rules: the family, if the text doesn't say.")
@click.option("--backend", type=click.Choice(BACKENDS), default="auto", help=BACKEND_HELP)
@click.option("--address", multiple=True, metavar="[IFACE=]CIDR", help="An address of the pod; may be repeated.")
@click.option("--route-localnet", is_flag=True, help="The sysctl of the pod's interfaces.")
@click.option("--no-policy-route", is_flag=True, help="No policy rule leads marked packets to a local route.")
@form_option
def compare(one: str, other: str, family: str | None, backend: str, form: str, **given: Any) -> int:
    """Say whether A and B treat every packet alike. Each is a spec, or rules as iptables-save or nft list prints them.

    This is no sample: every kind of packet that a rule of either tells apart is followed through both. If any is
    treated differently, the plainest one is shown with its path through each; exit 1. Alike means the same end, the
    same addresses, ports, interface and marks, and the same connection left behind; what is only logged doesn't count.
    Needs no root.

    \b
    Examples:
      meshnet compare pod.yaml saved.txt
      meshnet compare before.txt after.txt -o json
      meshnet compare pod.yaml table.nft
    """
    once_from_stdin(one, other)
    subjects = [_subject(name, family, backend) for name in (one, other)]
    for subject in subjects:
        for note in subject.notes:
            output.say(f"note: {note}")
    families = _families(subjects)
    results = [(each, _compared(subjects, each, given)) for each in families]
    output.answer(_data(results, subjects), _text(results, subjects), form)
    return FINE if all(found.equal for _, found in results) else NEGATIVE


def _subject(name: str, family: str | None, backend: str) -> Subject:
    from meshnet.cli import simulated
    from meshnet.parse.nft_text import is_nft
    from meshnet.spec.load import load_text

    text, name = simulated.read_rules(name)
    first = next((line for line in text.splitlines() if line.strip() and not line.startswith("#")), "")
    if not first.startswith(("*", "-", ":")) and not is_nft(text):
        return simulated.of_document(load_text(text, name), (4, 6), backend)
    six = family == "6" if family is not None else "ip6tables-save" in text.partition("*")[0]
    return simulated.of_text(text, name, 6 if six else 4)


def _families(subjects: list[Subject]) -> list[Family]:
    """Those that both sides speak of; rules as iptables-save prints them speak of one."""
    from meshnet.model.errors import UsageError

    spoken = [{held.family for held in subject.rules} for subject in subjects]
    both = sorted(
        spoken[0] | spoken[1] if all(item.document is not None for item in subjects) else spoken[0] & spoken[1]
    )
    if not both:
        raise UsageError("the two are of different families", hint="--family says which one saved rules are of")
    return both


def _compared(subjects: list[Subject], family: Family, given: dict[str, Any]) -> Compared:
    from meshnet.simulate.compare import compare as run

    one, other = (_side(subject, subjects, family, given) for subject in subjects)
    return run(one, other)


def _side(subject: Subject, subjects: list[Subject], family: Family, given: dict[str, Any]) -> Side:
    """Saved rules are compared in the namespace that the other side's spec makes; without a spec, in one that has the
    policy routes which either of them needs."""
    from meshnet.cli.simulated import Subject, host_for
    from meshnet.simulate.compare import Side

    flags = {"way": "in", "src": None, "dst": None, "iface": "eth0", "src_valid_mark": False, "forward": True, **given}
    around = subject
    if subject.program is None:
        saved = Subject("", tuple(held for item in subjects for held in item.rules))
        around = next((item for item in subjects if item.program is not None), saved)
    return Side(subject.of(family), host_for(around, flags, given["route_localnet"]))


def _text(results: list[tuple[Family, Compared]], subjects: list[Subject]) -> str:
    from meshnet.cli import explained

    lines = []
    for family, found in results:
        difference = found.difference
        if difference is None:
            lines.append(f"IPv{family}: the same for every packet ({found.regions} kinds of packets)")
            continue
        more = f" ({', '.join(difference.more)})" if difference.more else ""
        state = f", {difference.flow.state}" if difference.flow.state != "NEW" else ""
        lines += [f"IPv{family}: different in {difference.what}", "", f"{difference.flow}{state}{more}"]
        for subject, trace in zip(subjects, (difference.one, difference.other), strict=True):
            lines += ["", f"{subject.name}:"]
            lines += [f"  {line}" for line in explained.trace_lines(trace, subject)]
            lines += [f"  => {explained.sentence(trace)}"]
    return "\n".join(lines)


def _data(results: list[tuple[Family, Compared]], subjects: list[Subject]) -> dict[str, Any]:
    from meshnet.cli import explained

    def shown(found: Compared) -> dict[str, Any] | None:
        difference = found.difference
        if difference is None:
            return None
        return {
            "flow": str(difference.flow),
            **explained.flow_data(difference.flow),
            "more": list(difference.more),
            "what": difference.what,
            "a": explained.trace_data(difference.one, subjects[0]),
            "b": explained.trace_data(difference.other, subjects[1]),
        }

    return {
        "equal": all(found.equal for _, found in results),
        "families": [
            {"family": family, "equal": found.equal, "kinds": found.regions, "difference": shown(found)}
            for family, found in results
        ],
    }
