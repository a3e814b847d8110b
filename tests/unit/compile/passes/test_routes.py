from __future__ import annotations

import pytest

from meshnet.model.cidr import Cidr
from meshnet.model.marks import Mark
from meshnet.model.program import LocalRoute, PolicyRule
from tests.unit.compile.compiling import program


@pytest.mark.parametrize(
    ("inbound", "needed"),
    [
        ("mode: tproxy, originalSource: false", True),
        ("mode: redirect, originalSource: true", True),
        ("mode: redirect, originalSource: false", False),
        ("mode: none", False),
        ("mode: tproxy, ports: []", False),
    ],
)
def test_who_needs_a_way_back(inbound, needed):
    made = program(f"inbound: {{{inbound}}}\n")
    assert bool(made.policy_rules) is bool(made.local_routes) is needed


def test_each_family_has_its_way_with_the_user_s_table():
    made = program("routing: {table: 77}\n")
    assert made.local_routes == (LocalRoute(Cidr(4, 0, 0), 77), LocalRoute(Cidr(6, 0, 0), 77))
    assert made.policy_rules == tuple(PolicyRule(family, Mark(0x539, 0xFFF), 77) for family in (4, 6))
