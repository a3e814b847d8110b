from __future__ import annotations

from meshnet.probe.flows import probes
from meshnet.probe.verify import SOURCE_PORTS, Seen, Verified, _application, source_ports
from tests.unit.probe.scenes import scene, spec


def test_one_wrong_probe_is_enough() -> None:
    found = probes(spec(), scene())
    right = tuple(Seen(item, item.predicted.disposition) for item in found)
    assert Verified(right, ()).ok
    assert not Verified((*right[1:], Seen(found[0], "dropped")), ()).ok


def test_every_probe_has_a_source_port_of_its_own() -> None:
    """A spec may list such a port, and then a listener has it."""
    assert source_ports(3, {SOURCE_PORTS + 1}) == (SOURCE_PORTS, SOURCE_PORTS + 2, SOURCE_PORTS + 3)
    many = source_ports(10_000, {SOURCE_PORTS})
    assert len(set(many)) == 10_000 and SOURCE_PORTS not in many and max(many) == 65535 and min(many) > 1023


def test_the_application_listens_wherever_it_is_called() -> None:
    found = probes(spec(), scene())
    posts = _application(found)
    assert len(posts) == len(set(posts)) and ("tcp", 80) in posts and ("tcp", 15008) in posts
