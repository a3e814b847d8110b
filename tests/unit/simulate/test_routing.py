from __future__ import annotations

import pytest

from meshnet.model.cidr import read_cidr
from meshnet.model.host import LOOPBACK_LINK, Address, Host, Link, Lookup, Route
from meshnet.model.marks import Mark
from meshnet.simulate.routing import Routing
from tests.unit.simulate.pods import POD, POD6, link, number

OUT, OUT6 = number("203.0.113.9"), number("2001:db8::9")
DEFAULT = tuple(Route(read_cidr(block), "eth0") for block in ("0.0.0.0/0", "::/0"))


def routing(family=4, *links, routes=DEFAULT, lookups=(), **more):
    return Routing(Host((LOOPBACK_LINK, *(links or (link(),))), tuple(routes), tuple(lookups), **more), family)


def found(where, destination, mark=0, **more):
    answer = where.find(destination, 0, mark, more.pop("in_link", "lo"), **more)
    return None if answer is None else (answer.kind, answer.link)


@pytest.mark.parametrize(("family", "mine", "beside"), [(4, POD, "10.1.0.9"), (6, POD6, "fd01::9")])
def test_what_the_links_own_addresses_bring(family, mine, beside):
    where = routing(family)
    assert found(where, number(mine)) == ("local", "eth0")
    assert found(where, number(beside)) == ("unicast", "eth0")
    assert found(where, number("127.0.0.9" if family == 4 else "::1")) == ("local", "lo")
    assert found(routing(family, routes=()), OUT if family == 4 else OUT6) is None


def test_a_broadcast_is_ipv4_s_alone():
    assert found(routing(), number("10.1.0.255")) == ("broadcast", "eth0")
    assert found(routing(4, link("eth0", "10.1.0.2/31")), number("10.1.0.3")) == ("unicast", "eth0")


def test_the_longest_prefix_wins_and_of_two_alike_the_first():
    routes = (*DEFAULT, Route(read_cidr("203.0.113.0/24"), "net1"), Route(read_cidr("203.0.113.0/24"), "net2"))
    assert found(routing(routes=routes), OUT) == ("unicast", "net1")


@pytest.mark.parametrize("family", [4, 6])
def test_a_policy_rule_asks_for_the_mark(family):
    everything = read_cidr("0.0.0.0/0" if family == 4 else "::/0")
    where = routing(
        family,
        routes=(*DEFAULT, Route(everything, "lo", 133, "local")),
        lookups=(Lookup(family, 109, 133, Mark(0x539, 0xFFF)),),
    )
    far = OUT if family == 4 else OUT6
    assert found(where, far, 0x1539) == ("local", "lo")
    assert found(where, far, 0x538) == ("unicast", "eth0")
    assert "by mark" in str(where.find(far, 0, 0x539, "lo"))


def test_rules_by_priority_and_one_that_is_ahead_of_local():
    first = (Lookup(4, 0, 77), Lookup(4, 5, 133))
    routes = (Route(read_cidr(f"{POD}/32"), "x", 133), Route(read_cidr("203.0.113.9/32"), "x", 133))
    where = routing(routes=routes, lookups=first)
    assert found(where, number(POD)) == ("local", "eth0")
    assert found(where, OUT) == ("unicast", "x")


@pytest.mark.parametrize(
    ("lookup", "fits"),
    [
        (Lookup(4, 5, 133), True),
        (Lookup(6, 5, 133), False),
        (Lookup(4, 5, 133, in_link="eth0"), False),
        (Lookup(4, 5, 133, in_link="lo"), True),
        (Lookup(4, 5, 133, uids=(0, 5)), True),
        (Lookup(4, 5, 133, uids=(1, 5)), False),
        (Lookup(4, 5, 133, uids=(1, 5), negated=True), True),
        (Lookup(4, 5, 133, destination=read_cidr("203.0.113.0/24")), True),
        (Lookup(4, 5, 133, source=read_cidr("10.0.0.0/8")), False),
    ],
)
def test_what_a_policy_rule_asks(lookup, fits):
    where = routing(routes=(*DEFAULT, Route(read_cidr("0.0.0.0/0"), "x", 133)), lookups=(lookup,))
    assert (found(where, OUT) == ("unicast", "x")) is fits


