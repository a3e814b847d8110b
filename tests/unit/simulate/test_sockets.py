from __future__ import annotations

from meshnet.model.host import Host, Listener
from meshnet.simulate.packet import TCP, UDP, Sock
from meshnet.simulate.sockets import Sockets


def sockets(*listeners, assume=False):
    return Sockets(Host(listeners=listeners, assume=assume))


def name(sock):
    return None if sock is None else sock.name


ANY = Listener("any", "tcp", 80)
FOUR = Listener("four", "tcp", 80, 4)
MINE = Listener("mine", "tcp", 80, None, 7)
VERY = Listener("very", "tcp", 80, 4, 7)


def test_the_best_fit_listens_in_any_order():
    for listeners in ((ANY, FOUR, MINE, VERY), (VERY, MINE, FOUR, ANY)):
        held = sockets(*listeners)
        assert name(held.listening(4, TCP, 7, 80)) == "very"
        assert name(held.listening(4, TCP, 8, 80)) == "four"
        assert name(held.listening(6, TCP, 7, 80)) == "mine"
        assert name(held.listening(6, TCP, 8, 80)) == "any"


def test_another_port_protocol_or_family_is_nobody_s():
    held = sockets(FOUR)
    assert (held.listening(4, TCP, 7, 81), held.listening(4, UDP, 7, 80), held.listening(6, TCP, 7, 80)) == (None,) * 3


def test_a_connection_goes_before_who_listens_and_only_between_its_own_ends():
    held = sockets(ANY)
    held.connect(Sock("one", 4, TCP, 7, 80, peer=9, peer_port=1000))
    assert name(held.owner(4, TCP, 9, 1000, 7, 80)) == "one"
    assert name(held.owner(4, TCP, 9, 1001, 7, 80)) == "any"
    assert name(held.owner(4, TCP, 7, 80, 9, 1000)) is None
    held.forget()
    assert name(held.owner(4, TCP, 9, 1000, 7, 80)) == "any"


def test_tproxy_finds_the_connection_first_then_who_listens_where_it_says():
    held = sockets(Listener("proxy", "tcp", 15006, transparent=True), ANY)
    assert name(held.for_tproxy(4, TCP, 9, 1000, 7, 80, (7, 15006))) == "proxy"
    held.connect(Sock("one", 4, TCP, 7, 80, peer=9, peer_port=1000))
    assert name(held.for_tproxy(4, TCP, 9, 1000, 7, 80, (7, 15006))) == "one"
    assert held.for_tproxy(4, TCP, 9, 1, 7, 80, (7, 15007)) is None


def test_whoever_is_not_known_is_assumed_where_facts_are_assumptions():
    held = sockets(assume=True)
    assert name(held.receiver(4, TCP, 9, 1, 7, 80)) == "application"
    assert name(held.receiver(4, UDP, 9, 1, 7, 53)) == ""
    assert held.owner(4, TCP, 9, 1, 7, 80) is None
    assert held.for_tproxy(6, TCP, 9, 1, 7, 80, (0, 15006)).transparent
    assert sockets().receiver(4, TCP, 9, 1, 7, 80) is None
