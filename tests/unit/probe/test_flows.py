"""Each entry of each list of a spec has a probe, and no two probes are one flow."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from meshnet.compile.meaning import predict
from meshnet.compile.resolve import resolve
from meshnet.model.cidr import read_cidr
from meshnet.model.facts import Facts
from meshnet.model.ports import PortRange
from meshnet.probe import flows
from meshnet.probe.flows import MOST_ENTRIES, ends, is_listed, plain_port, probes, sample
from tests.strategies import specs
from tests.unit.probe.scenes import RICH, scene, spec


def named(found: tuple[flows.Probe, ...], family: int) -> dict[str, str]:
    return {item.name: item.predicted.disposition for item in found if item.flow.family == family}


@pytest.mark.parametrize("family", [4, 6])
def test_every_entry_of_a_rich_spec_has_a_probe(family: int) -> None:
    found = named(probes(spec(RICH), scene("net5", "tap0")), family)
    blocks = (
        ("198.51.100.0/24", "10.96.5.0/24", "10.96.0.0/12")
        if family == 4
        else ("fd05::/64", "fd00:96::5:0/112", "fd00:96::/64")
    )
    expected = {
        "inbound: a port in no list": "direct",
        "inbound: listed port 80": "inbound-proxy",
        "inbound: listed port 9000": "inbound-proxy",
        "inbound: listed port 9100": "inbound-proxy",
        "inbound: excluded port 9050": "direct",
        "inbound: tunnel port 15008": "direct",
        f"inbound: excluded source {blocks[0]}": "direct",
        "inbound: excluded interface net5": "direct",
        "outbound: excluded interface net5": "direct",
        "guest tap0: to outside": "direct",
        "guest tap0: port 443": "outbound-proxy",
        f"guest tap0: CIDR {blocks[2]}": "outbound-proxy",
        "guest tap0: DNS over udp": "dns-proxy",
        "outbound: application to outside": "direct",
        "outbound: listed port 443": "outbound-proxy",
        "outbound: excluded port 9443": "direct",
        "outbound: excluded port 9500": "direct",
        "outbound: excluded port 9600": "direct",
        f"outbound: excluded CIDR {blocks[1]}": "direct",
        f"outbound: listed CIDR {blocks[2]}": "outbound-proxy",
        "outbound: excluded group 3000": "direct",
        "outbound: listed group 2000": "direct",
        "sidecar uid 1337: to its own pod": "inbound-proxy",
        "sidecar uid 1338: to its own pod": "inbound-proxy",
        "sidecar gid 1339: to its own pod": "inbound-proxy",
        "sidecar mark 0x53b: to its own pod": "inbound-proxy",
        "sidecar uid 1337: passthrough to the application": "direct",
        "sidecar uid 1337: to the application as the client": "direct",
        "application: to its own pod": "direct",
        "application: to loopback": "direct",
        "DNS over udp: application": "dns-proxy",
        "DNS over tcp: application": "dns-proxy",
        "DNS over udp: sidecar uid 1337": "direct",
        "DNS over udp: another resolver": "direct",
    }
    assert {name: found.get(name) for name in expected} == expected


def test_networks_and_users_have_probes() -> None:
    text = (
        'families: [ipv4, ipv6]\ninterfaces: {networks: [{interface: br+, cidrs: [172.17.0.0/16, "fd17::/64"]}]}\n'
        "outbound: {excludeUsers: [{uids: [106-108], ports: [443]}, {uids: [500]}]}\ndns: {capture: all}\n"
    )
    found = named(probes(spec(text), scene("br0")), 4)
    expected = {
        "guest br0: to outside": "outbound-proxy",
        "network br0: inside 172.17.0.0/16": "inbound-proxy",
        "network br0: DNS over udp inside 172.17.0.0/16": "dns-proxy",
        "network br0: DNS over tcp inside 172.17.0.0/16": "inbound-proxy",
        "outbound: excluded users 0, port 443": "direct",
        "outbound: excluded users 0, a port in no list": "outbound-proxy",
        "outbound: excluded users 1, port 80": "direct",
        "DNS over udp: excluded users 0": "dns-proxy",
        "DNS over udp: excluded users 1": "direct",
    }
    assert {name: found.get(name) for name in expected} == expected


def test_where_every_user_is_excluded_the_application_is_one_too() -> None:
    found = named(probes(spec("outbound: {excludeUsers: [{uids: [0-4294967294]}]}\n"), scene()), 4)
    assert found["outbound: application to outside"] == "direct"


def test_a_family_that_is_not_asked_for_has_no_probe() -> None:
    assert {item.flow.family for item in probes(spec(RICH), scene("net5", "tap0", families=(6,)))} == {6}


@settings(max_examples=60, deadline=None, database=None)
@given(specs())
def test_probes_of_any_spec(wanted) -> None:
    """Each flow once, so each has a source port of its own; predicted by the spec's meaning; by a lane of the scene."""
    ground = scene("net5", "tap0")
    settled, _ = resolve(wanted, Facts(resolvers=(read_cidr("192.0.2.53/32"), read_cidr("2001:db8::53/128"))))
    found = probes(settled, ground)
    assert len({item.flow for item in found}) == len(found) > 0
    for item in found:
        assert item.predicted == predict(settled, item.flow)
        assert 0 <= item.lane < len(ground.lanes)
        assert 1 <= item.flow.port <= 65535
        assert item.flow.way == "out" or item.flow.uid is None


def test_sampling_keeps_both_ends() -> None:
    assert sample(range(5)) == (0, 1, 2, 3, 4)
    taken = sample(range(10_000))
    assert len(taken) == MOST_ENTRIES and taken[0] == 0 and taken[-1] == 9999
    assert list(taken) == sorted(set(taken))


def test_ends_of_ranges_once_each() -> None:
    assert ends((PortRange(80, 80), PortRange(79, 81), PortRange(81, 90))) == (80, 79, 81, 90)


def test_the_plain_port_is_in_no_list() -> None:
    assert plain_port(spec()) == 80
    assert plain_port(spec('inbound: {ports: ["1-100"]}\noutbound: {excludePorts: [8080], ports: [9080]}')) == 7070


@pytest.mark.parametrize(
    ("patterns", "name", "listed"),
    [(["tap+"], "tap0", True), (["tap+"], "tap", True), (["tap+"], "eth0", False), (["eth0"], "eth01", False)],
)
def test_interface_patterns(patterns: list[str], name: str, listed: bool) -> None:
    assert is_listed(patterns, name) is listed
