from __future__ import annotations

from typing import Any

import pytest
import yaml

from meshnet.model.errors import SpecError
from meshnet.model.ports import PortRange
from meshnet.model.spec import ALL, IdRange, Spec, UserExclusion
from meshnet.spec.check import problems
from meshnet.spec.dialects.kuma import ASIDE, KNOWN, spec_of
from meshnet.spec.dialects.plain import Translated

DEFAULTS = """\
kumaDPUser: "5678"
ipFamilyMode: dualstack
redirect:
  inbound: {enabled: true, port: 15006, includePorts: [], excludePorts: [], excludePortsForIPs: [],
    excludePortsForUIDs: [], insertRedirectInsteadOfAppend: false}
  outbound: {enabled: true, port: 15001, includePorts: [], excludePorts: [], excludePortsForIPs: [],
    excludePortsForUIDs: [], insertRedirectInsteadOfAppend: false}
  dns: {enabled: true, port: 15053, captureAll: true, skipConntrackZoneSplit: false, resolvConfigPath: /etc/resolv.conf}
  vnet: {networks: []}
ebpf: {enabled: false, bpffsPath: /run/kuma/bpf, cgroupPath: /sys/fs/cgroup, programsSourcePath: /tmp/kuma-ebpf}
retry: {maxRetries: 4, sleepBetweenRetries: 2s}
iptablesExecutables: {iptables: "", iptables-save: ""}
log: {enabled: false, level: 7}
comments: {disabled: false}
wait: 5
waitInterval: 0
dropInvalidPackets: false
storeFirewalld: false
verbose: false
"""


def translated(text: str) -> Translated:
    """Read with all words as text, and typed as JSON has them: both mean the same."""
    plain = spec_of(yaml.load(text, Loader=yaml.BaseLoader))
    assert spec_of(yaml.safe_load(text)) == plain
    assert problems(plain.spec) == []
    return plain


def read(text: str) -> Spec:
    return translated(text).spec


def said(document: Any) -> list[str]:
    given = yaml.load(document, Loader=yaml.BaseLoader) if isinstance(document, str) else document
    with pytest.raises(SpecError) as caught:
        spec_of(given)
    return caught.value.lines()


def outbound(text: str) -> Any:
    return read(f"redirect: {{outbound: {{{text}}}}}").outbound


def ports(*words: int | tuple[int, int]) -> tuple[PortRange, ...]:
    return tuple(PortRange(*word) if isinstance(word, tuple) else PortRange(word, word) for word in words)


def test_nothing_at_all_is_kuma_s_defaults() -> None:
    spec = read("{}")
    assert (spec.name, spec.profile, spec.families, spec.sidecar.uids) == ("kuma", "meshnet", "auto", (5678,))
    assert spec.sidecar.gids == ()
    assert (spec.inbound.mode, spec.inbound.ports, spec.inbound.exclude_ports) == ("redirect", "*", ())
    assert (spec.inbound.tunnel_port, spec.inbound.original_source, spec.inbound.own_pod) == (None, False, True)
    assert (spec.outbound.mode, spec.outbound.cidrs, spec.dns.capture) == ("redirect", "*", "off")


def test_a_configuration_with_every_field() -> None:
    found = translated(DEFAULTS)
    assert found.spec.dns.capture == "all"
    assert "verbose" not in found.aside and "retry.maxRetries" in found.aside
    assert set(found.aside) <= set(ASIDE)


def test_inbound() -> None:
    text = (
        "redirect: {inbound: {port: 1, includePorts: [80, 443], excludePorts: [443], excludePortsForIPs: [10.0.0.1]}}"
    )
    found = read(text).inbound
    assert (found.port, found.ports, found.exclude_ports) == (PortRange(1, 1), ports(80, 443), ())
    assert [str(block) for block in found.exclude_sources] == ["10.0.0.1/32"]
    assert read("redirect: {inbound: {enabled: false}}").inbound.mode == "none"
    assert read('redirect: {inbound: {excludePorts: "22, 80"}}').inbound.exclude_ports == ports(22, 80)


def test_outbound() -> None:
    found = outbound('excludePorts: [22], excludePortsForIPs: ["10.0.0.1,172.16.0.1/12", "fe80::/10"], port: 5')
    assert (found.port, found.cidrs, found.exclude_ports) == (5, "*", ports(22))
    assert [str(block) for block in found.exclude_cidrs] == ["10.0.0.1/32", "172.16.0.0/12", "fe80::/10"]
    found = outbound("includePorts: [80], excludePorts: [80]")
    assert (found.cidrs, found.ports, found.exclude_ports) == ((), ports(80), ())
    assert outbound("enabled: false").mode == "none"


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        ("tcp:53,3000-5000:106-108", UserExclusion((IdRange(106, 108),), ports(53, (3000, 5000)), "tcp")),
        ("udp:*:1000", UserExclusion((IdRange(1000, 1000),), ALL, "udp")),
        ("*:22:1", UserExclusion((IdRange(1, 1),), ports(22), "all")),
        ("tcp,udp::2", UserExclusion((IdRange(2, 2),), ALL, "all")),
        ("22:1000-1001", UserExclusion((IdRange(1000, 1001),), ports(22), "all")),
        ("1003", UserExclusion((IdRange(1003, 1003),), ALL, "all")),
    ],
)
def test_users_and_their_ports(word: str, expected: UserExclusion) -> None:
    assert outbound(f'excludePortsForUIDs: ["{word}"]').exclude_users == (expected,)


