from __future__ import annotations

from meshnet.probe.flows import probes
from meshnet.probe.verify import SOURCE_PORTS, Seen, Verified, _application
from tests.unit.probe.scenes import RICH, scene, spec


def test_one_wrong_probe_is_enough() -> None:
    found = probes(spec(), scene())
    right = tuple(Seen(item, item.predicted.disposition) for item in found)
    assert Verified(right, ()).ok
    assert not Verified((*right[1:], Seen(found[0], "dropped")), ()).ok


def test_every_probe_has_a_source_port() -> None:
    assert SOURCE_PORTS + len(probes(spec(RICH), scene("net5", "tap0"))) <= 65535


def test_the_application_listens_wherever_it_is_called() -> None:
    found = probes(spec(), scene())
    posts = _application(found)
    assert len(posts) == len(set(posts)) and ("tcp", 80) in posts and ("tcp", 15008) in posts
