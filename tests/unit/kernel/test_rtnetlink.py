"""What the kernel (6.18) said in a namespace with these rules, routes and addresses, recorded byte for byte."""

from __future__ import annotations

import errno

import pytest

from meshnet.kernel import netlink, rtnetlink
from meshnet.kernel.rtnetlink import SeenAddress, SeenRoute, SeenRouting, SeenRule
from meshnet.model.errors import ToolError
from tests.unit.kernel.datagrams import done, play, refused, said

LOCAL4 = "02000000ff0000010000000008000f00ff00000008000e00ffffffff0500150002000000"
EVERYTHING4 = (  # not from 10.0.0.0/8 to 10.1.2.3 fwmark 0x539/0xfff iif d0 oif lo lookup 7000 pref 109 protocol 109
    "02200800fc0000010200000008000f00581b000008000e00ffffffff050015006d0000000700030064300000070011006c6f00000800060"
    "06d00000008000a003905000008001000ff0f0000080001000a010203080002000a000000"
)
MARKED6 = (  # fwmark 0x539 lookup 133 pref 109 protocol 109
    "0a000000850000010000000008000f008500000008000e00ffffffff050015006d000000080006006d00000008000a0039050000080010"
    "00ffffffff"
)
FROM6 = (  # from 2001:db8::/32 lookup 133 pref 110
    "0a002000850000010000000008000f008500000008000e00ffffffff0500150000000000080006006e0000001400020020010db8000000"
    "000000000000000000"
)
VIA4 = (  # 10.9.0.0/16 via 10.0.0.9 dev #3 table 7000 proto 109 metric 7
    "02100000fc6d00010000000008000f00581b0000080001000a0900000800060007000000080005000a0000090800040003000000"
)
DEFAULT4 = "02000000856dfe020000000008000f00850000000800040001000000"  # local default dev lo table 133 proto 109
PASSED6 = (  # local ::6 dev lo table 133 proto 109
    "0a800000856d00020000000008000f008500000014000100000000000000000000000000000000060800060000040000080004000100000"
    "024000c0000000000000000000000000000000000000000000000000000000000000000000500140000000000"
)
LO4 = (  # 127.0.0.1/8 on lo
    "020880fe01000000080001007f000001080002007f000001070003006c6f0000080008008000000014000600ffffffffffffffffe7e401"
    "00e7e40100"
)
POD4 = (  # 10.0.0.1/24 on d0
    "0218800003000000080001000a000001080002000a0000010700030064300000080008008000000014000600ffffffffffffffffe8e401"
    "00e8e40100"
)
PEER4 = (  # 10.7.0.1 peer 10.7.0.2/32 on d0
    "0220800003000000080001000a070002080002000a0700010700030064300000080008008000000014000600ffffffffffffffffe8e401"
    "00e8e40100"
)
PASSTHROUGH6 = (  # ::6/128 on lo
    "0a80820001000000140001000000000000000000000000000000000614000600ffffffffffffffffe9e40100e9e401000800080082000000"
)
LINK6 = (  # fe80::1073:7bff:fe7c:616f/64 on d1
    "0a40c0fd0200000014000100fe8000000000000010737bfffe7c616f14000600ffffffffffffffffe8e40100e8e4010008000800c00000"
    "0005000b0003000000"
)


@pytest.fixture(autouse=True)
def names(monkeypatch):
    def name(index: int) -> str:
        if index == 9:
            raise OSError(errno.ENXIO, "gone")
        return {1: "lo", 3: "d0"}[index]

    monkeypatch.setattr(rtnetlink, "if_indextoname", name)


def listing(*recorded: str):
    return said(24, *map(bytes.fromhex, recorded))


def play_all(monkeypatch, rules=(), routes=(), addresses=()):
    return play(monkeypatch, *(part for lists in (addresses, rules, routes) for part in (listing(*lists), done())))


def test_ipv4_as_it_was_recorded(monkeypatch):
    play_all(monkeypatch, [LOCAL4, EVERYTHING4], [VIA4, DEFAULT4], [LO4, POD4])
    assert rtnetlink.read(4) == SeenRouting(
        (
            SeenRule(0, 255, 2),
            SeenRule(109, 7000, 109, True, "10.0.0.0/8", "10.1.2.3/32", "0x539/0xfff", "d0", "lo"),
        ),
        (
            SeenRoute(1, "10.9.0.0/16", 7000, 109, "10.0.0.9", "d0", 7),
            SeenRoute(2, "0.0.0.0/0", 133, 109, device="lo"),
        ),
        ("127.0.0.1/8",),
    )


def test_ipv6_as_it_was_recorded(monkeypatch):
    play_all(monkeypatch, [MARKED6, FROM6], [PASSED6], [PASSTHROUGH6, LINK6])
    assert rtnetlink.read(6) == SeenRouting(
        (SeenRule(109, 133, 109, mark="0x539/0xffffffff"), SeenRule(110, 133, 0, source="2001:db8::/32")),
        (SeenRoute(2, "::6/128", 133, 109, device="lo", metric=1024),),
        ("::6/128",),
    )


def test_rules_and_routes_of_one_protocol(monkeypatch):
    other = VIA4.replace("fc6d", "fc63")
    script = play_all(monkeypatch, [LOCAL4, EVERYTHING4], [other, DEFAULT4])
    seen = rtnetlink.read(4, 109)
    assert ([rule.priority for rule in seen.rules], [route.table for route in seen.routes]) == ([109], [133])
    assert script.asked[2][1] == bytes([2, 0, 0, 0, 0, 109, 0, 0, 0, 0, 0, 0]), "the kernel is asked for no other"


def test_addresses_and_who_can_reach_them(monkeypatch):
    play(monkeypatch, listing(LO4, POD4, PEER4), done())
    assert rtnetlink.addresses(4) == (
        SeenAddress("127.0.0.1/8", True, False),
        SeenAddress("10.0.0.1/24", False, True),
        SeenAddress("10.7.0.1/32", False, True),
    )


def test_an_interface_that_went_away_has_no_name(monkeypatch):
    play_all(monkeypatch, routes=[VIA4.replace("0800040003", "0800040009")])
    assert rtnetlink.read(4).routes[0].device == ""


def test_a_kernel_without_ipv6_answers_with_ipv4_s(monkeypatch):
    """rtnl_dump_all; about rules, it refuses."""
    play(monkeypatch, listing(LO4), done(), refused(errno.EAFNOSUPPORT), listing(VIA4), done())
    assert rtnetlink.read(6) == SeenRouting()


def test_any_other_refusal_is_an_error(monkeypatch):
    play(monkeypatch, refused(errno.EPERM))
    with pytest.raises(ToolError, match="can't read IPv6 rules and routes: Operation not permitted"):
        rtnetlink.read(6)


def test_a_kernel_that_gives_no_socket_is_an_error(monkeypatch):
    def refuse(*_):
        raise OSError(errno.EAFNOSUPPORT, "Address family not supported by protocol")

    monkeypatch.setattr(netlink, "Socket", refuse)
    for question in (rtnetlink.read, rtnetlink.addresses):
        with pytest.raises(ToolError, match=r"can't read IPv4 .*: Address family not supported"):
            question(4)
