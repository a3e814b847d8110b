"""Who waits for what while a namespace is drained; connections and rules are lists, a pause brings the next ones."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from meshnet.apply import drain as module
from meshnet.apply.drain import Drained, drain
from meshnet.kernel.conntrack import DESTINATION_TRANSLATED, TCP, UDP, Entry
from meshnet.kernel.netns import OWN
from meshnet.model.plan import ChainText, ChangeSet, Plan, Receipt, TableText
from tests.unit.apply.memory import MemoryHost

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

REDIRECT = '-p tcp -m comment --comment "meshnet:in.capture" -j REDIRECT --to-ports 15006'
CAPTURING = Plan((TableText(4, "nat", (ChainText("MESHNET_INBOUND", (REDIRECT,)),), ()),))
OTHER = Plan((TableText(4, "nat", (ChainText("MESHNET_INBOUND", (REDIRECT.replace("15006", "16006"),)),), ()),))


def connection(family: int = 4, port: int = 15006, protocol: int = TCP, state: int = 3) -> Entry:
    return Entry(family, protocol, 80, port, DESTINATION_TRANSLATED, 0, 0, state, b"", b"")  # type: ignore[arg-type]


class Pod:
    """``coming``: the connections at each look, the last ones for good. ``then``: what is applied at a pause."""

    def __init__(self) -> None:
        self.rules = CAPTURING
        self.coming: list[list[Entry]] = [[]]
        self.then: Plan | None = None
        self.clock = 0.0
        self.pauses = 0
        self.backend, self.reason, self.host = "iptables-nft", "asked for", MemoryHost()

    def __call__(self, *_: object) -> Pod:
        return self

    def __enter__(self) -> Pod:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    @contextmanager
    def entered(self) -> Iterator[None]:
        yield

    def held(self) -> dict[str, Plan]:
        return {self.backend: self.rules}

    def settle(self, changed: Callable[[Plan], Plan]) -> Receipt:
        self.rules = changed(self.rules)
        return Receipt(self.backend, ChangeSet((), ("- capture",)))

    def remove(self) -> Receipt:
        self.rules = Plan()
        return Receipt(self.backend, ChangeSet((), ("- all",)))

    def entries(self, family: int) -> list[Entry]:
        found = [entry for entry in self.coming[0] if entry.family == family]
        if family == 6 and len(self.coming) > 1:
            self.coming.pop(0)
        return found

    def sleep(self, seconds: float) -> None:
        self.pauses += 1
        self.clock += seconds
        if self.then is not None:
            self.rules = self.then


@pytest.fixture
def pod(monkeypatch: pytest.MonkeyPatch) -> Pod:
    made = Pod()
    monkeypatch.setattr(module, "Session", made)
    monkeypatch.setattr(module.netns, "open_namespace", made)
    monkeypatch.setattr(module.conntrack, "entries", made.entries)
    monkeypatch.setattr(module.time, "sleep", made.sleep)
    monkeypatch.setattr(module.time, "monotonic", lambda: made.clock)
    return made


def drained(patience: float = 60.0, **more: Any) -> Drained:
    return drain(OWN, "auto", patience, **more)


def test_without_connections_the_rules_go_at_once(pod: Pod) -> None:
    found = drained()
    assert (found.left, found.superseded, found.receipt.changes.differences) == (0, False, ("- all",))
    assert (pod.rules, pod.pauses) == (Plan(), 0)


def test_nothing_new_is_captured_while_it_waits(pod: Pod) -> None:
    pod.coming = [[connection()], []]
    seen: list[Plan] = []
    drained(progress=lambda _: seen.append(pod.rules))
    assert "REDIRECT" not in str(seen)
    assert "meshnet:drained.15006" in str(seen)


@pytest.mark.parametrize("family", [4, 6])
def test_a_connection_of_either_family_is_waited_for(pod: Pod, family: int) -> None:
    pod.coming = [[connection(family)], [connection(family)], []]
    assert drained().left == 0
    assert (pod.rules, pod.pauses) == (Plan(), 2)


def test_each_number_is_told_once(pod: Pod) -> None:
    one, two = connection(4), connection(6)
    pod.coming = [[one, two], [one, two], [one], [one], [one, two], []]
    told: list[int] = []
    drained(progress=told.append)
    assert told == [2, 1, 2]


@pytest.mark.parametrize(
    "other",
    [connection(port=8080), connection(protocol=UDP, state=0), connection(state=0), connection(state=7)],
    ids=["another port", "UDP, which has no end", "none", "TIME_WAIT"],
)
def test_who_is_not_waited_for(pod: Pod, other: Entry) -> None:
    pod.coming = [[other]]
    assert drained().left == 0
    assert pod.pauses == 0


def test_when_patience_is_over_what_carries_them_stays(pod: Pod) -> None:
    pod.coming = [[connection(), connection(6)]]
    found = drained(1.0)
    assert (found.left, found.superseded) == (2, False)
    assert "drained" in str(pod.rules)
    assert pod.pauses == 4


def test_without_patience_there_is_one_look(pod: Pod) -> None:
    pod.coming = [[connection()]]
    assert (drained(0.0).left, pod.pauses) == (1, 0)


def test_a_second_draining_still_knows_the_ports(pod: Pod) -> None:
    pod.coming = [[connection()]]
    drained(0.0)
    assert drained(0.0).left == 1


def test_a_spec_that_is_applied_meanwhile_stays(pod: Pod) -> None:
    pod.coming = [[connection()], []]
    pod.then = OTHER
    found = drained()
    assert (found.superseded, pod.rules) == (True, OTHER)


def test_a_remove_meanwhile_is_what_was_wanted_anyway(pod: Pod) -> None:
    pod.coming = [[connection()], []]
    pod.then = Plan()
    assert (drained().superseded, pod.rules) == (False, Plan())


def test_nothing_of_ours_there(pod: Pod) -> None:
    pod.rules = Plan()
    pod.coming = [[connection()]]
    assert (drained().left, pod.pauses) == (0, 0)
