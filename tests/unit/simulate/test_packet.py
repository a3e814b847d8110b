from __future__ import annotations

from meshnet.simulate.packet import NUMBERS, TCP, UDP, Connection, Packet, Sock


def test_a_connection_expects_its_answer_from_the_other_end():
    ends = Packet(4, TCP, 1, 1000, 2, 80).ends()
    assert ends == (TCP, 1, 1000, 2, 80)
    assert Connection(ends, (0, 0)).reply == (TCP, 2, 80, 1, 1000)


def test_a_fresh_packet_belongs_to_nothing():
    packet = Packet(6, UDP, 1, 2, 3, 4, mark=5)
    assert (packet.connection, packet.state, packet.template, packet.assigned, packet.hops) == (
        None,
        "",
        None,
        None,
        [],
    )
    assert not packet.captured and not packet.reply


def test_a_decision_of_the_kernel_s_own_is_noted_with_hook_and_mark():
    packet = Packet(4, TCP, 1, 1000, 2, 80, mark=7)
    packet.hook = "INPUT"
    packet.note("delivered")
    assert packet.hops == [("INPUT", "", "", 0, None, "delivered", 7)]


def test_packets_share_no_hops():
    first, second = Packet(4, TCP, 1, 1, 1, 1), Packet(4, TCP, 1, 1, 1, 1)
    first.note("x")
    assert second.hops == []


def test_a_socket_that_listens_has_no_peer():
    assert Sock("a", None, NUMBERS["udp"], None, 53).peer is None
