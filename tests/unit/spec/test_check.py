from __future__ import annotations

import pytest

from meshnet.model.cidr import read_cidr
from meshnet.model.ports import PortRange
from meshnet.model.spec import Dns, Inbound, Interfaces, Marks, Outbound, Routing, Sidecar, Spec
from meshnet.spec.check import conflicts, problems
from tests.unit.spec.writing import said, spec_of

BRIDGE = "{interface: br0, cidrs: [172.17.0.0/16]}"
NOBODY = "sidecar: {uids: [], gids: []}\n"


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (
            NOBODY,
            "3: sidecar: no uid, gid or mark, so the proxy's own traffic would be captured again "
            "(outbound.mode is redirect): at least one, such as uids: [1337]",
        ),
        (
            NOBODY + "outbound: {mode: none}\ndns: {capture: all}\n",
            "3: sidecar: no uid, gid or mark, so the proxy's own traffic would be captured again "
            "(dns.capture is all): at least one, such as uids: [1337]",
        ),
        (
            "inbound: {port: 15006-15007}\n",
            "3: inbound.port: a range with mode tproxy (15006-15007): one port, such as 15006, or mode: redirect",
        ),
        (
            "inbound: {port: 15006-15007, mode: none}\n",
            "3: inbound.port: a range with mode none (15006-15007): one port, such as 15006, or mode: redirect",
        ),
        (
            "marks:\n  inbound: 0x1539\n",
            "4: marks.inbound: bits outside marks.mask (0x1539): "
            "bits of 0xfff, or a mask that covers it, such as 0x1fff",
        ),
        (
            "sidecar: {mark: 0x1000}\n",
            "3: sidecar.mark: bits outside marks.mask (0x1000): "
            "bits of 0xfff, or a mask that covers it, such as 0x1fff",
        ),
        (
            "marks:\n  inbound: 1\n  outbound: 1\n",
            "5: marks.outbound: the same as marks.inbound under the mask (0x1): a mark of its own",
        ),
        (
            "sidecar: {mark: 0x539}\n",
            "3: sidecar.mark: the same as marks.inbound under the mask (0x539): a mark of its own",
        ),
        (
            "sidecar: {mark: 0x53a}\n",
            "3: sidecar.mark: the same as marks.outbound under the mask (0x53a): a mark of its own",
        ),
        (
            "outbound: {port: 15006}\n",
            "3: outbound.port: the port of inbound.port too (15006): a port of its own",
        ),
        (
            "inbound: {mode: redirect, port: 15000-15005}\n",
            "1: outbound.port: the port of inbound.port too (15001): a port of its own",
        ),
        (
            "inbound: {tunnelPort: 15006}\n",
            "3: inbound.tunnelPort: the port of inbound.port too (15006): a port of its own",
        ),
        (
            "dns: {capture: all, port: 15001}\n",
            "3: dns.port: the port of outbound.port too (15001): a port of its own",
        ),
        (
            "interfaces:\n  exclude: [net1]\n  guest: [tap0, net1]\n",
            "5: interfaces.guest[1]: excluded by interfaces.exclude too (net1): "
            "one of the two; an excluded interface is left alone",
        ),
        (
            "interfaces: {exclude: [net+], guest: [net1]}\n",
            "3: interfaces.guest[0]: excluded by interfaces.exclude too (net+): "
            "one of the two; an excluded interface is left alone",
        ),
        (
            "outbound: {cidrs: [127.0.0.1]}\n",
            "3: outbound.cidrs[0]: inside loopbackCidr 127.0.0.1/32, which stays direct (127.0.0.1/32): "
            "a narrower loopbackCidr, or no such entry",
        ),
        (
            'outbound: {cidrs: ["::1"]}\n',
            "3: outbound.cidrs[0]: the IPv6 loopback address, which stays direct (::1/128): no such entry",
        ),
        (
            "outbound:\n  excludeCidrs: [10.0.0.0/8]\n  cidrs:\n    - 11.0.0.0/8\n    - 10.0.0.0/8\n",
            "7: outbound.cidrs[1]: in excludeCidrs too, where exclusion wins (10.0.0.0/8): one of the two",
        ),
        (
            "families: [ipv4]\noutbound:\n  excludeCidrs:\n    - 10.0.0.0/8\n    - 2001:db8::/32\n",
            "7: outbound.excludeCidrs[1]: an IPv6 entry, and families leaves IPv6 out (2001:db8::/32): "
            "no such entry, or ipv6 in families",
        ),
        (
            "families: [ipv6]\ndns: {resolvers: [10.0.0.10]}\n",
            "4: dns.resolvers[0]: an IPv4 entry, and families leaves IPv4 out (10.0.0.10): "
            "no such entry, or ipv4 in families",
        ),
        (
            f"families: [ipv6]\ninterfaces:\n  networks:\n    - {BRIDGE}\n",
            "6: interfaces.networks[0].cidrs[0]: an IPv4 entry, and families leaves IPv4 out (172.17.0.0/16): "
            "no such entry, or ipv4 in families",
        ),
        (
            f"interfaces: {{exclude: [br+], networks: [{BRIDGE}]}}\n",
            "3: interfaces.networks[0].interface: excluded by interfaces.exclude too (br+): "
            "one of the two; an excluded interface is left alone",
        ),
        (
            f"interfaces: {{guest: [br0], networks: [{BRIDGE}]}}\n",
            "3: interfaces.networks[0].interface: an interface that interfaces.guest is about too (br0): "
            "one entry for it",
        ),
        (
            f"interfaces: {{networks: [{BRIDGE}, {{interface: br+, cidrs: [10.0.0.0/8]}}]}}\n",
            "3: interfaces.networks[1].interface: an interface that interfaces.networks is about too (br0): "
            "one entry for it",
        ),
        (
            "interfaces: {networks: [{interface: br0, cidrs: [10.0.0.0/9, 10.128.0.0/9]}]}\n",
            "3: interfaces.networks[0].cidrs[1]: a second IPv4 block, beside 10.0.0.0/9 (10.128.0.0/9): "
            "one of each family, such as a block that holds both",
        ),
        (
            "interfaces: {networks: [{interface: br0, cidrs: ['::/0']}]}\n",
            "3: interfaces.networks[0].cidrs[0]: every address, so that nothing goes beyond it (::/0): "
            "the block behind the interface",
        ),
        (
            "profile: istio\ninbound: {ownPod: false, mode: tproxy}\n",
            "4: inbound.ownPod: nothing that profile istio has rules for: it takes the sidecar's calls to its own pod "
            "to the listener: no such entry, or profile: meshnet",
        ),
        (
            "profile: istio\noutbound: {excludeUsers: [{uids: [5]}]}\n",
            "4: outbound.excludeUsers: nothing that profile istio has rules for: it asks for no user but the "
            "sidecar's: no such entry, or profile: meshnet",
        ),
        (
            f"profile: istio\ninterfaces: {{networks: [{BRIDGE}]}}\n",
            "4: interfaces.networks: nothing that profile istio has rules for: it knows interfaces without a network "
            "of their own: no such entry, or profile: meshnet",
        ),
    ],
)
def test_fields_that_do_not_go_together(body: str, problem: str) -> None:
    assert said(body) == [problem]


