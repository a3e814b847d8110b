"""The spec's meaning in sentences, flow by flow; and which field decided."""

from __future__ import annotations

from typing import Any

import pytest

from meshnet.compile.meaning import predict
from meshnet.model.cidr import read_address
from meshnet.model.flow import Flow
from meshnet.spec.load import load_text

LISTED = "outbound: {cidrs: [127.0.0.9/32]}"
USERS = "outbound: {excludeUsers: [{uids: [5-7], ports: [53], transport: tcp}]}"
NETWORK = "interfaces: {networks: [{interface: br0, cidrs: [172.17.0.0/16]}]}"
INSIDE = "interfaces: {networks: [{interface: br0, cidrs: [192.0.2.0/24]}]}\ndns: {capture: all}"
APP = {"uid": 0, "gid": 0}


def landed(text: str, flow: Flow) -> tuple[str, str]:
    wanted = load_text(f"apiVersion: meshnet/v1\nkind: Interception\n{text}", "test.yaml").spec
    found = predict(wanted, flow)
    return found.disposition, found.because


def arriving(port: int = 80, source: str = "192.0.2.1", interface: str = "eth0", transport: str = "tcp") -> Flow:
    family, number = read_address(source)
    pod = read_address("192.0.2.2" if family == 4 else "2001:db8::2")[1]
    return Flow("in", family, transport, number, pod, port, interface)


def leaving(to: str = "203.0.113.1", port: int = 80, source: str = "192.0.2.2", **more: Any) -> Flow:
    family, number = read_address(to)
    given = {"interface": "eth0", "transport": "tcp", **APP, **more}
    return Flow("out", family, given.pop("transport"), read_address(source)[1], number, port, **given)


@pytest.mark.parametrize(
    ("text", "flow", "expected"),
    [
        ("", arriving(), ("inbound-proxy", "inbound.ports")),
        ("", arriving(15020), ("direct", "inbound.excludePorts")),
        ("", arriving(15008), ("direct", "inbound.tunnelPort")),
        ("", arriving(transport="udp"), ("direct", "inbound.mode")),
        ("inbound: {ports: [81]}", arriving(), ("direct", "inbound.ports")),
        ("inbound: {mode: none}", arriving(), ("direct", "inbound.mode")),
        ("inbound: {excludeSources: [192.0.2.0/24]}", arriving(), ("direct", "inbound.excludeSources")),
        ("interfaces: {exclude: [eth+]}", arriving(), ("direct", "interfaces.exclude[0]")),
        ("interfaces: {guest: [tap0]}", arriving(interface="tap0"), ("outbound-proxy", "outbound.cidrs")),
        ("", leaving(), ("outbound-proxy", "outbound.cidrs")),
        ("outbound: {mode: none}", leaving(), ("direct", "outbound.mode")),
        ("outbound: {excludePorts: [80], ports: [80]}", leaving(), ("direct", "outbound.excludePorts")),
        ("outbound: {ports: [80], cidrs: []}", leaving(), ("outbound-proxy", "outbound.ports")),
        ("outbound: {excludeCidrs: [203.0.113.0/24]}", leaving(), ("direct", "outbound.excludeCidrs")),
        ("outbound: {excludeGroups: [5]}", leaving(gid=5), ("direct", "outbound.excludeGroups")),
        ("outbound: {groups: [5]}", leaving(), ("direct", "outbound.groups")),
        ("", leaving(uid=1337), ("direct", "sidecar.uids[0]")),
        ("", leaving(interface="lo", to="192.0.2.2"), ("direct", "outbound.loopbackCidr")),
        ("", leaving(interface="lo", to="192.0.2.2", uid=1337), ("inbound-proxy", "inbound.ports")),
        ("sidecar: {uids: [1, 2]}", leaving(interface="lo", to="192.0.2.2", uid=2), ("inbound-proxy", "inbound.ports")),
        ("", leaving(interface="lo", to="192.0.2.2", source="127.0.0.6", uid=1337), ("direct", "passthrough.ipv4")),
        ("", leaving(interface="lo", to="192.0.2.2", mark=0x539, uid=1337), ("direct", "inbound.originalSource")),
        ("dns: {capture: all}", leaving(port=53, transport="udp"), ("dns-proxy", "dns.capture")),
        ("dns: {capture: all}", leaving(port=53, transport="udp", uid=1337), ("direct", "sidecar.uids[0]")),
        ("inbound: {ownPod: false}", leaving(interface="lo", to="192.0.2.2", uid=1337), ("direct", "sidecar.uids[0]")),
        (USERS, leaving(uid=7, port=53), ("direct", "outbound.excludeUsers[0]")),
        (USERS, leaving(uid=7), ("outbound-proxy", "outbound.cidrs")),
        (USERS, leaving(uid=8, port=53), ("outbound-proxy", "outbound.cidrs")),
        (NETWORK, arriving(interface="br0"), ("outbound-proxy", "outbound.cidrs")),
        (NETWORK, arriving(interface="br1"), ("inbound-proxy", "inbound.ports")),
        (NETWORK, arriving(interface="br0", source="2001:db8::1"), ("inbound-proxy", "inbound.ports")),
        (INSIDE, arriving(interface="br0"), ("inbound-proxy", "inbound.ports")),
        (INSIDE, arriving(53, interface="br0"), ("inbound-proxy", "inbound.ports")),
        (INSIDE, arriving(53, interface="br0", transport="udp"), ("dns-proxy", "dns.capture")),
        (LISTED, leaving("127.0.0.9", interface="lo"), ("outbound-proxy", "outbound.cidrs")),
        (LISTED, leaving("127.0.0.1", interface="lo"), ("direct", "outbound.loopbackCidr")),
    ],
)  # fmt: skip
def test_a_flow(text: str, flow: Flow, expected: tuple[str, str]) -> None:
    assert landed(text, flow) == expected
