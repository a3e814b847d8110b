from __future__ import annotations

import pytest

from meshnet.doctor.calls import TUNNEL, own_calls, stories
from meshnet.doctor.patient import Patient
from meshnet.model.story import Conduct
from meshnet.parse.ruleset import read
from tests.unit.doctor.patients import PLAIN, patient
from tests.unit.simulate.pods import host, link, number, table

RULES = table("nat", "-A PREROUTING -p tcp --dport 80 -j REDIRECT --to-ports 15006")


def flows(of):
    return [item.flow for item in stories(of)]


def test_who_calls_whom():
    found = flows(patient(RULES))
    mine = number("10.1.0.2")
    clients = {flow.source for flow in found if flow.way == "in"}
    assert clients == {number("10.1.0.1")}, "a neighbour, whose answers have a route"
    assert any(flow.way == "out" and flow.source == flow.destination == mine for flow in found), "the pod's own call"
    assert any(flow.way == "out" and flow.destination != mine for flow in found), "a server outside"


def test_one_port_of_each_kind_and_none_of_the_sidecar_s():
    ports = {flow.port for flow in flows(patient(RULES)) if flow.way == "in"}
    assert 80 in ports and len(ports) == 2
    asked = "".join(f"-A PREROUTING -p tcp --dport {port} -j ACCEPT\n" for port in (15006, 15001, 15053, TUNNEL, 0))
    found = {flow.port for flow in flows(patient(f"*nat\n{asked}COMMIT\n"))}
    assert not found & {15006, 15001, 15053, TUNNEL, 0}


def test_the_sidecar_s_own_calls_are_its_identity_s_by_either_transport():
    sidecar = Conduct(7, 8, groups=(9,), own_mark=5)
    found = [item.flow for item in own_calls(patient(RULES, sidecar))]
    assert {(flow.uid, flow.gid, flow.groups, flow.mark) for flow in found} == {(7, 8, (9,), 5)}
    assert {flow.transport for flow in found} == {"tcp", "udp"}


def test_each_identity_and_each_setting_is_asked():
    made = Patient(
        read(RULES, 4),
        (("a", host()), ("b", host(link("eth0", "10.1.0.2/24", route_localnet=True)))),
        (PLAIN, Conduct(7)),
    )
    assert {(item.setting, item.sidecar.uid) for item in stories(made)} == {
        ("a", 1337),
        ("a", 7),
        ("b", 1337),
        ("b", 7),
    }


@pytest.mark.parametrize(
    ("address", "client"), [("10.1.0.1/24", "10.1.0.2"), ("10.1.0.1/32", None), ("10.1.0.1/31", None)]
)
def test_a_client_is_another_address_of_the_network_if_there_is_one(address, client):
    found = {flow.source for flow in flows(patient(RULES)) if flow.way == "in"} if client is None else None
    made = Patient(read(RULES, 4), (("", host(link("eth0", address))),), (PLAIN,))
    assert {flow.source for flow in flows(made) if flow.way == "in"} == ({number(client)} if client else set())
    assert found is None or found


def test_a_link_local_address_is_nobody_s_pod():
    made = Patient(read("", 6), (("", host(link("eth0", "fe80::1/64"))),), (PLAIN,))
    assert [flow for flow in flows(made) if flow.way == "in"] == []
