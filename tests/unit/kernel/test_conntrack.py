"""What the kernel (6.18) said of tracked connections, recorded byte for byte."""

from __future__ import annotations

import errno

import pytest

from meshnet.kernel import conntrack
from meshnet.kernel.netlink import ERROR
from meshnet.model.errors import PermissionMissing, ToolError
from tests.unit.kernel.datagrams import listed, play, refused, said

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


def test_tracked_connections(monkeypatch):
    script = play(monkeypatch, *listed(QUERY, CONNECTION))
    query, connection = conntrack.entries(4)
    assert script.asked == [(conntrack.GET, bytes((2, 0, 0, 0)))]
    assert (query.protocol, query.port, query.answered_from, query.zone) == (conntrack.UDP, 53, 15053, 2)
    assert query.translated and not connection.translated
    assert (connection.protocol, connection.port, connection.answered_from) == (conntrack.TCP, 8080, 8080)
    assert connection.open and not query.open and connection.zone == 0


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
def test_a_kernel_without_conntrack(monkeypatch, code):
    play(monkeypatch, refused(code))
    assert conntrack.entries(6) == ()


def test_without_capability(monkeypatch):
    play(monkeypatch, refused(errno.EPERM))
    with pytest.raises(PermissionMissing):
        conntrack.entries(4)
    play(monkeypatch, refused(errno.EIO))
    with pytest.raises(ToolError):
        conntrack.entries(4)


def test_the_family_is_asked_for_by_its_number(monkeypatch):
    script = play(monkeypatch, *listed())
    assert conntrack.entries(6) == ()
    assert script.asked == [(conntrack.GET, bytes((10, 0, 0, 0)))]


@pytest.mark.parametrize("protocol", ["01", "84", "3a"])
def test_what_is_neither_tcp_nor_udp_is_left_out(monkeypatch, protocol):
    play(monkeypatch, *listed(QUERY.replace("0500010011", f"05000100{protocol}"), CONNECTION))
    assert [entry.protocol for entry in conntrack.entries(4)] == [conntrack.TCP]


def test_several_are_forgotten_one_by_one(monkeypatch):
    play(monkeypatch, *listed(QUERY, CONNECTION))
    both = conntrack.entries(4)
    script = play(monkeypatch, refused(errno.ENOENT), said(ERROR, bytes(20)))
    assert conntrack.forget(both) == 1
    assert len(script.asked) == 2 and script.closed


def test_nothing_to_forget(monkeypatch):
    script = play(monkeypatch)
    assert conntrack.forget(()) == 0 and script.asked == []
