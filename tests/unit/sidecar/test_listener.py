from __future__ import annotations

import socket

import pytest

from meshnet.model.ports import PortRange
from meshnet.sidecar import listener
from meshnet.sidecar.config import Settings
from meshnet.sidecar.listener import close_all, listening, open_listeners


class Opened:
    """Listeners without sockets; one family and port may be taken already."""

    def __init__(self, taken=None):
        self.taken, self.asked, self.closed = taken, [], 0

    def __call__(self, family, number, *, through, segment):
        if (family, number) == self.taken:
            raise OSError(98, "Address already in use")
        self.asked.append((family, number, through, segment))
        return self

    def close(self):
        self.closed += 1


@pytest.fixture
def opened(monkeypatch):
    def made(taken=None):
        found = Opened(taken)
        monkeypatch.setattr(listener, "listening", found)
        return found

    return made


def settings(**more):
    return Settings(**{"families": (4, 6), "inbound_ports": PortRange(15006, 15007), "outbound_port": 15001} | more)


def test_one_for_each_family_port_and_direction(opened):
    made = opened()
    found = open_listeners(settings())
    assert [(item.direction, item.port) for item in found] == [
        ("inbound", 15006),
        ("inbound", 15007),
        ("outbound", 15001),
    ] * 2
    assert [family for family, *_ in made.asked] == [4, 4, 4, 6, 6, 6]


def test_each_direction_announces_its_own_segment_size(opened):
    made = opened()
    open_listeners(settings(families=(4,), segment_sizes=(1000, 1100)))
    assert [segment for *_, segment in made.asked] == [1000, 1000, 1100]


@pytest.mark.parametrize("taken", [(4, 15007), (6, 15001)])
def test_all_or_none(opened, taken):
    made = opened(taken)
    with pytest.raises(OSError):
        open_listeners(settings())
    assert made.closed == len(made.asked) > 0


@pytest.mark.parametrize(("family", "kind"), [(4, socket.AF_INET), (6, socket.AF_INET6)])
def test_a_socket_of_one_family(family, kind):
    with listening(family, 0, segment=1000) as made:
        assert made.family == kind and not made.getblocking()
        assert made.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) == 1
        if family == 6:
            assert made.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY) == 1


def test_a_port_that_is_taken():
    with listening(4, 0, "127.0.0.1") as first, pytest.raises(OSError):
        listening(4, first.getsockname()[1], "127.0.0.1")


def test_closing_closes_every_one(opened):
    made = opened()
    close_all(open_listeners(settings(families=(4,))))
    assert made.closed == 3
