from __future__ import annotations

import pytest

from meshnet.apply.observe import sort_out
from meshnet.kernel.rtnetlink import SeenRoute, SeenRouting, SeenRule
from meshnet.model.plan import EntryText, RouteText
from meshnet.model.value import replace

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
OURS = SeenRoute(2, "::6/128", 133, 109, device="lo", metric=1024)
RULE = SeenRule(109, 133, 109, mark="0x539/0xfff")


def routing(rules=(), routes=(), addresses=(), family=6):
    return sort_out({}, {family: SeenRouting(tuple(rules), tuple(routes), tuple(addresses))})


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
    seen = routing(routes=[OURS], addresses=["::6/128", "::1/128"])
    assert seen.own.routing == (
        RouteText(6, "route", "local ::6 dev lo table 133 proto 109"),
        RouteText(6, "addr", "::6/128 dev lo"),
    )
    assert seen.on_loopback == {"::6/128 dev lo", "::1/128 dev lo"}


def test_without_its_route_an_address_is_somebody_else_s():
    assert routing(addresses=["::6/128"]).own.routing == ()


def test_between_two_tables_an_address_with_two_routes_is_one():
    seen = routing(routes=[OURS, replace(OURS, table=200)], addresses=["::6/128"])
    assert [item.object for item in seen.own.routing] == ["route", "route", "addr"]


def test_a_route_to_a_block_makes_no_address_ours():
    for route in (replace(OURS, destination="::/0"), replace(OURS, kind=1)):
        assert "addr" not in [item.object for item in routing(routes=[route], addresses=["::6/128"]).own.routing]


@pytest.mark.parametrize(
    ("rule", "words"),
    [
        (RULE, "fwmark 0x539/0xfff lookup 133 pref 109 protocol 109"),
        (replace(RULE, table=0), "fwmark 0x539/0xfff pref 109 protocol 109"),
        (replace(RULE, priority=0, mark=""), "lookup 133 pref 0 protocol 109"),
        (
            replace(RULE, inverted=True, source="10.0.0.0/8", destination="10.1.2.3/32", incoming="a", outgoing="b"),
            "not from 10.0.0.0/8 to 10.1.2.3/32 fwmark 0x539/0xfff iif a oif b lookup 133 pref 109 protocol 109",
        ),
    ],
)
def test_a_policy_rule_in_the_words_of_ip(rule, words):
    assert routing(rules=[rule], family=4).own.routing == (RouteText(4, "rule", words),)


@pytest.mark.parametrize(
    ("route", "family", "words"),
    [
        (OURS, 6, "local ::6 dev lo table 133 proto 109"),
        (replace(OURS, destination="::/0"), 6, "local default dev lo table 133 proto 109"),
        (replace(OURS, metric=7), 6, "local ::6 dev lo table 133 proto 109 metric 7"),
        (SeenRoute(2, "0.0.0.0/0", 133, 109, device="lo"), 4, "local default dev lo table 133 proto 109"),
        (SeenRoute(6, "10.0.0.0/8", 7000, 109), 4, "blackhole 10.0.0.0/8 table 7000 proto 109"),
        (
            SeenRoute(1, "10.0.0.1/32", 5, 109, "10.0.0.2", "a", 3),
            4,
            "unicast 10.0.0.1 via 10.0.0.2 dev a table 5 proto 109 metric 3",
        ),
        (SeenRoute(12, "10.0.0.0/8", 5, 109), 4, "12 10.0.0.0/8 table 5 proto 109"),
    ],
)
def test_a_route_in_the_words_of_ip(route, family, words):
    assert routing(routes=[route], family=family).own.routing == (RouteText(family, "route", words),)


ISTIO = """*nat
:PREROUTING ACCEPT [0:0]
:ISTIO_INBOUND - [0:0]
-A PREROUTING -i eth8 -j RETURN
-A PREROUTING -p tcp -j ISTIO_INBOUND
-A PREROUTING -p tcp -j ISTIO_INBOUND
-A OUTPUT -p tcp -j ACCEPT
-A OUTPUT -o eth8 -j RETURN
-A ISTIO_INBOUND -p tcp -j RETURN
COMMIT
"""


def test_istio_s_chains_are_ours_for_who_adopts_them():
    (found,) = sort_out({4: ISTIO}, {}, adopting=True).own.tables
    assert [chain.name for chain in found.chains] == ["ISTIO_INBOUND"]
    assert [(entry.hook, entry.place) for entry in found.entries] == [
        ("PREROUTING", 1),
        ("PREROUTING", 2),
        ("PREROUTING", 3),
        ("OUTPUT", 2),
    ]
    assert sort_out({4: ISTIO}, {}).own.tables == ()


def test_with_our_tag_they_are_ours_and_an_interface_s_return_is_not():
    tagged = ISTIO.replace(
        "-p tcp -j ISTIO_INBOUND", '-p tcp -m comment --comment "meshnet:nat.in" -j ISTIO_INBOUND', 1
    )
    for adopting in (False, True):
        (found,) = sort_out({4: tagged}, {}, adopting=adopting).own.tables
        assert [entry.place for entry in found.entries] == [2, 3]


@pytest.mark.parametrize("chain", ["ISTIO_PRERT", "ISTIO_POSTRT"])
def test_ambient_mode_s_chains_are_its_agent_s(chain):
    text = ISTIO.replace(":ISTIO_INBOUND - [0:0]", f":ISTIO_INBOUND - [0:0]\n:{chain} - [0:0]")
    assert sort_out({4: text}, {}, adopting=True).own.tables == ()


def test_profile_istio_alone_in_a_table_came_with_us():
    entry = '-A OUTPUT -m comment --comment "meshnet:a" -j ISTIO_OUTPUT'
    alone = f"*nat\n:OUTPUT ACCEPT [0:0]\n:ISTIO_OUTPUT - [0:0]\n{entry}\n"
    assert sort_out({4: f"{alone}COMMIT\n"}, {}).made == {(4, "nat")}
    for more in ("-A OUTPUT -j ACCEPT\nCOMMIT\n", ":THEIRS - [0:0]\nCOMMIT\n", ":INPUT DROP [0:0]\nCOMMIT\n"):
        assert sort_out({4: alone + more}, {}).made == frozenset()


def test_routing_that_istio_left_is_ours_for_who_adopts_it():
    left = SeenRule(32765, 133, 0, mark="0x539/0xffffffff")
    seen = SeenRouting((left,), (SeenRoute(2, "0.0.0.0/0", 133, 3, device="lo"),), ())
    assert sort_out({}, {4: seen}).own.routing == ()
    assert [item.words for item in sort_out({}, {4: seen}, adopting=True).own.routing] == [
        "fwmark 0x539/0xffffffff lookup 133 pref 32765 protocol 0",
        "local default dev lo table 133 proto 3",
    ]
