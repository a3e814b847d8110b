from __future__ import annotations

import pytest

from meshnet.simulate.conntrack import Connections
from meshnet.simulate.packet import ACK, FIN, RST, SYN, TCP, UDP, Packet


def packet(source=1, source_port=1000, destination=2, port=80, *, protocol=TCP, flags=SYN, zones=None, wanted=""):
    made = Packet(4, protocol, source, source_port, destination, port, flags)
    made.template, made.wanted = zones, wanted
    return made


def entered(table, made):
    table.enter(made)
    return made


def begun(table, **more):
    first = entered(table, packet(**more))
    table.confirm(first)
    return first


@pytest.mark.parametrize(
    ("flags", "state"),
    [
        (SYN, "NEW"),
        (ACK, "NEW"),
        (SYN | ACK, "INVALID"),
        (RST, "INVALID"),
        (FIN | ACK, "INVALID"),
        (RST | ACK, "INVALID"),
        (0, "INVALID"),
    ],
)
def test_what_may_begin_a_connection(flags, state):
    assert entered(Connections(), packet(flags=flags)).state == state
    assert entered(Connections(), packet(flags=flags, protocol=UDP)).state == "NEW"


def test_an_answer_makes_it_established_for_both():
    table = Connections()
    first = begun(table)
    assert entered(table, packet()).state == "NEW", "not answered yet"
    answer = entered(table, packet(2, 80, 1, 1000, flags=SYN | ACK))
    assert (answer.state, answer.reply, answer.connection) == ("ESTABLISHED", True, first.connection)
    assert entered(table, packet(flags=ACK)).state == "ESTABLISHED"


def test_what_never_got_through_is_not_known():
    table = Connections()
    entered(table, packet())
    assert entered(table, packet(2, 80, 1, 1000, flags=SYN | ACK)).state == "INVALID"


@pytest.mark.parametrize(("zones", "known"), [(None, False), ((2, 2), True), ((3, 3), False), ((2, 0), True)])
def test_a_connection_is_known_in_its_zone(zones, known):
    table = Connections()
    begun(table, protocol=UDP, zones=(2, 2))
    assert entered(table, packet(2, 80, 1, 1000, protocol=UDP, zones=zones)).reply is known


def test_each_direction_has_a_zone():
    table = Connections()
    begun(table, protocol=UDP, zones=(1, 2))
    assert entered(table, packet(2, 80, 1, 1000, protocol=UDP, zones=(2, 2))).reply
    assert not entered(table, packet(2, 80, 1, 1000, protocol=UDP, zones=(3, 3))).reply


def test_what_came_round_by_lo_keeps_what_it_has():
    table = Connections()
    made = entered(table, packet())
    connection = made.connection
    table.enter(made)
    assert made.connection is connection


def test_ends_that_another_connection_expects_are_taken():
    table = Connections()
    first = begun(table).connection
    other = entered(table, packet(5)).connection
    assert table.taken(first.reply, other)
    assert not table.taken(first.reply, first)
    assert not table.taken(other.reply, first)


@pytest.mark.parametrize(
    ("wanted", "tracked"),
    [("NEW", True), ("ESTABLISHED", True), ("RELATED", True), ("INVALID", False), ("UNTRACKED", False)],
)
def test_a_state_that_a_flow_says(wanted, tracked):
    table = Connections()
    table.given = (7, "DNAT")
    made = entered(table, packet(wanted=wanted))
    assert (made.state, made.connection is not None) == (wanted, tracked)
    if tracked:
        had = (7, True) if wanted != "NEW" else (0, False)  # what begins now has nothing yet
        assert (made.connection.mark, made.connection.destination_translated) == had
        assert made.connection.seen_reply is (wanted == "ESTABLISHED")
