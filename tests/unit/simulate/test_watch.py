"""What a packet was asked is noted: whatever answers alike is done with it, and nothing else."""

from __future__ import annotations

import pytest

from meshnet.simulate.space import Dimension
from meshnet.simulate.watch import FIRST, Watch

PORTS = [80, 443, 22]
STATES = [FIRST, ("UNTRACKED", False, ""), ("ESTABLISHED", False, "")]


@pytest.fixture
def watch():
    made = Watch(
        {"port": Dimension("port", PORTS), "mark": Dimension("mark", [0, 1, 2]), "state": Dimension("state", STATES)},
        False,
    )
    made.begin({"port": 0b111, "mark": 0b111, "state": 0b111})
    return made


def test_the_most_ordinary_packet_of_a_region_is_chosen(watch):
    assert watch.chosen == {"port": 80, "mark": 0, "state": FIRST}
    assert watch.begin({"port": 0b110})["port"] == 443


def test_classes_that_answer_otherwise_are_left_for_later(watch):
    watch.asked("port", "web", lambda port: port in (80, 443))
    assert (watch.region["port"], [item["port"] for item in watch.later]) == (0b011, [0b100])
    watch.asked("port", "tls", lambda port: port == 443)
    assert (watch.region["port"], [item["port"] for item in watch.later]) == (0b001, [0b100, 0b010])


def test_what_was_asked_before_or_is_one_class_alone_costs_nothing(watch):
    for _ in range(2):
        watch.asked("port", "ssh", lambda port: port == 22)
    assert len(watch.later) == 1
    watch.begin({"port": 0b001})
    watch.asked("port", "x", lambda port: False)
    watch.asked("nothing of ours", "x", lambda port: False)
    assert len(watch.later) == 1


def test_a_field_that_is_taken_as_it_is_keeps_its_own_class_alone(watch):
    watch.seen("port")
    assert (watch.region["port"], watch.later[0]["port"]) == (0b001, 0b110)


def test_a_mark_that_was_changed_on_the_way_is_taken_as_it_came(watch):
    watch.mark_asked(0, "odd", lambda mark: mark % 2 == 1)
    assert watch.region["mark"] == 0b101
    watch.begin({"port": 1, "mark": 0b111, "state": 1})
    watch.mark_asked(77, "odd", lambda mark: mark % 2 == 1)
    assert watch.region["mark"] == 0b001


def test_a_connection_s_mark_is_of_the_state_and_of_the_mark_that_came(watch):
    watch.connection_mark_seen()
    assert (watch.region["mark"], watch.region["state"]) == (0b001, 0b001)
