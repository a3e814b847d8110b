from __future__ import annotations

import pytest

from meshnet.model.nft import RawChain, RawRule, RawSet, RawTable
from meshnet.model.ranges import range_text
from meshnet.parse.nftables import understand
from tests.unit.parse.expressions import COUNTER, big


def numbers(*points):
    return tuple((big(number, 2), 0 if begins else 1) for number, begins in points)


def set_of(*points, key_type=13, flags=4):
    table = RawTable("t", "", 0, 1, (), (RawSet("s", key_type, flags, numbers(*points)),))
    return understand(table).table


@pytest.mark.parametrize(
    ("points", "ranges"),
    [
        ((), ()),
        (((0, False), (80, True), (81, False)), ((80, 80),)),
        (((91, False), (80, True), (0, False)), ((80, 90),)),
        (((0, True), (1, False)), ((0, 0),)),
        (((80, True), (81, False), (81, True), (90, False)), ((80, 89),)),
        (((80, True), (81, True), (90, False)), ((80, 89),)),
        (((65535, True),), ((65535, 65535),)),
        (((80, True),), ((80, 65535),)),
    ],
)
def test_sets(points, ranges):
    (found,) = set_of(*points).sets
    assert (found.type, found.ranges) == ("inet_service", ranges)


def test_a_set_of_names():
    elements = tuple((name.ljust(16, b"\0"), 0) for name in (b"tun0", b"eth0", b"a" * 15))
    (found,) = understand(RawTable("t", "", 0, 1, (), (RawSet("s", 41, 0, elements),))).table.sets
    assert found.type == "ifname"
    assert [range_text("ifname", *pair) for pair in found.ranges] == [f'"{"a" * 15}"', '"eth0"', '"tun0"']


@pytest.mark.parametrize(("key_type", "flags"), [(13, 0), (13, 0x14), (9, 4), (41, 4), (41, 3)])
def test_sets_of_another_kind_make_a_table_strange(key_type, flags):
    found = set_of(key_type=key_type, flags=flags)
    assert found.sets == () and found.more == ("set s",) and found.strange


def test_tables():
    chains = (RawChain("b", "route", 3, -150, 1), RawChain("a"))
    raw = RawTable("t", "meshnet:table", 0, 2, chains, (), (RawRule("a", 1, "", (COUNTER,)),))
    found = understand(raw)
    assert [(chain.name, chain.head, chain.rules) for chain in found.table.chains] == [
        ("a", "", ("counter",)),
        ("b", "type route hook output priority -150; policy accept;", ()),
    ]
    assert found.packets == {("a", "counter"): 3}
    assert not found.table.strange


def test_what_else_a_table_may_have():
    asleep = understand(RawTable("t", "", 1, 0)).table
    assert asleep.more == ("flags 0x1",) and asleep.strange
    assert understand(RawTable("t", "", 0, 2, (RawChain("a"),))).table.more == ("1 objects or flow tables",)
