from __future__ import annotations

from meshnet.model.program import Owner
from tests.unit.compile.compiling import having, ids, program
from tests.unit.compile.passes.compare import added, rule

REDIRECT = "inbound: {mode: redirect}\n"
ALL = "outbound: {excludePorts: [3306], excludeCidrs: [10.0.0.0/8], excludeGroups: [5]}\n"
NAT = ["nat.out.exclude.ports", "nat.out.exclude.cidrs", "nat.out.exclude.groups"]


def test_redirect_needs_them_in_nat_alone():
    assert added(REDIRECT, REDIRECT + ALL) == NAT


def test_tproxy_asks_them_for_the_sidecar_s_calls_to_its_own_pod_too():
    own_pod = ["mangle.self.exclude.ports", "mangle.self.exclude.cidrs", "mangle.self.exclude.groups"]
    assert added("", ALL) == [*own_pod, *NAT]


def test_excluded_queries_stay_in_the_default_zone():
    """Ports need no rule here: an excluded port 53 leaves no DNS capture to be excluded from."""
    dns = REDIRECT + "dns: {capture: all}\n"
    assert added(dns, dns + ALL) == ["raw.out.exclude.cidrs", "raw.out.exclude.groups", *NAT]


def test_what_a_guest_sends_has_no_owner():
    made = program(ALL + "interfaces: {guest: [tap0]}\n")
    assert ids(made, "nat", "MESHNET_GUEST")[:2] == ["guest.exclude.ports", "guest.exclude.cidrs"]
    assert not having(made, "guest.exclude.groups")


def test_all_groups_are_one_rule():
    found = rule("outbound: {excludeGroups: [5, 6]}\n", "nat.out.exclude.groups")
    assert found.matches == (Owner("gid", (5, 6)),)
