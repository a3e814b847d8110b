from __future__ import annotations

from meshnet.model.cidr import read_cidr
from meshnet.model.facts import Facts
from meshnet.model.ports import PortRange
from meshnet.model.program import Destination, Redirect, Zone
from tests.unit.compile.compiling import having, program
from tests.unit.compile.passes.compare import rule

ALL = "dns: {capture: all}\n"
LISTED = "dns: {capture: resolvers, resolvers: [10.96.0.10, 127.0.0.53]}\n"


def test_without_capture_there_is_no_zone():
    made = program("")
    assert not having(made, "dns")
    assert "raw" not in {chain.table for chain in made.chains}


def test_an_excluded_port_53_wins():
    assert not having(program(ALL + "outbound: {excludePorts: [53]}\n"), "dns")


def test_both_transports_are_captured_and_live_in_a_zone_of_their_own():
    for transport in ("udp", "tcp"):
        assert rule(ALL, f"nat.out.dns.{transport}").target == Redirect(PortRange(15053, 15053))
        assert rule(ALL, f"raw.out.dns.query-{transport}").target == Zone(2)
        assert rule(ALL, f"raw.out.dns.answer-{transport}").target == Zone(2)


def test_only_the_resolvers_and_only_their_family():
    found = rule(LISTED, "nat.out.dns.udp")
    assert found.family == 4
    assert found.matches[0] == Destination((read_cidr("10.96.0.10"), read_cidr("127.0.0.53")))


def test_resolvers_of_the_namespace():
    facts = Facts(resolvers=(read_cidr("2001:db8::a"),))
    assert rule("dns: {capture: resolvers}\n", "nat.out.dns.udp", facts).family == 6


def test_no_guest_reaches_a_resolver_on_the_pod_s_loopback():
    found = rule(LISTED + "interfaces: {guest: [tap0]}\n", "nat.guest.dns.udp")
    assert found.matches[0] == Destination((read_cidr("10.96.0.10"),))
