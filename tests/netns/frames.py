"""Ethernet frames by hand: an IP packet of either family with TCP, UDP or an ICMP echo in it, there and back."""

from __future__ import annotations

import struct
from typing import NamedTuple

TCP, UDP, ICMP, ICMP6 = 6, 17, 1, 58
ETHERTYPE = {4: 0x0800, 6: 0x86DD}
BYTES = {4: 4, 6: 16}


class Seen(NamedTuple):
    family: int
    protocol: int
    source: int
    source_port: int
    destination: int
    port: int
    flags: int


def checksum(data: bytes) -> int:
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def frame(macs: tuple[bytes, bytes], packet: Seen) -> bytes:
    """From ``macs[0]`` to ``macs[1]``. Of ICMP the port is the type and the source port the identifier."""
    family = packet.family
    ends = packet.source.to_bytes(BYTES[family]) + packet.destination.to_bytes(BYTES[family])
    body = _body(packet)
    pseudo = ends + (
        struct.pack("!BBH", 0, packet.protocol, len(body))
        if family == 4
        else struct.pack("!IHBB", len(body), 0, 0, packet.protocol)
    )
    place = {TCP: 16, UDP: 6}.get(packet.protocol, 2)
    summed = checksum((b"" if packet.protocol == ICMP else pseudo) + body)
    body = body[:place] + struct.pack("!H", summed) + body[place + 2 :]
    if family == 6:
        head = struct.pack("!IHBB", 0x60000000, len(body), packet.protocol, 64) + ends
    else:
        head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(body), 1, 0, 64, packet.protocol, 0) + ends
        head = head[:10] + struct.pack("!H", checksum(head)) + head[12:]
    return macs[1] + macs[0] + struct.pack("!H", ETHERTYPE[family]) + head + body


def _body(packet: Seen) -> bytes:
    if packet.protocol == TCP:
        return struct.pack("!HHIIBBHHH", packet.source_port, packet.port, 1000, 0, 5 << 4, packet.flags, 65535, 0, 0)
    if packet.protocol == UDP:
        return struct.pack("!HHHH", packet.source_port, packet.port, 12, 0) + b"fuzz"
    return struct.pack("!BBHHH", packet.port, 0, 0, packet.source_port, 1)


def read(data: bytes) -> Seen | None:
    """The packet in a frame; None for what is none of these."""
    (kind,) = struct.unpack_from("!H", data, 12)
    if kind == 0x0800:
        length, protocol = (data[14] & 15) * 4, data[23]
        source, destination = data[26:30], data[30:34]
    elif kind == 0x86DD:
        length, protocol = 40, data[20]
        source, destination = data[22:38], data[38:54]
    else:
        return None
    body = data[14 + length :]
    ends = int.from_bytes(source), int.from_bytes(destination)
    family = 4 if kind == 0x0800 else 6
    if protocol in (TCP, UDP):
        source_port, port = struct.unpack_from("!HH", body)
        return Seen(family, protocol, ends[0], source_port, ends[1], port, body[13] if protocol == TCP else 0)
    if protocol in (ICMP, ICMP6):
        return Seen(family, protocol, ends[0], struct.unpack_from("!H", body, 4)[0], ends[1], body[0], 0)
    return None
