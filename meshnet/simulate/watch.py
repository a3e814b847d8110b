"""What has been asked of the packet under way, and which packets would have answered alike."""

from __future__ import annotations

from meshnet.simulate.packet import ESTABLISHED, INVALID, NEW, RELATED, UNTRACKED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from meshnet.simulate.space import Dimension

    Region = dict[str, int]

FIRST = (NEW, False, "")
"""The state of an ordinary first packet, which for TCP is a SYN."""


class Watch:
    """The region that the packet under way stands for, and the parts of it that had to be left for later."""

    def __init__(self, dimensions: dict[str, Dimension], restores: bool) -> None:
        self.dimensions = dimensions
        self.restores = restores
        self.region: Region = {}
        self.chosen: dict[str, Any] = {}
        self.later: list[Region] = []

    def begin(self, region: Region) -> dict[str, Any]:
        """Choose the most ordinary packet of a region."""
        self.region = dict(region)
        self.chosen = {
            name: self.dimensions[name].values[(mask & -mask).bit_length() - 1] for name, mask in region.items()
        }
        return self.chosen

    def asked(self, name: str, key: object, question: Callable[[Any], bool]) -> None:
        """A question about a field was answered: keep the classes that answer alike, leave the others for later."""
        dimension = self.dimensions.get(name)
        if dimension is None:
            return
        now = self.region[name]
        if not now & (now - 1):
            return
        true = dimension.mask_of(key, question)
        kept = now & true if question(self.chosen[name]) else now & ~true
        if kept != now:
            self.later.append({**self.region, name: now & ~kept})
            self.region[name] = kept

    def mark_asked(self, mark: int, key: object, question: Callable[[int], bool]) -> None:
        """The packet's mark was asked about, and the connection's as well if a rule may have copied it."""
        if mark == self.chosen["mark"]:
            self.asked("mark", key, question)
        else:  # changed on the way, and some of its bits may still be those it came with
            self.seen("mark")
        if self.restores:
            self._connection_seen()

    def connection_mark_seen(self) -> None:
        self.seen("mark")  # which a rule may have saved
        self._connection_seen()

    def _connection_seen(self) -> None:
        """A connection that begins has no mark, and what isn't tracked has no connection."""
        self.asked("state", "begun", is_begun)
        self.asked("state", "tracked", is_tracked)
        if is_begun(self.chosen["state"]):
            self.seen("connmark")

    def seen(self, name: str) -> None:
        """A field was looked at as it is: only its own class answers alike."""
        value = self.chosen.get(name)
        self.asked(name, ("is", repr(value)), lambda other: bool(other == value))


def is_begun(state: Any) -> bool:
    """Of a connection that has been there before, so that it may have a mark."""
    return state[0] in (ESTABLISHED, RELATED)


def is_tracked(state: Any) -> bool:
    return state[0] not in (INVALID, UNTRACKED)


def is_new(state: Any) -> bool:
    """Of the packets that nat's rules are asked about; what is related has a connection that nat is done with."""
    return bool(state[0] == NEW)
