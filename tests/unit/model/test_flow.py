from __future__ import annotations

from meshnet.model.cidr import read_address
from meshnet.model.flow import Flow


def number(text):
    return read_address(text)[1]


def test_a_packet_that_enters():
    flow = Flow("in", 4, "tcp", number("10.0.0.1"), number("10.0.0.2"), 80, "eth0")
    assert str(flow) == "in by eth0: 10.0.0.1 > 10.0.0.2:80/tcp"


def test_a_packet_that_leaves_says_whose_it_is():
    flow = Flow("out", 6, "udp", number("fd00::1"), number("::1"), 53, "lo", 7, 8)
    assert str(flow) == "out by lo, uid 7 gid 8: [fd00::1] > [::1]:53/udp"
    marked = Flow("out", 4, "tcp", 0, 0, 0, "eth0", 0, 0, 0x539)
    assert str(marked) == "out by eth0, uid 0 gid 0 mark 0x539: 0.0.0.0 > 0.0.0.0:0/tcp"
