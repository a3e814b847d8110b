"""What a packet was asked is noted: whatever answers alike is done with it, and nothing else."""

from __future__ import annotations

import pytest

from meshnet.simulate.space import Dimension
from meshnet.simulate.watched import FIRST, Watch, WatchedPod
from tests.unit.simulate.pods import REMOTE, host, number, outward, pod, read, table

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


def watching(*ports):
    fields = {"port": ports, "mark": (0,), "state": (FIRST,), "protocol": (6,), "uid": (0,)}
    watch = Watch({name: Dimension(name, list(values)) for name, values in fields.items()}, False)
    watch.begin({name: (1 << len(values)) - 1 for name, values in fields.items()})
    return watch


def walked(rules, *ports):
    """What is left of a region of ports when its most ordinary packet has been walked."""
    watch = watching(*ports)
    WatchedPod([read(rules, 4)], host(), watch).walk(outward(port=ports[0]))
    return [port for place, port in enumerate(ports) if watch.region["port"] >> place & 1]


@pytest.mark.parametrize(
    ("rule", "kept"),
    [
        ("-p tcp --dport 80 -j ACCEPT", [80]),
        ("-p udp --dport 80 -j ACCEPT", [80, 443, 22]),
        ("-p tcp -m multiport --dports 80,22 -j ACCEPT", [80, 22]),
    ],
)
def test_a_walk_keeps_what_its_rules_tell_not_apart(rule, kept):
    assert walked(table("mangle", f"-A OUTPUT {rule}"), 80, 443, 22) == kept


def test_a_rule_that_is_never_reached_asks_nothing():
    rules = table("mangle", "-A OUTPUT -j ACCEPT", "-A OUTPUT -p tcp --dport 80 -j DROP")
    assert walked(rules, 80, 443) == [80, 443]


def test_watched_or_not_a_packet_goes_the_same_way():
    rules = table("nat", "-A OUTPUT -p tcp --dport 80 -j REDIRECT --to-ports 15001")
    seen = WatchedPod([read(rules, 4)], host(), watching(80, 443)).walk(outward())
    plain = pod(rules).walk(outward())
    assert (seen.port, seen.to, seen.hops) == (plain.port, plain.to, plain.hops)
    assert number(REMOTE) != plain.to
