from __future__ import annotations

from meshnet.model.program import Owner
from tests.unit.compile.compiling import having, program
from tests.unit.compile.passes.compare import added, rule

REDIRECT = "inbound: {mode: redirect}\n"


def test_each_identity_has_its_return_and_its_line():
    body = "sidecar: {uids: [5, 6], gids: []}\n" + REDIRECT
    assert having(program(body), "out.sidecar") == ["nat.out.sidecar.uid-5", "nat.out.sidecar.uid-6"]
    assert rule(body, "nat.out.sidecar.uid-6").origin == "sidecar.uids[1]"


def test_a_sidecar_known_by_mark_is_known_after_its_mark_was_taken():
    """Under TPROXY the call to the own pod bears the outbound mark by the time nat sees it."""
    marked = "sidecar: {uids: [], gids: [], mark: 0x77}\n"
    assert having(program(marked), "out.sidecar") == ["nat.out.sidecar.mark", "nat.out.sidecar.own-pod"]
    assert having(program(marked + REDIRECT), "out.sidecar") == ["nat.out.sidecar.mark"]
    assert not having(program(""), "out.sidecar.own-pod")


def test_everybody_outside_the_listed_groups_is_left_alone():
    groups = "outbound: {groups: [7, 8]}\n"
    assert added("", groups) == ["nat.out.groups.others"]
    assert rule(groups, "nat.out.groups.others").matches == (Owner("gid", (7, 8), negated=True),)


def test_their_queries_too():
    dns = "dns: {capture: all}\n"
    found = added(dns, dns + "outbound: {groups: [7]}\n")
    assert found == ["raw.out.groups.others", "nat.out.groups.others"]
