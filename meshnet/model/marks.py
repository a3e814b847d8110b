"""Packet and connection marks. A mark never goes without its mask: the other bits belong to somebody else."""

from __future__ import annotations

from meshnet.model.errors import Wrong
from meshnet.model.value import value

FULL = 0xFFFFFFFF


@value
class Mark:
    """The bits ``number`` under ``mask``; matches when ``packet mark & mask == number``."""

    number: int
    mask: int = FULL

    def __post_init__(self) -> None:
        if not 0 <= self.mask <= FULL:
            raise Wrong(f"a mask of more than 32 bits ({self.mask:#x})", "0 to 0xffffffff")
        if self.number & ~self.mask:
            raise Wrong(
                f"mark {self.number:#x} has bits outside its mask {self.mask:#x}", "a mask that covers the mark"
            )

    def matches(self, mark: int) -> bool:
        return mark & self.mask == self.number

    def put(self, mark: int) -> int:
        """The packet's mark after this one was written into its bits."""
        return mark & ~self.mask | self.number

    def __str__(self) -> str:
        return f"{self.number:#x}/{self.mask:#x}"
