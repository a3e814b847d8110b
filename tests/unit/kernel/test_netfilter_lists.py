"""What the kernel (6.18) said of tracked connections, sets and a table of nftables, recorded byte for byte."""

from __future__ import annotations

import errno

import pytest

from meshnet.kernel import conntrack, ipsets, nft_read, nft_table
from meshnet.kernel.netlink import ERROR
from meshnet.model.errors import PermissionMissing, ToolError
from meshnet.model.nft import RawTable
from meshnet.model.plan import SetText
from meshnet.parse.nftables import understand
from tests.unit.kernel.datagrams import done, play, refused, said

QUERY = (  # 127.0.0.1:40053 asks 127.0.0.9:53 over UDP, in zone 2, led to port 15053
    "020000003400018014000180080001007f000001080002007f0000091c0002800500010011000000060002009c750000060003000035"
    "00003400028014000180080001007f000001080002007f0000011c0002800500010011000000060002003acd0000060003009c750000"
    "060012000002000008000300000001a8080008000000000008000c008046099308000b0000000001080007000000001d"
)
CONNECTION = (  # 127.0.0.1:40080 to 127.0.0.1:8080 over TCP, established
    "020000003400018014000180080001007f000001080002007f0000011c0002800500010006000000060002009c900000060003001f90"
    "00003400028014000180080001007f000001080002007f0000011c0002800500010006000000060002001f900000060003009c900000"
    "080003000000018e080008000000000008000c00c88378aa08000b00000000010800070000069780300004802c000180050001000300"
    "0000050002000a000000050003000a00000006000400230000000600050023000000"
)
NAME0 = (  # MESHNET_6_1
    "020000000500010006000000100002004d4553484e45545f365f31000d000300686173683a6e657400000000050005000a0000000500"
    "0400070000003c00078008001240000004000800134000010000050015000c000000080011403d05cc58080019400000000008001a40"
    "000005680800184000000002"
)
NAME1 = (  # MESHNET_P_1
    "020000000500010006000000100002004d4553484e45545f505f3100100003006269746d61703a706f72740005000500000000000500"
    "0400030000002c000780060004400000000006000540ffff0000080019400000000008001a40000020480800184000000002"
)
NAME2 = (  # OTHER
    "0200000005000100060000000a0002004f544845520000000c000300686173683a697000050005000200000005000400060000003c00"
    "078008001240000004000800134000010000050015000c00000008001140e54dad0b080019400000000008001a40000000d808001840"
    "00000000"
)
NET6 = (  # hash:net of fd00::/8 and ::1
    "020000000500010006000000100002004d4553484e45545f365f31000d000300686173683a6e657400000000050005000a0000000500"
    "0400070000003c00078008001240000004000800134000010000050015000c000000080011403d05cc58080019400000000008001a40"
    "0000056808001840000000024c0008802400078018000180140002000000000000000000000000000000000105000300800000002400"
    "07801800018014000200fd0000000000000000000000000000000500030008000000"
)
PORTS = (  # bitmap:port of 80-81
    "020000000500010006000000100002004d4553484e45545f505f3100100003006269746d61703a706f72740005000500000000000500"
    "0400030000002c000780060004400000000006000540ffff0000080019400000000008001a400000204808001840000000021c000880"
    "0c00078006000440005000000c0007800600044000510000"
)
TABLE = (  # table inet t { comment "meshnet:table"; … }
    "01000002060001007400000008000300000000030c0004000000000000000001080002000000000014000600000e6d6573686e65743a"
    "7461626c6500"
)
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


def listed(*bodies: str):
    return (*(said(7, bytes.fromhex(body)) for body in bodies), done())


def test_tracked_connections(monkeypatch):
    script = play(monkeypatch, *listed(QUERY, CONNECTION))
    query, connection = conntrack.entries(4)
    assert script.asked == [(conntrack.GET, bytes((2, 0, 0, 0)))]
    assert (query.protocol, query.port, query.answered_from, query.zone) == (conntrack.UDP, 53, 15053, 2)
    assert query.translated and not connection.translated
    assert (connection.protocol, connection.port, connection.answered_from) == (conntrack.TCP, 8080, 8080)
    assert connection.tcp_state in conntrack.OPEN and connection.zone == 0


def test_forgetting_names_the_entry_and_its_zone(monkeypatch):
    play(monkeypatch, *listed(QUERY))
    (query,) = conntrack.entries(4)
    script = play(monkeypatch, said(ERROR, bytes(20)))
    assert conntrack.forget([query]) == 1
    ((kind, body),) = script.asked
    assert kind == conntrack.DELETE
    assert query.tuple in body and query.number in body and bytes((6, 0, 18, 0, 0, 2)) in body


def test_who_is_gone_already_needs_no_forgetting(monkeypatch):
    play(monkeypatch, *listed(CONNECTION))
    (entry,) = conntrack.entries(4)
    play(monkeypatch, refused(errno.ENOENT))
    assert conntrack.forget([entry]) == 0
    play(monkeypatch, refused(errno.EBUSY))
    with pytest.raises(ToolError, match="forgotten"):
        conntrack.forget([entry])


@pytest.mark.parametrize("code", [errno.EOPNOTSUPP, errno.EINVAL, errno.EPROTONOSUPPORT, errno.ENOENT])
def test_a_kernel_without_conntrack_or_sets(monkeypatch, code):
    play(monkeypatch, refused(code))
    assert conntrack.entries(6) == ()
    monkeypatch.setattr(ipsets, "MODULE", "/")
    play(monkeypatch, refused(code))
    assert ipsets.read("MESHNET_") == ()


@pytest.mark.parametrize("look", [lambda: conntrack.entries(4), lambda: ipsets.read("M"), nft_read.tables])
def test_without_capability(monkeypatch, look):
    monkeypatch.setattr(ipsets, "MODULE", "/")
    play(monkeypatch, refused(errno.EPERM))
    with pytest.raises(PermissionMissing):
        look()
    play(monkeypatch, refused(errno.EIO))
    with pytest.raises(ToolError):
        look()


def test_sets_of_ours(monkeypatch):
    monkeypatch.setattr(ipsets, "MODULE", "/")
    script = play(monkeypatch, *listed(NAME0, NAME1, NAME2), *listed(NET6), *listed(PORTS))
    assert ipsets.read("MESHNET_") == (
        SetText("MESHNET_6_1", "hash:net", 6, ((1, 128), (0xFD << 120, 8))),
        SetText("MESHNET_P_1", "bitmap:port", 0, ((80, 81),)),
    )
    assert len(script.asked) == 3, "nobody else's set is read"


def test_no_look_where_no_set_ever_was(monkeypatch):
    monkeypatch.setattr(ipsets, "MODULE", "/sys/module/no-such-module")
    script = play(monkeypatch)
    assert ipsets.read("MESHNET_") == () and script.asked == []


def test_a_table(monkeypatch):
    play(monkeypatch, *listed(TABLE))
    assert nft_table.inet_tables() == (("t", "meshnet:table"),)
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
