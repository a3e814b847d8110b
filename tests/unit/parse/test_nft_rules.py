"""Expressions as kernels hand them over, and the words that come of them; how nft says a thing differs by version."""

from __future__ import annotations

import struct

import pytest

from meshnet.kernel.netlink import attribute
from meshnet.model.nft import UNKNOWN, RawRule
from meshnet.parse.nft_rules import rule_words
from tests.unit.parse.expressions import (
    COUNTER,
    EQ,
    GTE,
    IPV4,
    IPV6,
    LTE,
    NEQ,
    TCP,
    between,
    big,
    bitwise,
    cmp,
    ct,
    host,
    made,
    meta,
    payload,
    swapped,
    value,
    verdict,
)


def words(*expressions, comment=""):
    return rule_words(RawRule("c", 1, comment, expressions))[0]


@pytest.mark.parametrize(
    ("expressions", "said"),
    [
        (TCP, "meta l4proto tcp"),
        (IPV6, "meta nfproto ipv6"),
        ((*IPV4, payload(1, 16, 1), cmp(NEQ, b"\x7f")), "ip daddr != 127.0.0.0/8"),
        ((*IPV4, payload(1, 12, 4), cmp(EQ, b"\x7f\0\0\x06")), "ip saddr 127.0.0.6"),
        (
            (*IPV4, payload(1, 16, 4), bitwise(b"\xff\xf0\0\0", bytes(4)), cmp(EQ, b"\x0a\x20\0\0")),
            "ip daddr 10.32.0.0/12",
        ),
        ((*IPV6, payload(1, 24, 2), cmp(EQ, b"\xfd\0")), "ip6 daddr fd00::/16"),
        ((*IPV4, payload(1, 16, 4), cmp(GTE, big(1)), cmp(LTE, big(3))), "ip daddr 0.0.0.1-0.0.0.3"),
        ((*TCP, payload(2, 2, 2), cmp(EQ, big(80, 2))), "meta l4proto tcp tcp dport 80"),
        ((*TCP, payload(2, 2, 2), cmp(GTE, big(80, 2)), cmp(LTE, big(90, 2))), "meta l4proto tcp tcp dport 80-90"),
        ((*TCP, payload(2, 2, 2), between(EQ, big(80, 2), big(90, 2))), "meta l4proto tcp tcp dport 80-90"),
        ((*TCP, payload(2, 0, 2), between(NEQ, big(80, 2), big(90, 2))), "meta l4proto tcp tcp sport != 80-90"),
        (
            (*TCP, payload(2, 13, 1), bitwise(b"\x17", b"\0"), cmp(NEQ, b"\x02")),
            "meta l4proto tcp tcp flags & (fin | syn | rst | ack) != syn",
        ),
        ((meta(6), cmp(EQ, b"lo".ljust(16, b"\0"))), 'iifname "lo"'),
        ((meta(7), cmp(NEQ, b"net")), 'oifname != "net*"'),
        ((meta(6), made("lookup", _1=b"names\0", _2=big(1))), "iifname @names"),
        ((meta(10), cmp(EQ, host(1337))), "meta skuid 1337"),
        ((meta(10), swapped(), cmp(GTE, big(5)), cmp(LTE, big(9))), "meta skuid 5-9"),
        ((meta(10), swapped(), between(EQ, big(5), big(9))), "meta skuid 5-9"),
        ((meta(11), swapped(), made("lookup", _1=b"ids\0", _2=big(1))), "meta skgid @ids"),
        ((meta(11), swapped(), made("lookup", _1=b"ids\0", _2=big(1), _5=big(1))), "meta skgid != @ids"),
        ((meta(3), cmp(EQ, host(0x539))), "meta mark 0x539"),
        ((meta(3), bitwise(host(0xFFF), bytes(4)), cmp(NEQ, host(0x539))), "meta mark & 0xfff != 0x539"),
        ((ct(3), bitwise(host(0xFFF), bytes(4)), cmp(EQ, host(0x539))), "ct mark & 0xfff == 0x539"),
        ((ct(1), cmp(EQ, b"\x01")), "ct direction reply"),
        ((ct(2), bitwise(host(0x20), bytes(4)), cmp(NEQ, bytes(4))), "ct status dnat"),
        ((ct(0), bitwise(host(6), bytes(4)), cmp(NEQ, bytes(4))), "ct state established,related"),
        ((ct(0), bitwise(host(10), bytes(4)), cmp(EQ, bytes(4))), "ct state & (established | new) == 0"),
        ((ct(0), cmp(NEQ, host(8))), "ct state != new"),
        ((made("socket", _1=big(0), _2=big(1)), cmp(EQ, b"\x01")), "socket transparent 1"),
        ((made("socket", _1=big(0), _2=big(1)), cmp(LTE, b"\x01")), "socket transparent <= 1"),
        (
            (meta(3), bitwise(host(0xFFFFF000), host(0x539)), made("meta", _2=big(3), _3=big(1))),
            "meta mark set meta mark & 0xfffff000 | 0x539",
        ),
        ((value(host(0x539)), made("ct", _2=big(3), _4=big(1))), "ct mark set 0x539"),
        ((value(host(2, 2)), made("ct", _2=big(17), _4=big(1))), "ct zone set 2"),
        ((value(big(15001, 2)), made("redir", _1=big(1), _2=big(1), _3=big(2))), "redirect to :15001"),
        (
            (value(big(1, 2)), value(big(4, 2), 2), made("redir", _1=big(1), _2=big(2), _3=big(2))),
            "redirect to :1-4",
        ),
        ((value(big(15006, 2)), made("tproxy", _3=big(1))), "tproxy to :15006"),
        ((value(big(15006, 2)), made("tproxy", _1=big(10), _3=big(1))), "tproxy ip6 to :15006"),
        ((verdict(0),), "drop"),
        ((verdict(-5),), "return"),
        ((verdict(-3, "nat_out"),), "jump nat_out"),
        ((verdict(-4, "nat_out"),), "goto nat_out"),
        (
            (made("log", _1=big(1337, 2), _2=b"nat.x\0", _3=big(20)),),
            'log prefix "nat.x" snaplen 20 group 1337',
        ),
    ],
)
def test_words(expressions, said):
    assert words(*expressions) == said