def test_dns() -> None:
    def captured(text: str) -> str:
        return read(f"redirect: {{dns: {{{text}}}}}").dns.capture

    assert captured("captureAll: true") == "off"
    assert captured("enabled: true, captureAll: true") == "all"
    assert captured("enabled: true") == "resolvers"
    assert captured("enabled: true, captureAll: true, resolvConfigPath: /else") == "all"
    assert read("redirect: {dns: {port: 53}}").dns.port == 53


def test_networks() -> None:
    words = '"docker0:172.17.0.0/16", "docker0:fd00::1/64", "br+:172.18.0.0/16"'
    found = read(f"redirect: {{vnet: {{networks: [{words}]}}, dns: {{enabled: true, captureAll: true}}}}").interfaces
    assert [(network.interface, [str(block) for block in network.cidrs]) for network in found.networks] == [
        ("docker0", ["172.17.0.0/16", "fd00::/64"]),
        ("br+", ["172.18.0.0/16"]),
    ]


def test_the_rest() -> None:
    spec = read("{ipFamilyMode: ipv4, kumaDPUser: 5, dropInvalidPackets: true}")
    assert (spec.families, spec.sidecar.uids, spec.drop_invalid) == ((4,), (5,), True)


def test_what_is_wrong_comes_at_once() -> None:
    lines = said(
        """\
kumaDPUser: envoy
ipFamilyMode: ipv6
redirect:
  inbound: {enabled: maybe, excludePortsForUIDs: ["5"], excludePorts: [22-23], ports: 1}
  outbound: {excludePortsForUIDs: ["icmp:1:2", "1:2:3:4", "tcp:80:*", "80:1,2", "x"], excludePortsForIPs: [10.0.0]}
  dns: {enabled: true, resolvConfigPath: /run/resolv.conf, skipConntrackZoneSplit: true}
  vnet: {networks: [docker0, "lo:10.0.0.0/8", "br0:10.0.0.0/8"]}
ebpf: {enabled: true}
log: {enabled: true}
storeFirewalld: true
redirekt: {}
wait: [5]
"""
    )
    starts = (
        "kumaDPUser: a name, and names are not looked up (envoy)",
        "ipFamilyMode: unknown mode (ipv6): dualstack or ipv4",
        "redirect.inbound.enabled: not true or false (maybe)",
        "redirect.inbound.excludePortsForUIDs: what enters the pod has no user there",
        "redirect.inbound.excludePorts[0]: not a port number (22-23)",
        "redirect.inbound.ports: nothing that Kuma knows: port",
        "redirect.outbound.excludePortsForUIDs[0]: unknown protocol (icmp)",
        "redirect.outbound.excludePortsForUIDs[1]: more than protocols, ports and users",
        "redirect.outbound.excludePortsForUIDs[2]: no user and no range of users",
        "redirect.outbound.excludePortsForUIDs[3]: no user and no range of users",
        "redirect.outbound.excludePortsForUIDs[4]: not an id (x)",
        "redirect.outbound.excludePortsForIPs[0]: not an IPv4 address (10.0.0)",
        "redirect.dns.resolvConfigPath: another file with resolvers (/run/resolv.conf)",
        "redirect.dns.skipConntrackZoneSplit: nothing that a spec can say",
        "redirect.vnet.networks[0]: no network (docker0)",
        "redirect.vnet.networks[1]: the loopback interface (lo)",
        "redirect.vnet.networks: every query of a network is captured",
        "ebpf.enabled: nothing that a spec can say",
        "log.enabled: nothing that a spec can say",
        "storeFirewalld: nothing that a spec can say",
        "redirekt: nothing that Kuma knows: redirect",
        "wait: a list of 1 in place of a word",
    )
    for start in starts:
        assert any(line.startswith(start) for line in lines), (start, lines)
    assert len(lines) == len(starts), lines


@pytest.mark.parametrize(
    ("document", "line"),
    [
        ([], "a list of 0 in place of a configuration"),
        ("kind: ConfigMap", "kind: a Kubernetes object (ConfigMap): its text under data, config.yaml"),
        ("redirect: [1]", "redirect: no keys and values (a list of 1)"),
        ("redirect: {outbound: {excludePortsForIPs: 10.0.0.1}}", "redirect.outbound.excludePortsForIPs: no list"),
        ("redirect: {outbound: {excludePorts: [[1]]}}", "redirect.outbound.excludePorts[0]: no word (a list of 1)"),
        ("redirect: {outbound: {port: 15006}}", "redirect.outbound.port: the port of inbound.port too (15006)"),
        (
            'redirect: {outbound: {enabled: false}, vnet: {networks: ["br0:10.0.0.0/8"]}}',
            "redirect.vnet.networks: a network's traffic is captured though outbound traffic isn't",
        ),
        (
            'redirect: {vnet: {networks: ["br0:10.0.0.0/8", "br0:11.0.0.0/8"]}}',
            "redirect.vnet.networks: a second IPv4 block",
        ),
        (
            "redirect: {dns: {enabled: true}, outbound: {excludePorts: [53]}}",
            "redirect.outbound.excludePorts: port 53 over TCP alone",
        ),
    ],
)
def test_a_document_that_does_not_fit(document: Any, line: str) -> None:
    lines = said(document)
    assert len(lines) == 1 and lines[0].startswith(line), lines


def test_no_word_is_known_twice() -> None:
    assert len(KNOWN) == len(set(KNOWN))
