"""A spec means the same on nftables as on iptables: its two renderings, compared for every packet.

What no process sent is no packet that ``compare`` sends: there the two differ, as docs/nftables.md says, and
``test_what_no_process_sent`` holds by how much.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from meshnet.apply.reconcile import fresh_steps
from meshnet.compile.pipeline import compile_spec
from meshnet.model.cidr import read_cidr
from meshnet.model.errors import SpecError
from meshnet.model.facts import Facts
from meshnet.model.host import Lookup, Route
from meshnet.model.program import Owner
from meshnet.model.rule import ToSocket
from meshnet.model.value import replace
from meshnet.parse import nft_ruleset, ruleset
from meshnet.render import nftables
from meshnet.render.nft_text import table_text
from meshnet.render.plan import render
from meshnet.simulate import matches
from meshnet.simulate.compare import Side, compare
from meshnet.simulate.packet import Packet
from meshnet.spec.check import problems
from meshnet.spec.load import load_text
from tests import conformance
from tests.netns.test_istio_iptables import cases as istio_cases
from tests.netns.test_istio_iptables import inputs
from tests.strategies import specs
from tests.unit.simulate.mutations import host, places, without

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meshnet.model.cidr import Family
    from meshnet.model.host import Host
    from meshnet.model.program import Program
    from meshnet.model.ruleset import RuleSet
    from meshnet.model.spec import Profile, Spec
    from meshnet.simulate.compare import Compared

FOLDER = conformance.ROOT / "tests" / "cases"
RESOLVERS = Facts(resolvers=(read_cidr("10.96.0.10/32"), read_cidr("fd00:96::a/128")))
PROFILES: tuple[Profile, ...] = ("meshnet", "istio")
SAMPLE = (
    *("no-inbound-mode", "outbound-ports-", "excluded-dns-port-meshnet-4", "loopback-included-meshnet-6"),
    *("guest-dns-istio-4", "dns-resolvers-istio-6", "redirect-excluded-interface-meshnet-4"),
    "tproxy-network-istio-6",
)
"""Cases of every kind; the long run has all of them, which together take minutes."""

ISTIO_SAMPLE = ("empty", "drop-invalid", "inbound-ports-tproxy", "ipv6-dns-uid-gid")


def on_iptables(program: Program, family: Family) -> RuleSet:
    steps = fresh_steps(render(program, sets=False))
    texts = [step.text for step in steps if (step.tool, step.family) == ("restore", family)]
    return ruleset.read("".join(texts), family)


def on_nftables(program: Program, family: Family) -> RuleSet:
    (found,) = (held for held in nft_ruleset.read(table_text(nftables.render(program, "pod"))) if held.family == family)
    return found


def around(program: Program) -> Host:
    """A pod with the policy routes that the program wants."""
    base = host()
    routes = tuple(Route(route.block, "lo", route.table, "local") for route in program.local_routes)
    lookups = tuple(Lookup(rule.family, 109, rule.table, rule.mark) for rule in program.policy_rules)
    return replace(base, routes=(*base.routes[:2], *routes), lookups=lookups)


def compared(program: Program, family: Family) -> Compared:
    there = around(program)
    return compare(Side(on_iptables(program, family), there), Side(on_nftables(program, family), there))


def told(found: Compared) -> str:
    """The plainest packet that the two treat differently, and the way that it takes through each."""
    one = found.difference
    if one is None:
        return ""
    paths = [[f"{h.table} {h.chain}:{h.number} {h.verdict}" for h in trace.hops] for trace in (one.one, one.other)]
    return f"{one.what}: {one.flow} {one.flow.state} {one.more} {paths}"


def document(name: str) -> Spec:
    path = FOLDER / name / "spec.yaml"
    return load_text(path.read_text(), name).spec


def own_cases() -> list[object]:
    made = []
    for path in sorted(FOLDER.iterdir()):
        for profile in PROFILES:
            for family in (4, 6):
                name = f"{path.name}-{profile}-{family}"
                marks = [] if name.startswith(SAMPLE) else [pytest.mark.long]
                made.append(pytest.param(path.name, profile, family, marks=marks, id=name))
    return made


@pytest.mark.parametrize(("name", "profile", "family"), own_cases())
def test_each_case(name: str, profile: Profile, family: Family) -> None:
    program = compile_spec(replace(document(name), profile=profile), RESOLVERS)
    assert family in program.families
    assert told(compared(program, family)) == ""


def istio_configurations() -> list[object]:
    made = []
    for case in istio_cases():
        for profile in PROFILES:
            marks = [] if profile == "istio" and case["name"] in ISTIO_SAMPLE else [pytest.mark.long]
            made.append(pytest.param(case, profile, marks=marks, id=f"{case['name']}-{profile}"))
    return made


@pytest.mark.conformance
@pytest.mark.parametrize(("case", "profile"), istio_configurations())
def test_each_configuration_of_istio(case: dict[str, object], profile: Profile) -> None:
    spec, facts = inputs(case["config"])  # type: ignore[arg-type]
    try:
        program = compile_spec(replace(spec, profile=profile), facts)
    except SpecError:
        assert profile == "meshnet" and spec.dns.capture != "off" and not facts.resolvers, "what it asks for is refused"
        return
    families = program.families if case["name"] != "tproxy" else program.families[1:]
    assert [told(compared(program, family)) for family in families] == [""] * len(families)


SOME = settings(max_examples=15, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
MOST_RULES = 60


@pytest.mark.long
@SOME
@given(specs(), st.sampled_from((4, 6)), st.sampled_from(PROFILES))
def test_any_spec(spec: Spec, family: Family, profile: Profile) -> None:
    wanted = replace(spec, profile=profile)
    if problems(wanted):
        return
    try:
        program = compile_spec(wanted, RESOLVERS)
    except SpecError:
        return
    if family in program.families and sum(1 for _ in program.rules()) <= MOST_RULES:
        assert told(compared(program, family)) == ""


@pytest.mark.parametrize(("name", "least"), [("redirect-inbound-ports", 8), ("redirect-own-pod-direct", 8)])
def test_a_rule_that_is_missing_is_found(name: str, least: int) -> None:
    """Against a comparison that finds everything equal."""
    program = compile_spec(document(name), RESOLVERS)
    there = around(program)
    whole, theirs = on_nftables(program, 4), on_iptables(program, 4)
    found = [told(compare(Side(theirs, there), Side(without(whole, *place), there))) for place in places(whole)]
    assert sum(bool(text) for text in found) >= least, found


def test_without_a_listener_nothing_slips_by() -> None:
    """iptables' TPROXY drops what finds nobody; nftables' goes on, to a rule that does."""
    program = compile_spec(document("tproxy-inbound-ports"), RESOLVERS)
    there = around(program)
    whole = on_nftables(program, 4)
    (place,) = (at for at in places(whole) if isinstance(_rule(whole, at).action, ToSocket))
    behind = (*place[:2], place[2] + 1)
    assert _rule(whole, behind).comment.endswith(".no-listener")
    found = compare(Side(on_iptables(program, 4), there), Side(without(whole, *behind), there)).difference
    assert found is not None and found.more == ("and nobody listens where TPROXY leads",)
    assert (found.one.disposition, found.other.disposition) == ("dropped", "direct")


def _rule(held: RuleSet, at: tuple[int, ...]):
    return held.tables[at[0]].chains[at[1]].rules[at[2]]


def test_what_no_process_sent() -> None:
    """``! --uid-owner`` holds for it and ``skuid !=`` doesn't: in profile istio, where such a rule asks for an
    interface as well, and nowhere else."""
    seen = []
    for path in sorted(FOLDER.iterdir()):
        for profile in PROFILES:
            program = compile_spec(replace(document(path.name), profile=profile), RESOLVERS)
            rules = {rule.id: rule for rule in (*program.rules(), *(entry.rule for entry in program.entries))}
            differing = set(_orphan_differences(program))
            for rule_id in differing:
                owners = [match for match in rules[rule_id].matches if isinstance(match, Owner)]
                assert profile == "istio" and len(rules[rule_id].matches) > 1, rule_id
                assert owners and all(match.negated for match in owners), rule_id
            seen += differing
    assert seen


def _orphan_differences(program: Program) -> Iterator[str]:
    """The rules that a packet without a sender fits on one backend alone, as far as their owners decide it."""
    held = {side.family: side for side in nft_ruleset.of_table(nftables.render(program, "pod"))}
    orphan = Packet(4, 6, 0, 0, 0, 0)
    fits: list[dict[str, bool]] = []
    for rules in (on_iptables(program, 4), held[4]):
        found: dict[str, bool] = {}
        for table in rules.tables:
            for chain in table.chains:
                for rule in chain.rules:
                    owners = [c for c in rule.conditions if type(c).__name__ in ("OwnerIs", "SenderIs")]
                    name = nftables.plain_id(rule.comment.removeprefix("meshnet:"))
                    if owners or name in found or rule.comment.endswith(nftables.NO_OWNER):
                        test = matches.test_of(owners, matches.Place(host(), 4, None, None))  # type: ignore[arg-type]
                        found[name] = found.get(name, False) or test is None or bool(test(orphan))
        fits.append(found)
    yield from (name for name in fits[0] if fits[0][name] != fits[1].get(name, fits[0][name]))
