"""A flow: the first packet of a connection, and how it ends."""

from __future__ import annotations

from meshnet.model.cidr import address_text
from meshnet.model.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    from meshnet.model.cidr import Family

    Carried = Literal["tcp", "udp", "icmp"]
    Way = Literal["in", "out"]
    State = Literal["NEW", "ESTABLISHED", "RELATED", "INVALID", "UNTRACKED"]
    Disposition = Literal[
        "inbound-proxy",
        "outbound-proxy",
        "dns-proxy",
        "captured",
        "direct",
        "dropped",
        "rejected",
        "loop",
        "lost-reply",
        "undecided",
    ]


@value
class Flow:
    """Who sends what to whom. ``way`` is seen from the pod; ``interface`` is where it enters or would leave.

    Addresses are numbers of the flow's family. ``uid`` and ``gid`` are those of the sending socket, None for what
    comes from outside; ``mark`` is set by the sender itself. ``transport`` may be ICMP: ``port`` is its type then.

    ``state`` says what conntrack makes of the packet, if it isn't the first one of a connection that nobody has
    met: a later one (ESTABLISHED), RELATED, INVALID or UNTRACKED. ``transparent`` senders may use foreign addresses.
    """

    way: Way
    family: Family
    transport: Carried
    source: int
    destination: int
    port: int
    interface: str
    uid: int | None = None
    gid: int | None = None
    mark: int = 0
    source_port: int = 40000
    groups: tuple[int, ...] = ()
    state: State = "NEW"
    transparent: bool = False

    def __str__(self) -> str:
        ends = f"{self._end(self.source)} > {self._end(self.destination)}:{self.port}/{self.transport}"
        if self.way == "in":
            return f"in by {self.interface}: {ends}"
        who = f"uid {self.uid} gid {self.gid}" + (f" mark {self.mark:#x}" if self.mark else "")
        return f"out by {self.interface}, {who}: {ends}"

    def _end(self, address: int) -> str:
        text = address_text(self.family, address)
        return f"[{text}]" if self.family == 6 else text


@value
class Prediction:
    """Where a flow ends, and the path in the spec that decided it."""

    disposition: Disposition
    because: str
