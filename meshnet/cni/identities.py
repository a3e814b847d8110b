"""The ids that a spec's rules name, and whether the user namespace that loads them has these ids at all.

The kernel says EINVAL about a rule with an id that the map lacks, and no more than that.
"""

from __future__ import annotations

from meshnet.model.errors import UnsupportedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from meshnet.model.spec import Spec


def require_mapped(spec: Spec) -> None:
    """UnsupportedError names every id that the calling process's user namespace doesn't map."""
    missing = [
        f"{place} {first if first == last else f'{first}-{last}'}: the pod's user namespace has no such id"
        for kind in ("uid", "gid")
        for mapped in [_map(kind)]
        for place, first, last in _named(spec, kind)
        if not _holds(mapped, first, last)
    ]
    if missing:
        raise UnsupportedError(missing, hint="give the proxy an id that is mapped, or the pod hostUsers: true")


def _named(spec: Spec, kind: str) -> Iterator[tuple[str, int, int]]:
    if kind == "uid":
        yield from (("sidecar.uids", number, number) for number in spec.sidecar.uids)
        for exclusion in spec.outbound.exclude_users:
            yield from (("outbound.excludeUsers", ids.first, ids.last) for ids in exclusion.uids)
        return
    yield from (("sidecar.gids", number, number) for number in spec.sidecar.gids)
    groups = () if spec.outbound.groups == "*" else spec.outbound.groups
    yield from (("outbound.groups", number, number) for number in groups)
    yield from (("outbound.excludeGroups", number, number) for number in spec.outbound.exclude_groups)


def _holds(mapped: list[tuple[int, int, int]], first: int, last: int) -> bool:
    """Whether a rule about a range is about these ids and no others.

    The kernel turns both ends into the node's numbers and compares these. So a range may lie across several parts of
    the map (podman's for an ordinary user has two) when their order is the same on both sides.
    """
    ends = [
        outer + number - start
        for number in (first, last)
        for start, outer, count in mapped
        if start <= number < start + count
    ]
    if len(ends) != 2:
        return False
    for start, outer, count in mapped:
        asked = range(max(start, first), min(start + count - 1, last) + 1)
        met = range(max(outer, ends[0]) - outer + start, min(outer + count - 1, ends[1]) - outer + start + 1)
        if asked != met:  # two empty ones are the same
            return False
    return True


def _map(kind: str) -> list[tuple[int, int, int]]:
    """The first inner id, the outer one that it stands for, and how many: user_namespaces(7)'s three columns."""
    with open(f"/proc/self/{kind}_map", encoding="utf-8") as file:
        rows = [line.split() for line in file]
    return [(int(row[0]), int(row[1]), int(row[2])) for row in rows if len(row) == 3]
