from __future__ import annotations

from meshnet.model.ports import PortRange
from meshnet.model.program import DestinationPorts, Owner, OwnerWithin, Protocol
from meshnet.model.spec import IdRange
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


USERS = (
    "outbound: {excludeUsers: [{uids: [5]}, {uids: [6-7], ports: [80], transport: tcp}, {uids: [8], ports: [53]}]}\n"
)
USERS_IN_NAT = [f"nat.out.exclude.users-{step}" for step in ("0", "1-tcp", "2-udp", "2-tcp")]


def test_a_user_s_exclusion_asks_for_no_more_than_it_says():
    assert added(REDIRECT, REDIRECT + USERS) == USERS_IN_NAT
    assert rule(USERS, "nat.out.exclude.users-0").matches == (OwnerWithin((IdRange(5, 5),)),)
    found = rule(USERS, "nat.out.exclude.users-1-tcp")
    assert found.matches == (Protocol("tcp"), DestinationPorts((PortRange(80, 80),)), OwnerWithin((IdRange(6, 7),)))
    assert found.origin == "outbound.excludeUsers[1]"


def test_a_sidecar_among_the_excluded_users_is_not_taken_to_its_own_pod_under_tproxy_either():
    udp = "outbound: {excludeUsers: [{uids: [5]}, {uids: [6], transport: udp}]}\n"
    assert [name for name in added("", udp) if name.startswith("mangle")] == ["mangle.self.exclude.users-0"]


def test_only_users_whose_queries_are_meant_are_asked_for_in_raw():
    dns = REDIRECT + "dns: {capture: all}\n"
    raw = [f"raw.out.exclude.users-{step}" for step in ("0", "2-udp", "2-tcp")]
    assert added(dns, dns + USERS) == [*raw, *USERS_IN_NAT]
