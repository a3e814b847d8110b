"""``compile`` and ``schema``: the pure commands."""

from __future__ import annotations

import click

from meshnet.cli import output
from meshnet.cli.foreign import DIALECTS
from meshnet.cli.options import backend_option, form_option, netns_options, place_of, read_document
from meshnet.cli.steps import steps_data, steps_text
from meshnet.model.value import replace, value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from meshnet.model.cidr import Family
    from meshnet.model.facts import Facts
    from meshnet.model.plan import Plan
    from meshnet.model.program import Program
    from meshnet.model.spec import Profile, Spec
    from meshnet.spec.dialects.istio_annotations import NotIntercepted

    LineOf = Callable[[str], int | None]

PROFILES = ("istio", "meshnet")


@value
class Asked:
    """A spec, the line of each path in it (a foreign document has none), and what else the JSON answer says."""

    spec: Spec
    line_of: LineOf
    more: dict[str, Any]


@click.command(name="compile")
@click.argument("words", metavar="[SPEC]", nargs=-1)
@click.option("--dialect", type=click.Choice(DIALECTS), help="SPEC is in another project's words.")
@click.option("--pod", metavar="FILE", help="In place of SPEC: a Kubernetes Pod's manifest with Istio's annotations.")
@click.option("--profile", type=click.Choice(PROFILES), help="With --pod: whose rules.  [default: istio]")
@click.option("--print-spec", is_flag=True, help="Print the spec, defaults too, in place of the rules.")
@backend_option
@click.option(
    "--family", type=click.Choice(["4", "6", "all"]), default="all", show_default=True, help="Print only one."
)
@netns_options
@form_option
def compile_command(
    words: tuple[str, ...],
    dialect: str | None,
    pod: str | None,
    profile: Profile | None,
    print_spec: bool,
    backend: str,
    family: str,
    netns: str | None,
    pid: int | None,
    form: str,
) -> int:
    """Print exactly what would be applied to a namespace that holds nothing of meshnet yet.

    SPEC is a YAML or JSON file, or - for standard input. Without --netns or --pid nothing of this host is looked at
    but, for `dns.capture: resolvers` without a list, its resolv.conf; and `families: auto` means both.

    A pod that is not intercepted ends with the reason on standard error, nothing on standard output, and exit code 1.
    With --dialect kuma, SPEC is the file of a transparent-proxy configuration; with --dialect linkerd, the flags of
    linkerd2-proxy-init stand behind two hyphens. docs/dialects.md says what becomes of each word.

    \b
    Examples:
      meshnet compile pod.yaml --family 4
      meshnet compile --pod nginx-pod.yaml --print-spec
      meshnet compile --dialect kuma config.yaml
      meshnet compile --dialect linkerd -- -p 4143 -o 4140 -u 2102
    """
    from meshnet.compile.pipeline import compile_spec
    from meshnet.model.errors import FINE, NEGATIVE
    from meshnet.render.plan import render
    from meshnet.spec.dialects.istio_annotations import NotIntercepted

    asked = _asked(words, dialect, pod, profile)
    if isinstance(asked, NotIntercepted):
        output.say(f"meshnet: not intercepted: {asked.reason}")
        output.answer({"intercepted": False, "reason": asked.reason}, "", form)
        return NEGATIVE
    if print_spec:
        from meshnet.spec.dump import document_of, to_yaml

        output.answer(document_of(asked.spec), to_yaml(asked.spec), form)
        return FINE
    program = compile_spec(asked.spec, _facts(asked.spec, netns, pid))
    families: tuple[Family, ...] = {"4": (4,), "6": (6,)}.get(family, (4, 6))  # type: ignore[assignment]
    if backend == "nftables":  # of one table for both families, the one that is asked for
        program = replace(program, families=tuple(item for item in program.families if item in families))
    plan = render(program, backend)
    if form == "json":
        output.answer({**asked.more, **_json(asked.line_of, program, plan, families, backend)}, "", form)
    else:
        output.answer(None, _text(plan, families, backend), form)
    return FINE