def test_a_rule_that_forbids_and_a_route_that_throws():
    where = routing(lookups=(Lookup(4, 5, 0, Mark(1), kind="prohibit"),))
    assert (found(where, OUT, 1), found(where, OUT)) == (("prohibit", ""), ("unicast", "eth0"))
    thrown = routing(routes=(*DEFAULT, Route(read_cidr("0.0.0.0/0"), "", 133, "throw")), lookups=(Lookup(4, 5, 133),))
    assert found(thrown, OUT) == ("unicast", "eth0")


@pytest.mark.parametrize(
    ("family", "address", "kind"),
    [
        (4, "224.0.0.1", "MULTICAST"),
        (4, "255.255.255.255", "BROADCAST"),
        (4, "0.0.0.0", "BROADCAST"),
        (4, "0.1.2.3", "UNICAST"),
        (4, "10.1.0.255", "BROADCAST"),
        (4, POD, "LOCAL"),
        (4, "127.1.2.3", "LOCAL"),
        (4, "8.8.8.8", "UNICAST"),
        (6, "ff02::1", "MULTICAST"),
        (6, "::", "UNSPEC"),
        (6, POD6, "LOCAL"),
        (6, "2001:db8::9", "UNICAST"),
    ],
)
def test_kinds_of_addresses(family, address, kind):
    assert routing(family).kind_of(number(address)) == kind


def test_an_address_is_local_on_its_own_link():
    assert (routing().kind_of(number(POD), "eth0"), routing().kind_of(number(POD), "net1")) == ("LOCAL", "UNICAST")


def source(family, destination, *links, via="eth0"):
    return routing(family, *links).source_for(via, number(destination))


def test_whose_address_masquerading_takes():
    two = link("eth0", "10.1.0.2/24", "10.2.0.2/24", "fd01::2/64", "fd02::2/64")
    assert source(4, "10.2.0.9", two) == number("10.2.0.2"), "the one whose network has it"
    assert source(4, "8.8.8.8", two) == number("10.1.0.2")
    assert source(6, "fd02::9", two) == number("fd02::2"), "the one with most bits alike"
    assert source(4, "8.8.8.8", two, via="lo") == number("10.1.0.2"), "lo's own stays here"
    assert source(4, "8.8.8.8", Link("eth0", (Address(6, 1, 64),))) is None


@pytest.mark.parametrize(
    ("address", "settings", "said"),
    [
        ("203.0.113.9", {}, ""),
        ("203.0.113.9", {"rp_filter": 1}, ""),
        ("10.9.0.9", {"rp_filter": 1}, "rp_filter=1: the way back"),
        ("10.9.0.9", {"rp_filter": 2}, ""),
        (POD, {}, "martian source"),
        (POD, {"accept_local": True}, ""),
        ("10.1.0.255", {}, "martian source"),
    ],
)
def test_whose_source_is_believed(address, settings, said):
    eth0 = link("eth0", f"{POD}/24", **settings)
    where = routing(4, eth0, link("net1", "10.9.0.2/24"))
    assert where.refuses_source(number(address), number(POD), 0, eth0).startswith(said)
    assert bool(where.refuses_source(number(address), number(POD), 0, eth0)) is bool(said)


def test_without_a_way_back_the_filter_decides():
    for strict in (0, 1):
        eth0 = link("eth0", f"{POD}/24", rp_filter=strict)
        assert bool(routing(4, eth0, routes=()).refuses_source(OUT, number(POD), 0, eth0)) is bool(strict)


def test_a_mark_counts_for_the_way_back_where_it_was_asked_to():
    """src_valid_mark with TPROXY's mark makes every client a martian."""
    routes = (*DEFAULT, Route(read_cidr("0.0.0.0/0"), "lo", 133, "local"))
    for asked, said in ((False, ""), (True, "martian source")):
        eth0 = link("eth0", f"{POD}/24", src_valid_mark=asked)
        where = routing(4, eth0, routes=routes, lookups=(Lookup(4, 109, 133, Mark(0x539)),))
        assert where.refuses_source(OUT, number(POD), 0x539, eth0)[: len(said) or None] == said
