from __future__ import annotations

import struct

import pytest

from meshnet.lab.calls import query, read_text_record
from meshnet.lab.capture import Frame, write_pcap
from meshnet.lab.packets import ACK, RST, SYN, Segment, read, tcp_packet
from meshnet.lab.resolver import answer

HEAD = {4: bytes(12) + b"\x08\x00", 6: bytes(12) + b"\x86\xdd"}


def frame(packet: bytes, interface: str = "lo", at: int = 0, *, out: bool = False) -> Frame:
    return Frame(interface, at, out, HEAD[6 if packet[0] >> 4 == 6 else 4] + packet)


@pytest.mark.parametrize(("source", "destination"), [("10.0.0.1", "10.0.0.2"), ("fd00::1", "fd00::2")])
def test_a_packet_is_read_back_as_it_was_made(source: str, destination: str) -> None:
    found = read(frame(tcp_packet(source, destination, (4711, 80), (7, 9), b"hello")))
    assert isinstance(found, Segment)
    assert found.flow == (source, 4711, destination, 80)
    assert (found.sequence, found.acknowledged, found.length, found.kind) == (7, 9, 5, "data")


def test_the_checksum_is_the_one_of_the_rfc() -> None:
    packet = tcp_packet("10.0.0.1", "10.0.0.2", (1, 2), (3, 4), b"odd")
    pseudo = bytes((10, 0, 0, 1, 10, 0, 0, 2, 0, 6)) + struct.pack("!H", len(packet) - 20)
    whole = pseudo + packet[20:]
    total = sum(struct.unpack(f"!{(len(whole) + 1) // 2}H", whole + bytes(len(whole) % 2)))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    assert total == 0xFFFF


@pytest.mark.parametrize(
    ("flags", "kind"),
    [(SYN, "SYN"), (SYN | ACK, "SYN-ACK"), (RST, "RST"), (RST | ACK, "RST"), (ACK, "ACK"), (1, "FIN")],
)
def test_kinds(flags: int, kind: str) -> None:
    assert Segment(Frame("lo", 0, False, b""), 4, 6, "a", 1, "b", 2, flags).kind == kind


def test_what_is_no_segment_is_nothing() -> None:
    for data in (b"", bytes(60), HEAD[4] + bytes(20), HEAD[6] + bytes(39), bytes(12) + b"\x08\x06" + bytes(40)):
        assert read(Frame("eth0", 0, False, data)) is None


def test_a_pcap_has_the_frames_and_their_times(tmp_path) -> None:
    frames = [frame(tcp_packet("10.0.0.1", "10.0.0.2", (1, 2), (3, 4), b""), at=1_500_000_007)]
    write_pcap(tmp_path / "x.pcap", frames)
    data = (tmp_path / "x.pcap").read_bytes()
    assert struct.unpack("=I", data[:4])[0] == 0xA1B23C4D
    assert struct.unpack("=IIII", data[24:40]) == (1, 500_000_007, len(frames[0].data), len(frames[0].data))
    assert data[40:] == frames[0].data


def test_a_resolver_answers_with_its_name() -> None:
    assert read_text_record(answer(query(), "dns-proxy")) == "dns-proxy"
    assert read_text_record(b"short") == "garbage"
