from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meshnet.compile.meaning import predict
from meshnet.model.cidr import read_address
from meshnet.model.flow import Flow
from tests.strategies import specs
from tests.unit.compile.test_pipeline import known_paths
from tests.unit.spec.writing import spec_of


def flow(
    way="out", to="192.0.2.1", port=80, source="10.0.0.5", interface="eth0", uid=0, gid=0, mark=0, transport="tcp"
):
    family, destination = read_address(to)
    who = (None, None) if way == "in" else (uid, gid)
    return Flow(way, family, transport, read_address(source)[1], destination, port, interface, *who, mark)


LO = {"to": "10.0.0.5", "interface": "lo"}
DNS = "dns: {capture: all}\n"


@pytest.mark.parametrize(
    ("body", "packet", "ends", "because"),
    [
        ("", flow(), "outbound-proxy", "outbound.cidrs"),
        ("", flow(transport="udp"), "direct", "outbound.mode"),
        ("", flow(uid=1337), "direct", "sidecar.uids[0]"),
        ("", flow("in"), "inbound-proxy", "inbound.ports"),
        ("", flow("in", port=15008), "direct", "inbound.tunnelPort"),
        ("", flow("in", port=15020), "direct", "inbound.excludePorts"),
        ("inbound: {excludeSources: [10.0.0.0/8]}\n", flow("in"), "direct", "inbound.excludeSources"),
        ("inbound: {ports: []}\n", flow("in"), "direct", "inbound.ports"),
        ("inbound: {mode: none}\n", flow("in"), "direct", "inbound.mode"),
        # the sidecar calls its own pod: a client like any other; the application itself is none
        ("", flow(uid=1337, **LO), "inbound-proxy", "inbound.ports"),
        ("", flow(uid=1000, **LO), "direct", "outbound.loopbackCidr"),
        ("", flow(source="127.0.0.6", uid=1337, **LO), "direct", "passthrough.ipv4"),
        ("", flow(mark=0x539, **LO), "direct", "inbound.originalSource"),
        ("sidecar: {mark: 0x77}\n", flow(mark=0xF077), "direct", "sidecar.mark"),
        # exclusion wins, DNS capture included
        (DNS, flow(port=53, transport="udp"), "dns-proxy", "dns.capture"),
        (DNS + "outbound: {excludeCidrs: [192.0.2.0/24]}\n", flow(port=53), "direct", "outbound.excludeCidrs"),
        (DNS + "outbound: {excludePorts: [53]}\n", flow(port=53, transport="udp"), "direct", "outbound.mode"),
        ("outbound: {excludePorts: [80], ports: [80-90]}\n", flow(), "direct", "outbound.excludePorts"),
        ("outbound: {excludeGroups: [5]}\n", flow(gid=5), "direct", "outbound.excludeGroups"),
        ("outbound: {groups: [7]}\n", flow(gid=5), "direct", "outbound.groups"),
        ("outbound: {groups: [7]}\n", flow(gid=7), "outbound-proxy", "outbound.cidrs"),
        ("outbound: {cidrs: [], ports: [80]}\n", flow(), "outbound-proxy", "outbound.ports"),
        ("interfaces: {exclude: [eth+]}\n", flow("in"), "direct", "interfaces.exclude[0]"),
        ("interfaces: {guest: [tap0]}\n", flow("in", interface="tap0"), "outbound-proxy", "outbound.cidrs"),
    ],
)
def test_where_a_flow_ends_and_why(body, packet, ends, because):
    found = predict(spec_of(body), packet)
    assert (found.disposition, found.because) == (ends, because)


@settings(max_examples=80, deadline=None)
@given(specs(), st.sampled_from(("in", "out")), st.sampled_from(("tcp", "udp")), st.integers(1, 65535))
def test_the_reason_is_always_a_path_of_the_document(spec, way, transport, port):
    found = predict(spec, flow(way, port=port, transport=transport))
    assert found.because.partition("[")[0] in known_paths()
