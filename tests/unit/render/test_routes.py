from __future__ import annotations

from meshnet.model.cidr import Cidr, read_cidr
from meshnet.model.marks import Mark
from meshnet.model.program import LocalRoute, LoopbackAddress, PolicyRule, Program
from meshnet.render.routes import local_route, render

MADE = Program(
    "p",
    (6,),
    policy_rules=(PolicyRule(6, Mark(0x539, 0xFFF), 133),),
    local_routes=(LocalRoute(Cidr(6, 0, 0), 133),),
    loopback_addresses=(LoopbackAddress(read_cidr("::6"), 133),),
)


def test_what_leads_there_comes_after_what_it_leads_to():
    assert [(item.object, item.words) for item in render(MADE)] == [
        # the route beside the address says that the address is ours
        ("route", "local ::6 dev lo table 133 proto 109"),
        ("addr", "::6/128 dev lo"),
        ("route", "local default dev lo table 133 proto 109"),
        ("rule", "fwmark 0x539/0xfff lookup 133 pref 109 protocol 109"),
    ]
    assert {item.family for item in render(MADE)} == {6}


def test_blocks_as_ip_prints_them():
    assert local_route(read_cidr("0.0.0.0/0"), 5).startswith("local default ")
    assert local_route(read_cidr("10.0.0.1"), 5).startswith("local 10.0.0.1 dev")
    assert local_route(read_cidr("10.0.0.0/8"), 5).startswith("local 10.0.0.0/8 ")


def test_nothing_to_route():
    assert render(Program("p", (4,))) == ()
