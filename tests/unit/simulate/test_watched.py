"""A pod whose questions are noted: what answers alike is done with a packet, and nothing else."""

from __future__ import annotations

import pytest

from meshnet.simulate.space import Dimension
from meshnet.simulate.watch import FIRST, Watch
from meshnet.simulate.watched import WatchedPod
from tests.unit.simulate.pods import REMOTE, host, number, outward, pod, read, table


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
