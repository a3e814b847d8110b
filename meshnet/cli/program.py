"""``compile`` and ``schema``: the pure commands."""

from __future__ import annotations

import click

from meshnet.cli import output
from meshnet.cli.options import backend_option, form_option, netns_options, place_of, read_document, spec_argument
from meshnet.cli.steps import tool_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from meshnet.model.cidr import Family
    from meshnet.model.facts import Facts
    from meshnet.model.plan import Plan
    from meshnet.model.program import Program
    from meshnet.model.spec import Spec
    from meshnet.spec.load import Document


@click.command(name="compile")
@spec_argument
@backend_option
@click.option(
    "--family", type=click.Choice(["4", "6", "all"]), default="all", show_default=True, help="Print only one."
)
@netns_options
@form_option
def compile_command(spec: str, backend: str, family: str, netns: str | None, pid: int | None, form: str) -> None:
    """Print exactly what would be applied to a namespace that holds nothing of meshnet yet.

    SPEC is a YAML or JSON file, or - for standard input. Without --netns or --pid nothing of this host is looked at
    but, for `dns.capture: resolvers` without a list, its resolv.conf; and `families: auto` means both.

    \b
    Example:
      meshnet compile pod.yaml --family 4
    """
    from meshnet.compile.pipeline import compile_spec
    from meshnet.render.plan import render

    document = read_document(spec)
    program = compile_spec(document.spec, _facts(document.spec, netns, pid))
    plan = render(program)
    families: tuple[Family, ...] = {"4": (4,), "6": (6,)}.get(family, (4, 6))  # type: ignore[assignment]
    if form == "json":
        output.answer(_json(document, program, plan, families, backend), "", form)
    else:
        output.answer(None, _text(plan, families, backend), form)


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

    parts = []
    for step in fresh_steps(plan):
        if step.family in families:
            tool = f"ip -{step.family} -batch -" if step.tool == "ip" else tool_name(backend, step.family)
            parts.append(f"# {tool}{' --noflush' if step.tool == 'restore' else ''}\n{step.text}")
    return "\n".join(parts)


def _json(
    document: Document, program: Program, plan: Plan, families: tuple[Family, ...], backend: str
) -> dict[str, Any]:
    from meshnet.apply.reconcile import fresh_steps
    from meshnet.render.iptables import rule_texts

    rules = [
        {
            "id": rule.id,
            "family": family,
            "table": chain.table,
            "chain": chain.name,
            "rule": text,
            "origin": rule.origin,
            "line": document.line_of(rule.origin),
        }
        for family in program.families
        if family in families
        for chain in program.chains
        for rule in chain.rules
        if rule.holds_for(family)
        for text in rule_texts(rule, family)
    ]
    return {
        "name": program.name,
        "backend": backend,
        "families": [family for family in program.families if family in families],
        "rules": rules,
        "steps": [
            {"tool": step.tool, "family": step.family, "text": step.text}
            for step in fresh_steps(plan)
            if step.family in families
        ],
    }


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