def _asked(
    words: tuple[str, ...], dialect: str | None, pod: str | None, profile: Profile | None
) -> Asked | NotIntercepted:
    """What the arguments name: a spec's file, a pod's, or another project's settings."""
    from meshnet.cli.foreign import pod_spec, translated
    from meshnet.model.errors import UsageError
    from meshnet.model.spec import Spec

    if pod is not None:
        if words or dialect:
            other = f"--dialect {dialect}" if dialect else f"a spec ({words[0]})"
            raise UsageError(f"both {other} and --pod ({pod})", hint="one of the two")
        found = pod_spec(pod, profile or "istio")
        return Asked(found, _no_line, {"intercepted": True}) if isinstance(found, Spec) else found
    if profile is not None:
        raise UsageError("--profile without --pod", hint="the spec's own field profile")
    if dialect is not None:
        read = translated(dialect, words)
        if read.aside:
            output.say(f"meshnet: left aside, since they don't say which traffic is meant: {', '.join(read.aside)}")
        return Asked(read.spec, _no_line, {"aside": list(read.aside)})
    if len(words) != 1:
        said = f"{len(words)} specs ({' '.join(words)})" if words else "no spec"
        raise UsageError(said, hint="one file's name, - for stdin, or --pod FILE")
    document = read_document(words[0])
    return Asked(document.spec, document.line_of, {})


def _no_line(path: str) -> None:
    del path


def _facts(spec: Spec, netns: str | None, pid: int | None) -> Facts:
    from meshnet.model.facts import Facts

    asks_resolvers = spec.dns.capture == "resolvers" and not spec.dns.resolvers
    if netns is None and pid is None and not asks_resolvers:
        return Facts()
    from meshnet.kernel.facts import gather
    from meshnet.kernel.netns import open_namespace

    place = place_of(netns, pid)
    with open_namespace(place) as namespace, namespace.entered():
        found = gather(place)
    return found if netns is not None or pid is not None else Facts(resolvers=found.resolvers)


def _text(plan: Plan, families: tuple[Family, ...], backend: str) -> str:
    from meshnet.apply.reconcile import fresh_steps
    from meshnet.model.plan import ChangeSet

    steps = tuple(step for step in fresh_steps(plan) if step.family in (*families, "inet"))
    return steps_text(backend, ChangeSet(steps))


def _json(line_of: LineOf, program: Program, plan: Plan, families: tuple[Family, ...], backend: str) -> dict[str, Any]:
    from meshnet.apply.reconcile import fresh_steps

    rules = _nft_rules(line_of, program, plan) if plan.nft else _rules(line_of, program, families)
    return {
        "name": program.name,
        "backend": backend,
        "families": [family for family in program.families if family in families],
        "rules": rules,
        "steps": steps_data(backend, (step for step in fresh_steps(plan) if step.family in (*families, "inet"))),
    }


def _rules(line_of: LineOf, program: Program, families: tuple[Family, ...]) -> list[dict[str, Any]]:
    from meshnet.render.iptables import rule_texts

    return [
        {
            "id": rule.id,
            "family": family,
            "table": chain.table,
            "chain": chain.name,
            "rule": text,
            "origin": rule.origin,
            "line": line_of(rule.origin),
        }
        for family in program.families
        if family in families
        for chain in program.chains
        for rule in chain.rules
        if rule.holds_for(family)
        for text in rule_texts(rule, family)
    ]


def _nft_rules(line_of: LineOf, program: Program, plan: Plan) -> list[dict[str, Any]]:
    """The rules of the table, each with the origin of the program's rule that its comment names."""
    from meshnet.render.nftables import program_id

    origins = {rule.id: rule.origin for rule in program.rules()}
    return [
        {
            "id": rule_id,
            "family": "inet",
            "table": table.name,
            "chain": chain.name,
            "rule": text,
            "origin": origins[rule_id],
            "line": line_of(origins[rule_id]),
        }
        for table in plan.nft
        for chain in table.chains
        for text in chain.rules
        if (rule_id := program_id(text)) in origins
    ]


@click.command()
@form_option
def schema(form: str) -> None:
    """Print the JSON Schema (draft 2020-12) of a spec, for editors and CI.

    \b
    Example:
      meshnet schema > interception.schema.json
    """
    from meshnet.spec.schema import schema as document_schema

    del form  # a schema is JSON in either form
    output.answer(document_schema(), "", "json")
