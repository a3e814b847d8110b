from __future__ import annotations

from tests.unit.probe.scenes import scene


def test_the_first_lane_is_the_ordinary_one() -> None:
    made = scene("net5")
    assert made.main is made.lanes[0]
    assert made.absent == () and made.taken == frozenset()


def test_ends_as_text() -> None:
    main = scene().main
    assert [main.text(4, end) for end in ("pod", "peer", "outside")] == ["198.18.0.1", "198.18.0.2", "203.0.113.16"]
    assert main.text(6, "peer") == "fd6d::2"