def test_a_whole_rule_with_its_counter():
    found = rule_words(RawRule("c", 1, "meshnet:nat.x", (*TCP, COUNTER, verdict(1))))
    assert found == ('meta l4proto tcp counter accept comment "meshnet:nat.x"', 3)


@pytest.mark.parametrize(
    "expressions",
    [
        (made("limit", _1=big(5, 8)),),
        (meta(2), cmp(EQ, host(1))),
        (payload(1, 16, 4), cmp(EQ, bytes(4))),
        (*TCP, payload(2, 4, 2), cmp(EQ, bytes(2))),
        (*IPV4, payload(1, 8, 1), cmp(EQ, b"\x01")),
        (*IPV4, payload(1, 16, 4), bitwise(b"\xff\x0f\0\0", bytes(4)), cmp(EQ, bytes(4))),
        (meta(3), bitwise(host(0xF), host(0xF)), cmp(EQ, bytes(4))),
        (meta(3), bitwise(host(0xF), host(0x3)), made("meta", _2=big(3), _3=big(1))),
        (meta(3), made("lookup", _1=b"set\0", _2=big(1))),
        (made("socket", _1=big(2), _2=big(1)), cmp(EQ, b"\x01")),
        (made("tproxy", _1=big(2), _2=big(1), _3=big(1)),),
        (made("immediate", _1=big(0), _2=attribute(2, attribute(1, struct.pack("!i", -1)))),),
        (made("immediate"),),
    ],
)
def test_what_we_never_write_is_told_as_that(expressions):
    """Whatever it does, it can't pass for a rule of ours."""
    assert UNKNOWN in words(*expressions)


@pytest.mark.parametrize(("operation", "said"), [(GTE, "tcp dport >= 80"), (LTE, "")])
def test_half_a_range(operation, said):
    found = words(*TCP, payload(2, 2, 2), cmp(operation, big(80, 2)), COUNTER)
    assert said in found
    assert said or UNKNOWN in found
