"""Where probes run: the pod's interfaces that lead outside, and the addresses at both ends of each."""

from __future__ import annotations

from meshnet.model.cidr import address_text
from meshnet.model.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from meshnet.model.cidr import Family


@value
class Lane:
    """One way into the pod: its interface there, and per family the pod's and the peer's address on it.

    ``outside`` are addresses beyond the peer that the pod reaches by this lane; they belong to nobody (RFC 5737,
    RFC 3849).
    """

    interface: str
    pod: dict[Family, int]
    peer: dict[Family, int]
    outside: dict[Family, int]

    def text(self, family: Family, end: str) -> str:
        ends = {"pod": self.pod, "peer": self.peer, "outside": self.outside}
        return address_text(family, ends[end][family])


@value
class Scene:
    """``lanes[0]`` is the pod's ordinary interface; the others stand for interfaces with a meaning of their own.

    ``absent``: interfaces of the spec that nothing can be sent by, each with the reason.
    """

    families: tuple[Family, ...]
    lanes: tuple[Lane, ...]
    absent: tuple[tuple[str, str], ...] = ()
    taken: frozenset[tuple[Family, int]] = frozenset()

    @property
    def main(self) -> Lane:
        return self.lanes[0]
