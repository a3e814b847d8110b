"""The ids that rules name, against the map of the user namespace that loads them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from meshnet.cni import identities
from meshnet.cni.identities import require_mapped
from meshnet.model.errors import UnsupportedError
from tests.unit.spec.writing import spec_of

if TYPE_CHECKING:
    from meshnet.model.spec import Spec

POD = [(0, 200000, 65536)]
ROOTLESS = [(0, 1000, 1), (1, 100000, 65536)]
"""As podman maps for an ordinary user: its own id as 0, and behind that what /etc/subuid gives."""

TURNED = [(0, 300000, 1), (1, 100000, 65536)]
MIDDLE_AWAY = [(0, 1000, 1), (1, 90000, 9), (10, 2000, 100)]


def refused(spec: Spec, monkeypatch: pytest.MonkeyPatch, uid: object, gid: object = POD) -> tuple[str, ...]:
    monkeypatch.setattr(identities, "_map", lambda kind: uid if kind == "uid" else gid)
    try:
        require_mapped(spec)
    except UnsupportedError as error:
        assert "hostUsers" in error.hint
        return error.reasons
    return ()


def test_ids_that_are_mapped(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = spec_of(
        "sidecar: {uids: [0, 65535], gids: [65535]}\noutbound: {groups: [0], excludeUsers: [{uids: [1-65535]}]}"
    )
    assert refused(spec, monkeypatch, POD) == ()


@pytest.mark.parametrize(
    ("words", "place"),
    [
        ("sidecar: {uids: [65536]}", "sidecar.uids 65536"),
        ("sidecar: {uids: [1337, 70000]}", "sidecar.uids 70000"),
        ("sidecar: {gids: [1337, 70000]}", "sidecar.gids 70000"),
        ("outbound: {excludeUsers: [{uids: [5]}, {uids: [6, 60000-70000]}]}", "outbound.excludeUsers 60000-70000"),
        ("outbound: {groups: [1, 70000]}", "outbound.groups 70000"),
        ("outbound: {excludeGroups: [1, 70000]}", "outbound.excludeGroups 70000"),
    ],
)
def test_each_place_that_names_an_id_is_looked_at(words: str, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (reason,) = refused(spec_of(words), monkeypatch, POD)
    assert reason.startswith(place)


def test_all_of_them_are_named_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = spec_of("sidecar: {uids: [70000], gids: [70001, 70002]}")
    assert len(refused(spec, monkeypatch, POD)) == 3


def test_a_user_and_a_group_have_maps_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = spec_of("sidecar: {uids: [5], gids: [5]}")
    (reason,) = refused(spec, monkeypatch, [(0, 1000, 10)], [(0, 1000, 1)])
    assert reason.startswith("sidecar.gids")


@pytest.mark.parametrize(
    ("mapped", "fine"),
    [
        (ROOTLESS, True),
        (TURNED, False),  # the kernel compares outer numbers, and there the first is above the last (xt_owner.c)
        (MIDDLE_AWAY, False),  # a rule from the first to the last would not hold what lies outside of both
        ([(0, 1000, 5), (10, 1100, 100)], True),  # nobody has an id that is in no map, and no rule misses it
        ([(5, 1000, 100)], False),
        ([(0, 1000, 20)], False),
        ([], False),
    ],
)
def test_a_range_over_several_parts_of_the_map(
    mapped: list[tuple[int, int, int]], fine: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = spec_of("sidecar: {uids: [4000]}\noutbound: {excludeUsers: [{uids: [0-50]}]}")
    wide = [*mapped, (4000, 500000, 1)]
    found = refused(spec, monkeypatch, wide)
    assert ("outbound.excludeUsers" in " ".join(found)) is not fine


def test_the_map_of_this_process_has_three_columns() -> None:
    first, outer, count = identities._map("uid")[0]
    assert (first, count > 0) == (0, True)
    assert outer >= 0
