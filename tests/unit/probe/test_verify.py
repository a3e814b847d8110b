from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any

from meshnet.probe import verify as module
from meshnet.probe.flows import probes
from meshnet.probe.verify import A_SECOND, HIGHEST, LOWEST, PATIENCE, Run, Seen, Verified, _application, source_ports
from tests.unit.probe.scenes import scene, spec

if TYPE_CHECKING:
    import pytest


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


class Machine:
    """A selector whose looks last ``each`` seconds; ``landing``: at which of them one probe more has landed."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, each: float, landing: set[int]) -> None:
        self.each, self.landing, self.clock, self.looks = each, landing, 0.0, 0
        self.run: Any = object.__new__(Run)
        self.run._wanted, self.run._seen, self.run._wires = probes(spec(), scene())[:3], {}, {}
        self.run._spec, self.run._selector = spec(), self
        monkeypatch.setattr(module.time, "monotonic", lambda: self.clock)

    def select(self, _: float) -> list[Any]:
        self.looks += 1
        self.clock += self.each
        if self.looks in self.landing:
            self.run._seen[len(self.run._seen)] = "direct"
        return []

    def watch(self) -> int:
        told: list[int] = []
        self.run.watch(lambda landed, _: told.append(landed))
        return len(told)


def test_what_is_under_way_is_waited_for_on_a_machine_that_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Machine(monkeypatch, each=10.0, landing={3, 6, 9}).watch() == 3


def test_what_lands_late_is_waited_for_as_long_as_something_lands(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, each=0.05, landing={30, 60, 90})
    assert (machine.watch(), machine.clock > 2 * PATIENCE) == (3, True)


def test_what_never_lands_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine(monkeypatch, each=0.05, landing={1})
    assert machine.watch() == 1
    assert PATIENCE < machine.clock < 2 * PATIENCE
