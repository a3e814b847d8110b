from __future__ import annotations

import struct

import pytest

from meshnet.lab.capture import (
    BUFFER,
    PACKET_OUTGOING,
    SO_RCVBUFFORCE,
    SO_TIMESTAMPNS,
    Frame,
    _drained,
    _roomy,
    write_pcap,
)


class Socket:
    """Packets that wait; ``forced``: whether the whole buffer may be had."""

    def __init__(self, *packets, forced=True):
        self.packets, self.forced, self.options = list(packets), forced, []

    def recvmsg(self, *_):
        if not self.packets:
            raise BlockingIOError
        data, out, *times = self.packets.pop(0)
        return (
            data,
            [(1, SO_TIMESTAMPNS, struct.pack("qq", *pair)) for pair in times],
            0,
            ("x", 0, PACKET_OUTGOING if out else 0),
        )

    def setsockopt(self, _, option, size):
        if option == SO_RCVBUFFORCE and not self.forced:
            raise PermissionError
        self.options.append((option, size))


def test_packets_have_their_time_and_their_way():
    frames = _drained("eth0", Socket((b"a", False, (1, 5)), (b"b", True, (2, 0)), (b"c", False)))
    assert frames == [
        Frame("eth0", 1_000_000_005, False, b"a"),
        Frame("eth0", 2_000_000_000, True, b"b"),
        Frame("eth0", 0, False, b"c"),
    ]


def test_on_lo_a_packet_counts_once():
    assert [frame.data for frame in _drained("lo", Socket((b"a", True), (b"a", False)))] == [b"a"]


@pytest.mark.parametrize("forced", [True, False])
def test_as_much_room_as_may_be_had(forced):
    made = Socket(forced=forced)
    _roomy(made)
    ((option, size),) = made.options
    assert (option == SO_RCVBUFFORCE, size) == (forced, BUFFER)


def test_a_file_that_others_read(tmp_path):
    write_pcap(tmp_path / "x.pcap", [Frame("eth0", 3_000_000_007, True, b"abc")])
    data = (tmp_path / "x.pcap").read_bytes()
    assert struct.unpack_from("=IHHiIII", data) == (0xA1B23C4D, 2, 4, 0, 0, 65535, 1)
    assert struct.unpack_from("=IIII", data, 24) == (3, 7, 3, 3)
    assert data[40:] == b"abc"
    write_pcap(tmp_path / "x.pcap", [])
    assert len((tmp_path / "x.pcap").read_bytes()) == 24
