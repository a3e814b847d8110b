"""What the rest of meshnet may ask of a packet filter, whoever answers: the tools, the library, or the fake.

``Xtables`` (both variants), ``LegacyLibrary`` and ``fake.FakeXtables`` are of this shape and pass one contract test.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol, TypeVar

    from meshnet.model.cidr import Family

    T_co = TypeVar("T_co", covariant=True)

    class Work(Protocol[T_co]):
        """Something under way: ``finish`` waits for it and raises why it failed, ``stop`` ends it at once."""

        def finish(self) -> T_co: ...

        def stop(self) -> None: ...

    class PacketFilter(Protocol):
        """Rules as iptables-save text, in the namespace that the calling thread is in."""

        @property
        def name(self) -> str:
            """``iptables-nft``, ``iptables-legacy`` or ``libiptc``: what ``--backend`` calls it."""

        def save(self, family: Family, counters: bool = False) -> str:
            """All tables that exist; looking creates none."""

        def begin_save(self, family: Family, counters: bool = False) -> Work[str]:
            """Start a ``save``, so that both families run side by side."""

        def restore(self, family: Family, text: str, *, test: bool = False) -> None:
            """What ``iptables-restore --noflush`` does: each table all or nothing, in the order of the text."""

        def begin(self, family: Family, text: str, *, test: bool = False) -> Work[object]:
            """Start a restore, so that both families run side by side."""

        def delete_empty_table(self, family: Family, table: str, besides: str = "") -> bool:
            """Take a table away that holds nothing but an empty chain ``besides``; whether it is gone.

            Legacy ones stay while their module does.
            """
