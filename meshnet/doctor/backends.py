"""Rules of ours in two backends at once: all are in force, and the hook that was registered last wins."""

from __future__ import annotations

from meshnet.doctor.finding import Finding
from meshnet.model.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from meshnet.model.cidr import Family


@value
class Holder:
    """A backend with rules of a family; ``ours`` is how many of them are meshnet's."""

    backend: str
    family: Family
    ours: int


def two_backends(holders: Iterable[Holder]) -> Iterator[Finding]:
    """One finding for each family whose rules of ours are in more than one place."""
    by_family: dict[Family, list[Holder]] = {}
    for holder in holders:
        if holder.ours:
            by_family.setdefault(holder.family, []).append(holder)
    for family, here in by_family.items():
        if len(here) > 1:
            names = " and ".join(holder.backend for holder in here)
            counts = ", ".join(f"{holder.ours} in {holder.backend}" for holder in here)
            yield Finding(
                "two-backends",
                family,
                f"rules of ours are in {names} at once",
                (f"all are in force, and the hook that was registered last wins: {counts}",),
                "meshnet apply with --backend leaves one of them; meshnet remove takes all away",
            )
