"""The packet on its way, the sockets at its ends and the connection it belongs to: what a walk changes as it goes."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from meshnet.model.cidr import Family
    from meshnet.model.ruleset import HeldRule
    from meshnet.simulate.routing import Found

    Ends = tuple[int, int, int, int, int]  # protocol, source, source port, destination, destination port

TCP, UDP = 6, 17
NUMBERS = {"tcp": TCP, "udp": UDP}
ICMP = {4: 1, 6: 58}
FIN, SYN, RST, ACK = 1, 2, 4, 16

NEW, ESTABLISHED, RELATED, INVALID, UNTRACKED = "NEW", "ESTABLISHED", "RELATED", "INVALID", "UNTRACKED"


class Sock:
    """A socket: listening while ``peer`` is None. ``accepted`` from one that listens, it keeps that one's owner."""

    __slots__ = (
        "address", "family", "gid", "groups", "mark", "name", "peer", "peer_port", "port", "protocol", "transparent",
        "uid",
    )  # fmt: skip

    def __init__(
        self,
        name: str,
        family: Family | None,
        protocol: int,
        address: int | None,
        port: int,
        *,
        peer: int | None = None,
        peer_port: int = 0,
        transparent: bool = False,
        uid: int = 0,
        gid: int = 0,
        groups: tuple[int, ...] = (),
        mark: int = 0,
    ) -> None:
        self.name = name
        self.family = family
        self.protocol = protocol
        self.address = address
        self.port = port
        self.peer = peer
        self.peer_port = peer_port
        self.transparent = transparent
        self.uid = uid
        self.gid = gid
        self.groups = groups
        self.mark = mark


class Connection:
    """Conntrack's entry. ``reply`` is the answer's ends as they are expected, which is where translation shows."""

    __slots__ = (
        "confirmed", "destination_done", "destination_translated", "mark", "original", "related", "reply", "seen_reply",
        "source_done", "source_translated", "zones",
    )  # fmt: skip

    def __init__(self, original: Ends, zones: tuple[int, int]) -> None:
        self.original = original
        self.reply: Ends = (original[0], original[3], original[4], original[1], original[2])
        self.zones = zones
        self.mark = 0
        self.confirmed = False
        self.seen_reply = False
        self.related = False
        self.source_done = self.destination_done = False
        self.source_translated = self.destination_translated = False


class Packet:
    """``template`` are the zones that a CT target gave (or None); ``state`` is empty before conntrack has seen it;
    ``wanted`` is the state that conntrack is told to find, if any."""

    __slots__ = (
        "assigned", "captured", "connection", "destination", "family", "flags", "hook", "hops", "in_link", "mark",
        "out_link", "port", "protocol", "reply", "route", "sender", "source", "source_port", "state",
        "template", "wanted",
    )  # fmt: skip

    def __init__(
        self,
        family: Family,
        protocol: int,
        source: int,
        source_port: int,
        destination: int,
        port: int,
        flags: int = 0,
        mark: int = 0,
    ) -> None:
        self.family = family
        self.protocol = protocol
        self.source = source
        self.source_port = source_port
        self.destination = destination
        self.port = port
        self.flags = flags
        self.mark = mark
        self.in_link = ""
        self.out_link = ""
        self.hook = ""
        self.sender: Sock | None = None
        self.connection: Connection | None = None
        self.state = self.wanted = ""
        self.reply = False
        self.template: tuple[int, int] | None = None
        self.assigned: Sock | None = None
        self.captured = False
        self.route: Found | None = None
        self.hops: list[tuple[str, str, str, int, HeldRule | None, str, int]] = []

    def ends(self) -> Ends:
        return self.protocol, self.source, self.source_port, self.destination, self.port

    def note(self, text: str) -> None:
        """A decision of the kernel's own."""
        self.hops.append((self.hook, "", "", 0, None, text, self.mark))


if TYPE_CHECKING:
    Test = Callable[[Packet], Any]
