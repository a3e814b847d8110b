from __future__ import annotations

import json

import pytest

from meshnet.model.cidr import read_address
from meshnet.model.errors import UsageError
from meshnet.model.marks import Mark
from meshnet.parse.scenario import read_scenario

PROXY = {
    "gid": 9,
    "inbound_port": 1,
    "outbound_port": 2,
    "transparent": True,
    "dials": "original destination",
    "bind": "127.0.0.6",
    "original_src": True,
    "original_src_mark": 1337,
}
CASE = {
    "name": "a",
    "rules": "a.v4",
    "policy_routing": True,
    "proxy": PROXY,
    "measured": [{"proxy_uid": 7, "route_localnet": 1, "outcome": "loop"}],
}
TOPOLOGY = {"client": "10.0.0.2/24 on eth0", "pod": "10.0.0.10/24 on eth0, default via the client"}


def scenario(case=None, **topology):
    return read_scenario(json.dumps({"topology": TOPOLOGY | topology, "cases": [CASE | (case or {})]}), "x.json")


def refused(text):
    with pytest.raises(UsageError) as error:
        read_scenario(text if isinstance(text, str) else json.dumps(text), "x.json")
    assert error.value.hint
    return error.value.message


def test_a_whole_one():
    found = scenario(policy_routing="ip rule add fwmark 0x539/0xfff lookup 77; ip route add local default table 77")
    (case,) = found.cases
    (measured,) = case.measured
    assert (found.topology.client, found.topology.prefix) == (read_address("10.0.0.2")[1], 24)
    assert (found.topology.mark, found.topology.table) == (Mark(0x539, 0xFFF), 77)
    assert (case.conduct.gid, case.conduct.spoofs, case.conduct.mark, case.conduct.dials) == (9, True, 1337, None)
    assert case.conduct.bind == read_address("127.0.0.6")[1]
    assert (measured.proxy_uid, measured.route_localnet, measured.outcome) == (7, True, "loop")


def test_what_is_usual_is_taken_where_nothing_is_said():
    assert (scenario().topology.mark, scenario().topology.table) == (Mark(1337, 0xFFFFFFFF), 133)
    plain = PROXY | {"bind": None, "original_src_mark": None, "dials": "127.0.0.1:8080"}
    conduct = scenario({"proxy": plain}).cases[0].conduct
    assert (conduct.bind, conduct.mark, conduct.dials) == (None, 0, (0x7F000001, 8080))


def test_no_case_is_a_scenario_too():
    assert read_scenario(json.dumps({"topology": TOPOLOGY, "cases": []}), "x").cases == ()


@pytest.mark.parametrize("text", ["", "{", "nul", "[" * 100_000])
def test_what_is_no_json(text):
    assert "is no JSON" in refused(text)


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ([], "topology isn't of the form"),
        ({}, "topology has no topology"),
        ({"topology": {}}, "topology has no client"),
        ({"topology": TOPOLOGY}, "topology has no cases"),
        ({"topology": TOPOLOGY | {"client": ""}, "cases": []}, "topology isn't of the form"),
        ({"topology": TOPOLOGY | {"client": 7}, "cases": []}, "topology isn't of the form"),
        ({"topology": TOPOLOGY | {"client": "fd00::2"}, "cases": []}, "no IPv4 address"),
        ({"topology": TOPOLOGY | {"pod": "10.0.0.1"}, "cases": []}, "topology isn't of the form"),
        ({"topology": TOPOLOGY, "cases": 7}, "isn't of the form"),
        ({"topology": TOPOLOGY, "cases": [CASE, {}]}, "cases[1] has no proxy"),
        ({"topology": TOPOLOGY, "cases": [CASE, CASE | {"measured": [{}]}]}, "cases[1] has no proxy_uid"),
        ({"topology": TOPOLOGY, "cases": [CASE | {"proxy": PROXY | {"bind": "x"}}]}, "cases[0]: "),
        ({"topology": TOPOLOGY, "cases": [CASE | {"proxy": PROXY | {"dials": "127.0.0.1"}}]}, "cases[0]"),
        ({"topology": TOPOLOGY, "cases": [CASE | {"proxy": PROXY | {"gid": "x"}}]}, "cases[0] isn't of the form"),
    ],
)
def test_what_is_no_scenario_is_said_with_its_place(document, said):
    assert said in refused(document)
