from __future__ import annotations

import pytest

from meshnet.apply.leftovers import istio_marks, left_by_istio, left_routing
from meshnet.kernel.rtnetlink import SeenRoute, SeenRouting, SeenRule
from meshnet.model.value import replace
from meshnet.parse.saved import SavedTable, parse

MASK = "--nfmask 0xffffffff --ctmask 0xffffffff"
RULE = SeenRule(32765, 133, 0, mark="0x539/0xffffffff")
ROUTE = SeenRoute(2, "0.0.0.0/0", 133, 3, device="lo")


def table(*rules: str, name: str = "mangle", mark: str = "0x539") -> SavedTable:
    """A table with istio's chains, which use a mark, and these rules in built-in chains."""
    lines = [f"*{name}", ":PREROUTING ACCEPT [0:0]", ":OUTPUT ACCEPT [0:0]", ":ISTIO_INBOUND - [0:0]"]
    lines += [f"-A {rule}" for rule in rules]
    lines += [f"-A ISTIO_INBOUND -p tcp -m mark --mark {mark} -j RETURN", "COMMIT", ""]
    (found,) = parse("\n".join(lines))
    return found


def left(*rules: str, name: str = "mangle", mark: str = "0x539") -> list[str]:
    found = left_by_istio(table(*rules, name=name, mark=mark))
    return [f"{hook} {words}" for hook, words in sorted(found)]


@pytest.mark.parametrize(
    "rule",
    [
        f"PREROUTING -p tcp -m mark --mark 0x539 -j CONNMARK --save-mark {MASK}",
        "PREROUTING -p tcp -m mark --mark 0x539 -j CONNMARK --save-mark",
        f"OUTPUT -p tcp -m connmark --mark 0x539 -j CONNMARK --restore-mark {MASK}",
        "OUTPUT -o lo -p tcp -m mark --mark 0x539 -j RETURN",
        "OUTPUT ! -d 127.0.0.1/32 -o lo -p tcp -m owner --uid-owner 1337 -j MARK --set-xmark 0x53a/0xffffffff",
        "OUTPUT ! -d 127.0.0.0/8 -o lo -p tcp -m owner --gid-owner 9 -j MARK --set-xmark 0x53a/0xffffffff",
        "PREROUTING -p tcp -j NFLOG --nflog-prefix JumpInbound --nflog-group 1337 --nflog-size 20",
    ],
)
def test_the_forms_of_the_original(rule: str) -> None:
    assert left(rule) == [rule]


@pytest.mark.parametrize(
    "rule",
    [
        f"PREROUTING -p tcp -m mark --mark 0x4000 -j CONNMARK --save-mark {MASK}",
        f"PREROUTING -p udp -m mark --mark 0x539 -j CONNMARK --save-mark {MASK}",
        f"PREROUTING -i eth0 -p tcp -m mark --mark 0x539 -j CONNMARK --save-mark {MASK}",
        "PREROUTING -p tcp -m mark --mark 0x539 -j RETURN",
        "OUTPUT -p tcp -m connmark --mark 0x539 -j ACCEPT",
        "OUTPUT -o eth0 -p tcp -m mark --mark 0x539 -j RETURN",
        "OUTPUT ! -d 127.0.0.1/32 -o lo -p tcp -m owner --uid-owner 1337 -j MARK --set-xmark 0x7/0xffffffff",
        "OUTPUT ! -d 127.0.0.1/32 -o lo -p tcp -m owner --uid-owner 1337 --gid-owner 7 -j MARK --set-xmark 0x53a/0xf",
        "OUTPUT -o eth7 -j RETURN",
        "PREROUTING -i eth7 -p tcp -j RETURN",
        "PREROUTING -p tcp -j NFLOG --nflog-group 5",
        "PREROUTING -p tcp -j ACCEPT",
        "POSTROUTING -o eth7 -j MASQUERADE",
    ],
)
def test_what_others_have_of_like_form(rule: str) -> None:
    assert left(rule, "PREROUTING -p tcp -j ISTIO_INBOUND") == []


def test_the_mark_is_the_one_that_the_chains_use() -> None:
    rules = [f"PREROUTING -p tcp -m mark --mark {mark} -j CONNMARK --save-mark {MASK}" for mark in ("0x539", "0x7d0")]
    assert left(*rules, mark="0x7d0") == rules[1:]
    assert istio_marks(table(mark="0x7d0")) == {"0x7d0", "0x53a"}


def test_an_excluded_interface_is_known_by_both_directions() -> None:
    pair = ["OUTPUT -o eth8 -j RETURN", "PREROUTING -i eth8 -j RETURN"]
    others = ["OUTPUT -o eth9 -j RETURN", "PREROUTING -p tcp -j ACCEPT", "PREROUTING -i eth7 -j RETURN"]
    assert left(*others, *pair) == pair
    assert left(*others) == []


def test_guests_are_known_by_their_captures_wherever_they_stand() -> None:
    guests = ["PREROUTING -i vm1 -j RETURN", "PREROUTING -i vm0 -j RETURN"]
    captures = ["PREROUTING -i vm1 -j ISTIO_REDIRECT", "PREROUTING -d 10.0.0.0/8 -i vm0 -j ISTIO_REDIRECT"]
    found = left("PREROUTING -p tcp -j ACCEPT", *captures, *guests, "PREROUTING -i docker0 -j RETURN", name="nat")
    assert found == sorted(guests)