@pytest.mark.parametrize(
    "body",
    [
        NOBODY + "outbound: {mode: none}\n",
        "sidecar: {uids: [], gids: [], mark: 0x100}\n",
        "inbound: {mode: none}\noutbound: {port: 15006}\n",
        "inbound: {ports: []}\noutbound: {port: 15008}\n",
        "outbound: {mode: none}\ndns: {capture: all, port: 15001}\n",
        "outbound: {cidrs: [], port: 15006}\n",
        "dns: {port: 15001}\n",
        "interfaces: {exclude: [tap0], guest: [tap+]}\n",
        "outbound: {cidrs: [127.0.0.0/8, 0.0.0.0/0]}\n",
        "outbound: {cidrs: [10.1.0.0/16], excludeCidrs: [10.0.0.0/8]}\n",
        "families: [ipv6]\n",
        f"interfaces: {{guest: [br1], networks: [{BRIDGE}, {{interface: br2, cidrs: [172.17.0.0/16, 'fd00::/8']}}]}}\n",
    ],
)
def test_fields_that_do_go_together(body: str) -> None:
    assert conflicts(spec_of(body)) == []


def test_rules_are_asked_beside_other_problems() -> None:
    assert len(said("name: A\nmarks: {inbound: 1, outbound: 1}\n")) == 2


@pytest.mark.parametrize(
    "body",
    [
        "marks: {inbound: 0x1539, mask: nonsense}\n",
        "sidecar: {uids: [envoy], gids: []}\n",
        "sidecar: {uids: [], gids: [], mark: x}\n",
        "inbound: {mode: redirct, port: 15006-15007}\n",
        "families: [ipv4, ipv5]\noutbound: {excludeCidrs: ['2001:db8::/32']}\n",
        "outbound: {cidrs: [127.0.0.2, 1.2.3], loopbackCidr: 127.0.0.0/8}\n",
        "outbound: {cidrs: [127.0.0.2], loopbackCidr: 127.0.0.2/8}\n",
        "marks: [1]\nsidecar: {mark: 0x539}\n",
        "interfaces: {exclude: [br+], networks: [{interface: br0, cidrs: [10.0.0.1/8]}]}\n",
    ],
)
def test_no_rule_judges_a_field_that_is_wrong_already(body: str) -> None:
    assert len(said(body)) == 1


def test_a_wrong_field_hides_no_rule_that_it_does_not_touch() -> None:
    assert len(said(NOBODY + "dns: {capture: on}\n")) == 2


def test_a_spec_built_by_hand_is_judged_in_full() -> None:
    assert problems(Spec()) == []
    spec = Spec(
        name="No name",
        sidecar=Sidecar((-1,), (4294967295,)),
        inbound=Inbound(mode="tproxi", port=PortRange(1, 2)),  # type: ignore[arg-type]
        outbound=Outbound(port=70000, exclude_cidrs=(read_cidr("10.0.0.0/8"),) * 2),
        dns=Dns("all", 15006),
        interfaces=Interfaces(("a/b",), ("lo",)),
        marks=Marks(0, 1, 1),
        routing=Routing(254),
    )
    assert {path for path, _, _ in problems(spec)} == {
        "name", "sidecar.uids[0]", "sidecar.gids[0]", "inbound.mode", "outbound.port", "outbound.excludeCidrs[1]",
        "interfaces.exclude[0]", "interfaces.guest[0]", "marks.inbound", "routing.table",
    }  # fmt: skip


def test_rules_between_fields_of_a_spec_built_by_hand() -> None:
    (problem,) = problems(Spec(sidecar=Sidecar((), ())))
    assert problem[0] == "sidecar"
    assert problem[2] == "at least one, such as uids: [1337]"
