from __future__ import annotations

from itertools import islice

from meshnet.probe.flows import probes
from meshnet.probe.verify import A_SECOND, HIGHEST, LOWEST, Seen, Verified, _application, source_ports
from tests.unit.probe.scenes import scene, spec


def test_one_wrong_probe_is_enough() -> None:
    found = probes(spec(), scene())
    right = tuple(Seen(item, item.predicted.disposition) for item in found)
    assert Verified(right, ()).ok
    assert not Verified((*right[1:], Seen(found[0], "dropped")), ()).ok


def test_every_probe_has_a_source_port_of_its_own() -> None:
    """A spec may list such a port, and then a listener has it."""
    many = list(islice(source_ports(0.0, {LOWEST + 1}), 10_000))
    assert many[:3] == [LOWEST, LOWEST + 2, LOWEST + 3]
    assert len(set(many)) == 10_000


def test_a_run_that_follows_another_has_other_ports() -> None:
    """What conntrack keeps of the first run for two minutes would translate the packets of the second."""
    first = set(islice(source_ports(1000.0, set()), 300))
    for later in (1, 10, 60, 119):
        assert first.isdisjoint(islice(source_ports(1000.0 + later, set()), 300))
    assert (HIGHEST - LOWEST) / A_SECOND > 120


def test_the_application_listens_wherever_it_is_called() -> None:
    found = probes(spec(), scene())
    posts = _application(found)
    assert len(posts) == len(set(posts)) and ("tcp", 80) in posts and ("tcp", 15008) in posts
