from __future__ import annotations

import pytest
from hypothesis import given, settings

from meshnet.compile.pipeline import compile_spec
from meshnet.model.cidr import read_cidr
from meshnet.model.facts import Facts
from meshnet.model.program import Jump
from meshnet.spec import fields
from tests.strategies import specs
from tests.unit.compile.compiling import having, ids, program

FACTS = Facts(resolvers=(read_cidr("10.96.0.10"),))
RICH = """
  sidecar: {uids: [1337, 1338], gids: [1337], mark: 0x77}
  inbound: {mode: MODE}
  outbound:
    excludePorts: [3306]
    excludeCidrs: [10.0.0.0/8]
    excludeGroups: [5]
    groups: [7, 8]
    ports: [8443]
    cidrs: [127.1.0.0/16, 192.0.2.0/24]
  dns: {capture: all}
  interfaces: {exclude: [eth9], guest: [tap0]}
  dropInvalid: true
"""
SIDECAR = ["mark", "uid-1337", "uid-1338", "gid-1337"]


def known_paths(of: tuple[fields.Field, ...] = fields.FIELDS, above: str = "") -> set[str]:
    found = set()
    for field in of:
        found.add(above + field.key)
        if isinstance(field.shape, fields.Section):
            found |= known_paths(field.shape.fields, f"{above}{field.key}.")
    return found


def test_order_of_meaning_in_nat_output_with_redirect():
    made = program(RICH.replace("MODE", "redirect"))
    assert ids(made, "nat", "MESHNET_OUT") == [
        "out.guard.eth9",
        "out.guard.mid-stream",
        "out.passthrough.bypass",
        "out.original-source.done",
        "out.exclude.ports",
        "out.exclude.cidrs",
        "out.exclude.groups",
        # for each identity, before the first identity's return
        *(f"out.own-pod.{who}" for who in SIDECAR),
        *(f"out.sidecar.{who}" for who in SIDECAR),
        "out.groups.others",
        "out.dns.udp",
        "out.dns.tcp",
        "out.loopback.application",
        "out.loopback.capture",
        "out.loopback.direct",
        "out.capture.ports",
        "out.capture.cidrs",
    ]


def test_order_of_meaning_in_mangle_with_tproxy():
    made = program(RICH.replace("MODE", "tproxy"))
    assert ids(made, "mangle", "MESHNET_OUT") == [
        "out.guard.eth9",
        "out.passthrough.bypass",
        "out.original-source.save",
        "out.original-source.done",
        "out.original-source.restore",
        "out.own-pod.enter",
    ]
    excluded = ["self.exclude.ports", "self.exclude.cidrs", "self.exclude.groups"]
    assert ids(made, "mangle", "MESHNET_SELF") == [*excluded, *(f"self.own-pod.{who}" for who in SIDECAR)]
    assert ids(made, "mangle", "MESHNET_PRE") == [
        "in.guard.eth9",
        "in.guard.invalid",
        "in.guest.tap0-done",
        "in.tproxy.loopback",
        "in.tproxy.reply",
        "in.tproxy.translated",
        "in.tproxy.enter",
    ]


def test_order_of_meaning_in_raw():
    made = program(RICH.replace("MODE", "redirect"))
    assert ids(made, "raw", "MESHNET_OUT") == [
        "out.guard.eth9",
        # the proxy's answers are captured queries' business before its identity takes it out
        "out.dns.answer-udp",
        "out.dns.answer-tcp",
        *(f"out.dns.{who}" for who in SIDECAR),
        "out.exclude.cidrs",
        "out.exclude.groups",
        "out.groups.others",
        "out.dns.direct-udp",
        "out.dns.direct-tcp",
        "out.dns.query-udp",
        "out.dns.query-tcp",
    ]


@settings(max_examples=60, deadline=None)
@given(specs())
def test_every_rule_can_be_led_back(spec):
    made = compile_spec(spec, FACTS)
    known = known_paths()
    chains = {(chain.table, chain.name) for chain in made.chains}
    for chain in made.chains:
        assert chain.rules
        for rule in chain.rules:
            assert rule.id.startswith(f"{chain.table}.")
            assert rule.origin.partition("[")[0] in known
            assert rule.family is None or rule.family in made.families
            if isinstance(rule.target, Jump):
                assert (chain.table, rule.target.chain) in chains
    assert {(entry.table, entry.rule.target.chain) for entry in made.entries} <= chains


@settings(max_examples=40, deadline=None)
@given(specs())
def test_the_same_spec_gives_the_same_program(spec):
    assert compile_spec(spec, FACTS) == compile_spec(spec, FACTS)


@pytest.mark.parametrize("mode", ["redirect", "tproxy"])
def test_a_block_of_each_family_gives_a_rule_of_each_family(mode):
    made = program(f"  inbound: {{mode: {mode}}}\n  outbound: {{excludeCidrs: [10.0.0.0/8, '2001:db8::/32']}}\n")
    excluded = [rule for rule in made.rules() if rule.id == "nat.out.exclude.cidrs"]
    assert [rule.family for rule in excluded] == [4, 6]


def test_without_ipv6_no_rule_is_for_it():
    made = program("outbound: {excludeCidrs: ['2001:db8::/32']}\n", Facts(families=(4,)))
    assert made.families == (4,)
    assert not [rule for rule in made.rules() if rule.family == 6]
    assert not having(made, "exclude.cidrs")
    assert not made.loopback_addresses


@pytest.mark.parametrize(
    "inbound",
    ["mode: none", "mode: redirect, ports: []", "mode: tproxy, ports: []"],
    ids=["none", "redirect", "tproxy"],
)
def test_nothing_inbound(inbound):
    made = program(f"  inbound: {{{inbound}}}\n")
    assert {entry.hook for entry in made.entries} == {"OUTPUT"}
    assert {chain.table for chain in made.chains} == {"nat"}
    assert not made.policy_rules
    assert not made.local_routes
    assert not made.loopback_addresses
    assert not having(made, "own-pod.uid")


def test_nothing_wanted_is_nothing_captured():
    made = program(
        "  inbound: {mode: none}\n  outbound: {mode: none}\n  interfaces: {exclude: [eth9], guest: [tap0]}\n"
    )
    assert [rule.id for rule in made.rules()] == ["nat.out.translation.keep"]
    assert [entry.rule.id for entry in made.entries] == ["nat.out.entry"]
