from __future__ import annotations

from meshnet.model.marks import Mark
from meshnet.model.ports import PortRange
from meshnet.model.program import CtDirection, DestinationPorts, Jump, Protocol, Redirect, Tproxy
from tests.unit.compile.compiling import having, ids, program, rules
from tests.unit.compile.passes.compare import rule

REDIRECT = "inbound: {mode: redirect}\n"


def test_redirect_decides_in_nat():
    made = program(REDIRECT)
    names = ["in.exclude.tunnel", "in.exclude.ports", "in.redirect.capture"]
    assert ids(made, "nat", "MESHNET_INBOUND") == names
    assert rules(made, "nat", "MESHNET_INBOUND")[-1].target == Redirect(PortRange(15006, 15006))
    assert not having(made, "tproxy")
    assert not rules(made, "mangle", "MESHNET_PRE")


def test_tproxy_decides_in_mangle():
    made = program("")
    assert ids(made, "mangle", "MESHNET_INBOUND") == [
        "in.exclude.tunnel",
        "in.exclude.ports",
        "in.tproxy.established",
        "in.tproxy.mid-stream",
        "in.tproxy.capture",
    ]
    assert rules(made, "mangle", "MESHNET_INBOUND")[-1].target == Tproxy(15006, Mark(0x539, 0xFFF))
    assert ids(made, "mangle", "MESHNET_DIVERT") == ["in.tproxy.mark", "in.tproxy.accept"]
    assert not rules(made, "nat", "MESHNET_INBOUND")
    assert not rules(made, "nat", "MESHNET_PRE")


def test_only_listed_ports():
    found = rule("inbound: {mode: redirect, ports: [80, 9000-9100]}\n", "nat.in.redirect.capture")
    assert found.matches == (Protocol("tcp"), DestinationPorts((PortRange(80, 80), PortRange(9000, 9100))))


def test_a_range_of_listeners():
    body = "inbound: {mode: redirect, port: 15006-15007}\n"
    assert rule(body, "nat.in.redirect.capture").target == Redirect(PortRange(15006, 15007))


def test_nothing_excluded_is_no_rule():
    made = program("inbound: {tunnelPort: null, excludePorts: []}\n")
    assert not having(made, "in.exclude")


def test_every_own_pod_rule_comes_before_any_identity_s_return():
    """With two uids, a return for the first in between would let the second one's calls slip past the listener."""
    names = ids(program("sidecar: {uids: [1, 2], gids: [3]}\n" + REDIRECT), "nat", "MESHNET_OUT")
    own = [place for place, name in enumerate(names) if name.startswith("out.own-pod")]
    done = [place for place, name in enumerate(names) if name.startswith("out.sidecar")]
    assert len(own) == len(done) == 3
    assert max(own) < min(done)


def test_own_pod_calls_meet_the_inbound_exclusions():
    targets = {item.target for item in program(REDIRECT).rules() if "own-pod" in item.id}
    assert targets == {Jump("MESHNET_INBOUND")}


def test_only_the_sidecar_s_own_direction_is_marked():
    assert CtDirection("ORIGINAL") in rule("", "mangle.out.own-pod.enter").matches


def test_a_sidecar_that_dials_its_own_pod_is_left_alone():
    for mode in ("redirect", "tproxy"):
        made = program(f"inbound: {{mode: {mode}, ownPod: false}}\nsidecar: {{mark: 0x53b}}\n")
        assert not having(made, "own-pod")
        assert having(made, "sidecar")
