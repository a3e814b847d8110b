"""What the kernel (6.18) said of a table of nftables, recorded byte for byte."""

from __future__ import annotations

import errno

import pytest

from meshnet.kernel import nft_read
from meshnet.model.errors import PermissionMissing, ToolError
from meshnet.model.nft import RawTable
from meshnet.parse.nftables import understand
from tests.unit.kernel.datagrams import listed, play, refused
from tests.unit.kernel.tables import TABLE

FILTER = (  # chain z { type filter hook output priority -300; }
    "010000020600010074000000060003007a0000000c000200000000000000000114000400080001000000000308000200fffffed40800"
    "0500000000010b00070066696c746572000008000a00000000010800060000000002"
)
NAT = (  # chain n { type nat hook output priority -100; }
    "010000020600010074000000060003006e0000000c000200000000000000000214000400080001000000000308000200ffffff9c0800"
    "050000000001080007006e61740008000a00000000010800060000000001"
)
SET = (  # set s { type inet_service; flags interval; }
    "01000002060001007400000006000200730000000c00100000000000000000030800030000000004080004000000000d080005000000"
    "00020a000d000004020000000000040009001700130030786666666666666666383235303830653000000800140000000002"
)
ELEMENTS = (  # 80, 90-95
    "01000002060001007400000006000200730000006c000300180001000c00010006000100006000000800030000000001100001000c00"
    "010006000100005a0000180001000c00010006000100005100000800030000000001100001000c000100060001000050000018000100"
    "0c00010006000100000000000800030000000001"
)
ZONE = (  # in z: udp dport 53 ct zone set 2 comment "meshnet:z"
    "010000020600010074000000060002007a0000000c00030000000000000000040001040024000100090001006d657461000000001400"
    "0200080002000000001008000100000000012c00010008000100636d700020000200080001000000000108000200000000000c000300"
    "0500010011000000340001000c0001007061796c6f616400240002000800010000000001080002000000000208000300000000020800"
    "0400000000022c00010008000100636d700020000200080001000000000108000200000000000c00030006000100003500002c000100"
    "0e000100696d6d6564696174650000001800020008000100000000010c00020006000100020000002000010007000100637400001400"
    "02000800040000000001080002000000001110000700000a6d6573686e65743a7a00"
)
REDIRECT = (  # in n: udp dport 53 counter redirect to :15053
    "010000020600010074000000060002006e0000000c00030000000000000000063801040024000100090001006d657461000000001400"
    "0200080002000000001008000100000000012c00010008000100636d700020000200080001000000000108000200000000000c000300"
    "0500010011000000340001000c0001007061796c6f616400240002000800010000000001080002000000000208000300000000020800"
    "0400000000022c00010008000100636d700020000200080001000000000108000200000000000c00030006000100003500002c000100"
    "0c000100636f756e746572001c0002000c000100000000000000001d0c00020000000000000000012c0001000e000100696d6d656469"
    "6174650000001800020008000100000000010c000200060001003acd00002c0001000a00010072656469720000001c00020008000100"
    "0000000108000200000000010800030000000002"
)


def test_a_table(monkeypatch):
    play(monkeypatch, *listed(TABLE))
    (table,) = nft_read.tables()
    assert table == RawTable("t", "meshnet:table", 0, 3)
    play(monkeypatch, *listed(FILTER, NAT), *listed(SET), *listed(ELEMENTS), *listed(ZONE, REDIRECT))
    found = understand(nft_read.content(table))
    assert not found.table.strange
    assert [(item.name, item.ranges) for item in found.table.sets] == [("s", ((80, 80), (90, 95)))]
    assert {chain.name: (chain.head, chain.rules) for chain in found.table.chains} == {
        "z": (
            "type filter hook output priority -300; policy accept;",
            ('meta l4proto udp udp dport 53 ct zone set 2 comment "meshnet:z"',),
        ),
        "n": (
            "type nat hook output priority -100; policy accept;",
            ("meta l4proto udp udp dport 53 counter redirect to :15053",),
        ),
    }
    assert found.packets["n", "meta l4proto udp udp dport 53 counter redirect to :15053"] == 1


def test_a_table_that_goes_away_meanwhile(monkeypatch):
    table = RawTable("t", "", 0, 3)
    play(monkeypatch, *listed(FILTER), refused(errno.ENOENT))
    assert nft_read.content(table) == table


def test_what_is_of_another_table_is_left_out(monkeypatch):
    """Kernels before 5.x list the chains of all tables, whichever was asked for."""
    play(monkeypatch, *listed(FILTER, NAT), *listed(), *listed(ZONE))
    assert nft_read.content(RawTable("u", "", 0, 3)) == RawTable("u", "", 0, 3)


@pytest.mark.parametrize("code", nft_read.ABSENT)
def test_a_kernel_without_nf_tables(monkeypatch, code):
    play(monkeypatch, refused(code))
    assert nft_read.tables() == ()


@pytest.mark.parametrize(("code", "error"), [(errno.EPERM, PermissionMissing), (errno.EIO, ToolError)])
def test_what_can_t_be_read(monkeypatch, code, error):
    play(monkeypatch, refused(code))
    with pytest.raises(error):
        nft_read.tables()
    play(monkeypatch, refused(code))
    with pytest.raises(error):
        nft_read.content(RawTable("t", "", 0, 3))
