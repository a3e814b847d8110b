from __future__ import annotations

import json

import pytest
import yaml
from hypothesis import given, settings

from meshnet.model.cidr import Cidr, read_cidr
from meshnet.model.ports import PortRange
from meshnet.model.spec import IdRange, Inbound, InterfaceNetwork, Interfaces, Outbound, Spec, UserExclusion
from meshnet.model.value import replace
from meshnet.spec.dump import document_of, plain, to_yaml
from meshnet.spec.fields import PORT
from meshnet.spec.load import load_text
from tests.strategies import specs


@given(specs())
@settings(max_examples=200, deadline=None)
def test_a_spec_comes_back_from_its_text(spec: Spec) -> None:
    text = to_yaml(spec)
    assert load_text(text, "s.yaml").spec == spec
    assert load_text(json.dumps(document_of(spec)), "s.json").spec == spec


@given(specs())
@settings(max_examples=100, deadline=None)
def test_a_reader_of_yaml_1_1_takes_the_text_for_the_same_document(spec: Spec) -> None:
    assert yaml.safe_load(to_yaml(spec)) == document_of(spec)


@given(specs())
@settings(max_examples=100, deadline=None)
def test_a_document_that_a_tool_wrote_anew_is_the_same_spec(spec: Spec) -> None:
    assert load_text(yaml.safe_dump(document_of(spec)), "s.yaml").spec == spec


def test_words_that_yaml_takes_for_something_else_are_quoted() -> None:
    text = to_yaml(replace(Spec(name="on"), inbound=Inbound(mode="redirect", port=PortRange(1, 9))))
    for line in ('name: "on"', '  capture: "off"', '  ports: "*"', '  port: "1-9"', '  ipv6: "::6"', "  mask: 0xfff"):
        assert line in text.splitlines()


def test_long_lists_take_a_line_for_each_item() -> None:
    blocks = tuple(Cidr(4, number << 8, 24) for number in range(1, 50))
    text = to_yaml(Spec(outbound=Outbound(cidrs=blocks)))
    assert '  cidrs:\n    - "0.0.1.0/24"\n' in text
    assert max(len(line) for line in text.splitlines()) <= 100
    assert load_text(text, "s.yaml").spec.outbound.cidrs == blocks


def test_lists_of_sections_take_a_line_for_each() -> None:
    users = (UserExclusion((IdRange(5, 5), IdRange(106, 108)), (PortRange(53, 53),), "tcp"),)
    network = InterfaceNetwork("docker0", (read_cidr("172.17.0.0/16"),))
    text = to_yaml(Spec(outbound=Outbound(exclude_users=users), interfaces=Interfaces(networks=(network,))))
    assert '  excludeUsers:\n    - {uids: [5, "106-108"], ports: [53], transport: tcp}\n' in text
    assert '  networks:\n    - {interface: "docker0", cidrs: ["172.17.0.0/16"]}\n' in text


def test_a_document_has_every_field() -> None:
    document = document_of(Spec())
    assert document["passthrough"] == {"ipv4": "127.0.0.6", "ipv6": "::6"}
    assert document["families"] == "auto"
    assert document["inbound"]["tunnelPort"] == 15008
    assert document_of(Spec(families=(6, 4)))["families"] == ["ipv6", "ipv4"]


def test_what_no_spec_holds_has_no_form() -> None:
    with pytest.raises(TypeError, match="no port of a spec"):
        plain(PORT, 1.5)
    assert plain(PORT, read_cidr("10.0.0.1")) == "10.0.0.1"
