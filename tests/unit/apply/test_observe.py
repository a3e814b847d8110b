from __future__ import annotations

import json

import pytest

from meshnet.apply.observe import sort_out
from meshnet.model.errors import ToolError
from meshnet.model.plan import EntryText, RouteText

NAT = """*nat
:OUTPUT ACCEPT [0:0]
:MESHNET_OUT - [0:0]
:MESHNET_NEW_TABLE - [0:0]
:THEIRS - [0:0]
-A OUTPUT -j THEIRS
-A OUTPUT -m comment --comment "meshnet:nat.out.entry" -j MESHNET_OUT
-A MESHNET_OUT -j RETURN
-A THEIRS -m comment --comment "not MESHNET_OUT" -j RETURN
COMMIT
"""
OURS = {"type": "2", "dst": "::6", "dev": "lo", "table": "133", "protocol": "109", "metric": 1024, "pref": "medium"}


def routing(rules=(), routes=(), addresses=(), family=6):
    info = [{"local": local, "prefixlen": length} for local, length in addresses]
    lists = "\n".join(map(json.dumps, (rules, routes, [{"ifname": "lo", "addr_info": info}])))
    return sort_out({}, {family: lists})


def test_ours_and_others_rules_are_told_apart():
    seen = sort_out({4: NAT}, {})
    (table,) = seen.own.tables
    assert [(chain.name, chain.rules) for chain in table.chains] == [("MESHNET_OUT", ("-j RETURN",))]
    # where the entry stands is where a roll-back puts it again
    (entry,) = table.entries
    assert entry == EntryText("OUTPUT", '-m comment --comment "meshnet:nat.out.entry" -j MESHNET_OUT', 2)
    assert seen.foreign == 2
    assert seen.made == seen.present == {(4, "nat")}


def test_a_table_of_others_is_only_present():
    seen = sort_out({4: "*nat\n:OUTPUT ACCEPT [0:0]\n-A OUTPUT -j ACCEPT\nCOMMIT\n"}, {})
    assert (seen.own.tables, seen.made, seen.foreign) == ((), frozenset(), 1)


def test_an_address_is_ours_by_the_route_beside_it():
    seen = routing(routes=[OURS], addresses=[("::6", 128), ("::1", 128)])
    assert seen.own.routing == (
        RouteText(6, "route", "local ::6 dev lo table 133 proto 109"),
        RouteText(6, "addr", "::6/128 dev lo"),
    )
    assert seen.on_loopback == {"::6/128 dev lo", "::1/128 dev lo"}


def test_without_its_route_an_address_is_somebody_else_s():
    assert routing(routes=[OURS | {"protocol": "4"}], addresses=[("::6", 128)]).own.routing == ()


def test_policy_rules_by_protocol():
    rule = {"priority": 109, "src": "all", "fwmark": "0x539", "fwmask": "0xfff", "table": "133", "protocol": "109"}
    seen = routing(rules=[rule, rule | {"protocol": "2"}])
    assert [item.words for item in seen.own.routing] == ["fwmark 0x539/0xfff lookup 133 pref 109 protocol 109"]


@pytest.mark.parametrize(("lists", "said"), [("[] []", "2 of 3"), ("no", "no JSON"), ("", "0 of 3")])
def test_half_an_answer_is_none(lists, said):
    with pytest.raises(ToolError, match=said):
        sort_out({}, {4: lists})