def test_guests_without_captures_are_those_at_the_head() -> None:
    rules = ["PREROUTING -i vm1 -j RETURN", "PREROUTING -i vm0 -j RETURN", "PREROUTING -p tcp -j ISTIO_INBOUND"]
    assert left(*rules, "PREROUTING -i docker0 -j RETURN", name="nat") == sorted(rules[:2])
    assert left(*rules[:2], name="nat") == sorted(rules[:2])
    assert left("PREROUTING -p udp -j ACCEPT", *rules, name="nat") == []


def routing(*rules: SeenRule, routes: tuple[SeenRoute, ...] = (), loopback: tuple[str, ...] = ()) -> SeenRouting:
    return SeenRouting(rules, routes, loopback)


def test_dns_rules_of_earlier_releases_are_known_by_the_listener() -> None:
    about = [
        "OUTPUT -p udp -m udp --dport 53 -m owner --uid-owner 7 -j RETURN",
        "OUTPUT -d 10.0.0.1/32 -p udp -m udp --dport 53 -j REDIRECT --to-ports 15053",
    ]
    zones = [
        "OUTPUT -p udp -m udp --dport 53 -j CT --zone 2",
        "OUTPUT -p udp -m udp --sport 15053 -m owner --uid-owner 7 -j CT --zone 2",
        "PREROUTING -s 10.0.0.1/32 -p udp -m udp --sport 53 -j CT --zone 1",
    ]
    assert left(*about, name="nat") == sorted(about)
    assert left(*zones, name="raw") == sorted(zones)
    assert left(about[0], "OUTPUT -p udp -m udp --dport 53 -j REDIRECT --to-ports 5353", name="nat") == []
    assert left(zones[0], zones[2], name="raw") == []
    others = [
        "OUTPUT -p udp -m udp --dport 53 -j RETURN",
        "OUTPUT -p tcp -m tcp --dport 53 -j REDIRECT --to-ports 15053",
        "OUTPUT -o eth0 -p udp -m udp --dport 53 -j REDIRECT --to-ports 15053",
        "PREROUTING -p udp -m udp --dport 53 -j REDIRECT --to-ports 15053",
        "OUTPUT -p udp -m udp --dport 53 -j CT --zone 3",
    ]
    assert left(*others, *about, name="nat") == sorted(about)


def test_every_run_s_policy_rule_and_the_route() -> None:
    seen = routing(RULE, replace(RULE, priority=32764), routes=(ROUTE,))
    assert left_routing(4, seen, ()) == (seen.rules, (ROUTE,), ())


@pytest.mark.parametrize(
    "rule",
    [
        replace(RULE, protocol=109),
        replace(RULE, mark="0x539/0xfff"),
        replace(RULE, mark="0x540/0xffffffff"),
        replace(RULE, mark="0x53a/0xffffffff"),
        replace(RULE, mark=""),
        replace(RULE, inverted=True),
        replace(RULE, source="10.0.0.0/8"),
        replace(RULE, destination="10.0.0.0/8"),
        replace(RULE, incoming="eth0"),
        replace(RULE, outgoing="eth0"),
        replace(RULE, table=254),
        replace(RULE, table=0),
    ],
)
def test_policy_rules_of_others(rule: SeenRule) -> None:
    assert left_routing(4, routing(rule), ())[0] == ()


@pytest.mark.parametrize(
    "route",
    [
        replace(ROUTE, protocol=109),
        replace(ROUTE, table=134),
        replace(ROUTE, kind=1),
        replace(ROUTE, device="eth0"),
        replace(ROUTE, gateway="10.0.0.1"),
        replace(ROUTE, destination="10.0.0.0/8"),
        replace(ROUTE, destination="::/0"),
    ],
)
def test_routes_of_others(route: SeenRoute) -> None:
    assert left_routing(4, routing(routes=(route,)), ())[1] == ()


def test_a_table_of_one_s_own_is_known_by_the_rule_that_leads_there() -> None:
    rule, route = replace(RULE, table=200), replace(ROUTE, table=200)
    assert left_routing(4, routing(rule, routes=(route,)), ())[:2] == ((rule,), (route,))
    assert left_routing(4, routing(routes=(route,)), ())[:2] == ((), ())


def test_a_mark_of_one_s_own_is_known_by_the_chains_or_by_where_it_leads() -> None:
    rule = replace(RULE, mark="0x7d0/0xffffffff", table=200)
    assert left_routing(4, routing(rule), (table(mark="0x7d0"),))[0] == (rule,)
    assert left_routing(4, routing(rule, routes=(ROUTE,)), ())[0] == ()
    usual = replace(rule, table=133)
    assert left_routing(4, routing(usual, routes=(ROUTE,)), ())[0] == (usual,)
    assert left_routing(4, routing(usual), ())[0] == ()


def test_the_address_goes_with_the_chains_or_with_the_rules() -> None:
    loopback = ("::1/128", "::6/128")
    assert left_routing(6, routing(loopback=loopback), (table(),))[2] == ("::6/128",)
    assert left_routing(6, routing(RULE, loopback=loopback), ())[2] == ("::6/128",)
    assert left_routing(6, routing(loopback=loopback), ())[2] == ()
    assert left_routing(4, routing(loopback=loopback), (table(),))[2] == ()
    ours = SeenRoute(2, "::6/128", 133, 109, device="lo")
    assert left_routing(6, routing(RULE, routes=(ours,), loopback=loopback), (table(),))[2] == ()
