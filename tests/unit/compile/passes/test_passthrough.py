from __future__ import annotations

import pytest

from meshnet.model.cidr import read_cidr
from meshnet.model.program import LoopbackAddress, OutInterface, Source
from tests.unit.compile.compiling import having, program


@pytest.mark.parametrize(("mode", "tables"), [("redirect", {"nat"}), ("tproxy", {"mangle", "nat"})])
def test_the_bypass_stands_where_the_own_pod_is_captured(mode, tables):
    made = program(f"inbound: {{mode: {mode}}}\n")
    found = [rule for rule in made.rules() if rule.id.endswith("out.passthrough.bypass")]
    assert {rule.id.partition(".")[0] for rule in found} == tables
    assert {rule.family for rule in found} == {4, 6}
    assert all(OutInterface(("lo",)) in rule.matches for rule in found)


def test_the_address_is_the_user_s_and_only_ipv6_has_to_be_added():
    made = program("passthrough: {ipv4: 127.0.0.9, ipv6: '::9'}\nrouting: {table: 77}\n")
    assert made.loopback_addresses == (LoopbackAddress(read_cidr("::9"), 77),)
    sources = {rule.matches[0] for rule in made.rules() if "passthrough" in rule.id}
    assert sources == {Source((read_cidr("127.0.0.9"),)), Source((read_cidr("::9"),))}


def test_without_inbound_nobody_needs_it():
    assert not having(program("inbound: {mode: none}\n"), "passthrough")
