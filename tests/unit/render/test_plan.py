from __future__ import annotations

from hypothesis import given, settings

from meshnet.apply.reconcile import fresh_steps
from meshnet.compile.pipeline import compile_spec
from meshnet.kernel.fake import FakeXtables
from meshnet.model.cidr import read_cidr
from meshnet.model.facts import Facts
from meshnet.model.names import COMMENT_PREFIX
from meshnet.parse.words import comment_of
from meshnet.render import iptables, routes
from meshnet.render.plan import render
from tests.strategies import specs

FACTS = Facts(resolvers=(read_cidr("10.96.0.10"), read_cidr("2001:db8::a")))


@settings(max_examples=40, deadline=None)
@given(specs())
def test_a_plan_is_rules_and_routes_and_every_rule_is_tagged(spec):
    program = compile_spec(spec, FACTS)
    plan = render(program)
    assert (plan.tables, plan.routing) == (iptables.render(program), routes.render(program))
    for table in plan.tables:
        for chain in table.chains:
            for rule in chain.rules:
                assert comment_of(rule).startswith(f"{COMMENT_PREFIX}{table.table}.")


@settings(max_examples=40, deadline=None)
@given(specs())
def test_a_table_takes_every_plan(spec):
    """The fake refuses a target in the wrong table, an owner on the way in, a jump to nowhere, a loop."""
    tables = FakeXtables()
    for step in fresh_steps(render(compile_spec(spec, FACTS))):
        if step.tool == "restore":
            tables.restore(step.family, step.text)
