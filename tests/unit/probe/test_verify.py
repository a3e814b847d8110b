from __future__ import annotations

from itertools import islice

from meshnet.probe.flows import probes
from meshnet.probe.verify import Seen, Verified, _application, source_ports
from tests.unit.probe.scenes import scene, spec


def test_one_wrong_probe_is_enough() -> None:
    found = probes(spec(), scene())
    right = tuple(Seen(item, item.predicted.disposition) for item in found)
    assert Verified(right, ()).ok
    assert not Verified((*right[1:], Seen(found[0], "dropped")), ()).ok


def test_source_ports_are_not_those_of_listeners() -> None:
    """A spec may list such a port, and then a listener has it: the next run of that moment passes it over."""
    first = list(islice(source_ports(7.0, set()), 3))
    again = list(islice(source_ports(7.0, {first[1]}), 3))
    assert len(set(first)) == 3 and first[1] not in again and again[0] == first[0]


def test_the_application_listens_wherever_it_is_called() -> None:
    found = probes(spec(), scene())
    posts = _application(found)
    assert len(posts) == len(set(posts)) and ("tcp", 80) in posts and ("tcp", 15008) in posts
