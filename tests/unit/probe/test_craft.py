from __future__ import annotations

import sys

import pytest

from meshnet.model.cidr import read_address
from meshnet.model.errors import UnsupportedError
from meshnet.model.flow import Flow
from meshnet.probe import craft

MACS = ("02:00:00:00:00:01", "02:00:00:00:00:02")
ENDS = {4: ("192.0.2.1", "192.0.2.2"), 6: ("2001:db8::1", "2001:db8::2")}


def flow(family: int, transport: str) -> Flow:
    source, destination = (read_address(text)[1] for text in ENDS[family])
    return Flow("in", family, transport, source, destination, 53, "eth0")


@pytest.mark.parametrize("family", [4, 6])
def test_a_syn_reads_back(family: int) -> None:
    frame = craft.first_packet(flow(family, "tcp"), 61000, MACS)
    read = craft.read_frame(frame)
    assert read is not None and (read.family, read.source_port, read.port) == (family, 61000, 53)
    assert (read.flags, read.mss, read.sequence) == ("S", 1400, 1000)
    assert (read.source, read.destination) == tuple(read_address(text)[1] for text in ENDS[family])
    assert frame[:12] == bytes.fromhex("020000000002020000000001")


@pytest.mark.parametrize("family", [4, 6])
def test_a_query_reads_back(family: int) -> None:
    read = craft.read_frame(craft.first_packet(flow(family, "udp"), 61000, MACS))
    assert read is not None and read.flags == "" and read.said == craft.DNS_QUERY


@pytest.mark.parametrize("family", [4, 6])
def test_a_reset_goes_back_to_the_sender(family: int) -> None:
    syn = craft.read_frame(craft.first_packet(flow(family, "tcp"), 61000, MACS))
    back = craft.read_frame(craft.reset(syn, MACS))
    assert back is not None and (back.source_port, back.port, back.flags) == (53, 61000, "RA")
    assert (back.source, back.destination) == (syn.destination, syn.source)


def test_what_is_no_segment() -> None:
    assert craft.read_frame(bytes(12) + b"\x08\x06" + bytes(28)) is None


def test_without_scapy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scapy.layers", None)
    with pytest.raises(UnsupportedError) as caught:
        craft.check()
    assert "meshnet[probe]" in caught.value.hint
