"""Packets written and read with scapy: the only module that imports it (GPL-2.0-only, the extra ``meshnet[probe]``).

A packet is built once per probe (a millisecond) and sent as bytes on an open packet socket; frames that come back
are taken apart by scapy too.
"""

from __future__ import annotations

from meshnet.model.cidr import address_text, read_address
from meshnet.model.errors import UnsupportedError
from meshnet.model.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from meshnet.model.cidr import Family
    from meshnet.model.flow import Flow

DNS_QUERY = bytes.fromhex("6d6e01000001000000000000") + b"\x05probe\x07meshnet\x00" + bytes.fromhex("00010001")
"""A query for the address of probe.meshnet (RFC 1035 section 4)."""


@value
class Segment:
    """What a frame held: ends, TCP flags and announced segment size, or (flags empty) what a UDP datagram said."""

    family: Family
    source: int
    destination: int
    source_port: int
    port: int
    flags: str = ""
    mss: int = 0
    sequence: int = 0
    said: bytes = b""


def _scapy() -> Any:
    try:
        from scapy.layers import inet, inet6, l2
    except ImportError as error:
        raise UnsupportedError(
            ["verify sends packets with scapy, which is not installed"], hint="pip install 'meshnet[probe]'"
        ) from error
    return inet, inet6, l2


def check() -> None:
    """UnsupportedError where scapy is missing, before anything was made in a namespace."""
    _scapy()


def first_packet(flow: Flow, source_port: int, macs: tuple[str, str]) -> bytes:
    """The frame of a flow's first packet, from ``macs[0]`` to ``macs[1]``: a SYN, or a DNS query over UDP."""
    inet, _, _ = _scapy()
    ends = {"sport": source_port, "dport": flow.port}
    if flow.transport == "tcp":
        body = inet.TCP(**ends, flags="S", seq=1000, options=[("MSS", 1400)])
    else:
        body = inet.UDP(**ends) / DNS_QUERY
    return _frame(flow.family, flow.source, flow.destination, macs, body)


def reset(answered: Segment, macs: tuple[str, str]) -> bytes:
    """The frame that ends a connection whose SYN or SYN-ACK was seen, from its receiver's side."""
    inet, _, _ = _scapy()
    ports = {"sport": answered.port, "dport": answered.source_port}
    body = inet.TCP(**ports, flags="RA", seq=0 if answered.flags == "S" else 1001, ack=answered.sequence + 1)
    return _frame(answered.family, answered.destination, answered.source, macs, body)


def _frame(family: Family, source: int, destination: int, macs: tuple[str, str], body: Any) -> bytes:
    inet, inet6, l2 = _scapy()
    ends = {"src": address_text(family, source), "dst": address_text(family, destination)}
    network = inet.IP(**ends) if family == 4 else inet6.IPv6(**ends)
    return bytes(l2.Ether(src=macs[0], dst=macs[1]) / network / body)


def read_frame(frame: bytes) -> Segment | None:
    """The TCP or UDP segment in a frame; None for anything else."""
    inet, inet6, l2 = _scapy()
    packet = l2.Ether(frame)
    network = packet.getlayer(inet.IP) or packet.getlayer(inet6.IPv6)
    body = packet.getlayer(inet.TCP) or packet.getlayer(inet.UDP)
    if network is None or body is None:
        return None
    family, source = read_address(network.src)
    _, destination = read_address(network.dst)
    if not isinstance(body, inet.TCP):
        return Segment(family, source, destination, body.sport, body.dport, said=bytes(body.payload))
    mss = next((option[1] for option in body.options if option[0] == "MSS"), 0)
    return Segment(family, source, destination, body.sport, body.dport, str(body.flags), mss, body.seq)
