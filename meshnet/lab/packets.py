"""What a captured frame says: addresses, ports, flags, sizes. Only what a picture of a conversation needs."""

from __future__ import annotations

import socket
import struct

from meshnet.lab.capture import Frame
from meshnet.model.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from meshnet.model.cidr import Family

ETHERNET, IPV4, IPV6, TCP, UDP = 14, 0x0800, 0x86DD, 6, 17
SYN, RST, PSH, ACK, FIN = 0x02, 0x04, 0x08, 0x10, 0x01
OPTION_END, OPTION_NOTHING, OPTION_SEGMENT = 0, 1, 2
"""RFC 9293 section 3.2; linux/if_ether.h."""


@value
class Segment:
    """A TCP segment or UDP datagram on an interface. ``segment_size`` is the one announced with a SYN, else 0."""

    frame: Frame
    family: Family
    transport: int
    source: str
    source_port: int
    destination: str
    destination_port: int
    flags: int = 0
    sequence: int = 0
    acknowledged: int = 0
    length: int = 0
    segment_size: int = 0

    @property
    def flow(self) -> tuple[str, int, str, int]:
        return (self.source, self.source_port, self.destination, self.destination_port)

    @property
    def back(self) -> tuple[str, int, str, int]:
        return (self.destination, self.destination_port, self.source, self.source_port)

    @property
    def kind(self) -> str:
        """In a word: ``SYN``, ``SYN-ACK``, ``RST``, ``FIN``, ``data``, ``ACK`` or ``datagram``."""
        if self.transport == UDP:
            return "datagram"
        if self.flags & RST:
            return "RST"
        if self.flags & SYN:
            return "SYN-ACK" if self.flags & ACK else "SYN"
        if self.flags & FIN:
            return "FIN"
        return "data" if self.length else "ACK"


def read(frame: Frame) -> Segment | None:
    """The segment in a frame; None for anything else (ARP, neighbour discovery, ICMP)."""
    data = frame.data
    if len(data) < ETHERNET + 20:
        return None
    kind = int.from_bytes(data[12:14])
    if kind == IPV4:
        head = (data[ETHERNET] & 0x0F) * 4
        total = struct.unpack_from("!H", data, ETHERNET + 2)[0]
        ends = [socket.inet_ntop(socket.AF_INET, data[ETHERNET + at : ETHERNET + at + 4]) for at in (12, 16)]
        return _transport(frame, 4, data[ETHERNET + 9], ends, ETHERNET + head, total - head)
    if kind == IPV6 and len(data) >= ETHERNET + 40:
        total = struct.unpack_from("!H", data, ETHERNET + 4)[0]
        ends = [socket.inet_ntop(socket.AF_INET6, data[ETHERNET + at : ETHERNET + at + 16]) for at in (8, 24)]
        return _transport(frame, 6, data[ETHERNET + 6], ends, ETHERNET + 40, total)
    return None


def _transport(frame: Frame, family: Family, kind: int, ends: list[str], at: int, length: int) -> Segment | None:
    data = frame.data
    if kind == UDP and len(data) >= at + 8:
        source, destination = struct.unpack_from("!2H", data, at)
        return Segment(frame, family, kind, ends[0], source, ends[1], destination, length=length - 8)
    if kind != TCP or len(data) < at + 20:
        return None
    source, destination, sequence, acknowledged, offset, flags = struct.unpack_from("!2H2I2B", data, at)
    head = (offset >> 4) * 4
    size = _segment_size(data[at + 20 : at + head]) if flags & SYN else 0
    places = (ends[0], source, ends[1], destination)
    return Segment(frame, family, kind, *places, flags, sequence, acknowledged, length - head, size)


def _segment_size(options: bytes) -> int:
    at = 0
    while at < len(options) and options[at] != OPTION_END:
        if options[at] == OPTION_NOTHING:
            at += 1
            continue
        if at + 1 >= len(options) or options[at + 1] < 2:
            return 0
        if options[at] == OPTION_SEGMENT and at + 4 <= len(options):
            return int.from_bytes(options[at + 2 : at + 4])
        at += options[at + 1]
    return 0


def tcp_packet(source: str, destination: str, ports: tuple[int, int], numbers: tuple[int, int], data: bytes) -> bytes:
    """A whole IP packet with an ACK segment, ready for a raw socket; ``numbers`` are sequence and acknowledgement."""
    six = ":" in source
    ends = b"".join(
        socket.inet_pton(socket.AF_INET6 if six else socket.AF_INET, host) for host in (source, destination)
    )
    head = struct.pack("!2H2I2B3H", *ports, *(number & 0xFFFFFFFF for number in numbers), 5 << 4, ACK | PSH, 512, 0, 0)
    length = len(head) + len(data)
    pseudo = ends + (struct.pack("!I3xB", length, TCP) if six else struct.pack("!xBH", TCP, length))
    total = _sum(pseudo + head + data)
    segment = head[:16] + struct.pack("!H", total) + head[18:] + data
    if six:
        return struct.pack("!IHBB", 6 << 28, length, TCP, 64) + ends + segment
    # the kernel fills in the identification and the checksum of a raw packet (raw(7), IP_HDRINCL)
    return struct.pack("!2B3H2BH", 0x45, 0, 20 + length, 0, 0, 64, TCP, 0) + ends + segment


def _sum(data: bytes) -> int:
    """RFC 1071."""
    padded = data + bytes(len(data) % 2)
    total: int = sum(struct.unpack(f"!{len(padded) // 2}H", padded))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return 0xFFFF - total
