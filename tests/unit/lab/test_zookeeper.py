from __future__ import annotations

import pytest

from meshnet.lab import zookeeper
from meshnet.lab.zookeeper import IN_VAIN, configuration, seen_in

ROUND = "INFO FastLeaderElection - Notification time out: 800 ms\n"
REQUEST = "INFO QuorumCnxManager - Received connection request from /10.244.9.11:40312\n"


def test_members_are_known_by_address() -> None:
    text = configuration(["10.0.0.1", "fd00::2"])
    assert "server.1=10.0.0.1:2888:3888" in text and "server.2=[fd00::2]:2888:3888" in text


@pytest.mark.parametrize(
    ("logged", "seen"),
    [
        ("/127.0.0.6:40312", {"127.0.0.6"}),
        ("/[fd00:244:9:0:0:0:0:12]:36026", {"fd00:244:9::12"}),
        ("/fd00:244:9:0:0:0:0:12:36026", {"fd00:244:9::12"}),
        ("/[0:0:0:0:0:0:0:6]:1", {"::6"}),
    ],
)
def test_whom_a_member_saw(logged: str, seen: set[str]) -> None:
    line = f"INFO QuorumCnxManager - Received connection request from {logged}\n"
    assert seen_in(f"INFO QuorumPeer - LOOKING\n{line}{line}") == seen


class Member:
    """One whose log has another round of calls at every look."""

    def __init__(self, log: str = "", rounds: int = 1000) -> None:
        self._log = log
        self._rounds = rounds
        self.looks = 0

    @property
    def stderr(self) -> str:
        self.looks += 1
        return self._log + ROUND * min(self.looks, self._rounds)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that were slept."""
    slept: list[float] = []
    monkeypatch.setattr("time.sleep", slept.append)
    monkeypatch.setattr("time.monotonic", lambda: sum(slept))
    return slept


def waited(monkeypatch: pytest.MonkeyPatch, members: list[Member], formed_after: int = 10_000) -> bool:
    looks = iter(range(20_000))
    monkeypatch.setattr(zookeeper, "_formed", lambda _world: next(looks) >= formed_after)
    return zookeeper._quorum(None, members)  # type: ignore[arg-type]


def test_no_quorum_is_what_nobody_reached_anybody_for(monkeypatch: pytest.MonkeyPatch, clock: list[float]) -> None:
    assert not waited(monkeypatch, [Member(), Member(), Member()])
    assert IN_VAIN - 1 <= len(clock) < 20


@pytest.mark.parametrize(
    "members",
    [[Member(), Member(REQUEST), Member()], [Member(), Member(), Member(rounds=IN_VAIN)]],
    ids=["one was reached", "one has hardly called"],
)
def test_it_takes_long_to_be_said_where_it_may_still_come(
    monkeypatch: pytest.MonkeyPatch, clock: list[float], members: list[Member]
) -> None:
    assert not waited(monkeypatch, members)
    assert sum(clock) > zookeeper.QUORUM_SECONDS - 1


def test_a_quorum_is_seen_at_the_next_look(monkeypatch: pytest.MonkeyPatch, clock: list[float]) -> None:
    assert waited(monkeypatch, [Member(REQUEST), Member(), Member()], formed_after=7)
    assert len(clock) == 7
