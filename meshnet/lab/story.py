"""From captured packets to what a person is shown: who said what to whom, by which interface, and what went wrong.

Who answered is known by the segment size that each listener of the sidecar announces; who called, by the addresses
that are in the packet and by what the sidecar was told to do.
"""

from __future__ import annotations

from meshnet.lab.packets import read
from meshnet.lab.topology import ADDRESSES
from meshnet.model.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from meshnet.lab.capture import Frame
    from meshnet.lab.packets import Segment

CLIENT, ETH0, SIDECAR, LO, APPLICATION = LANES = ("client", "eth0", "sidecar", "lo", "application")
TOLD = ("SYN", "SYN-ACK", "RST", "data", "datagram")
"""Kinds of packets that tell a story; acknowledgements and the orderly end don't."""

STEP = "step"
MOST, TAIL = 22, 4
"""Arrows of one picture: the first ones, and the last few."""

INBOUND_PORTS, OUTBOUND_PORT = range(15006, 15010), 15001


@value
class Arrow:
    """One packet between two lanes, by an interface. ``wrong`` is why it should not be, empty when it should."""

    at: float
    source: str
    target: str
    interface: str
    kind: str
    text: str
    wrong: str = ""


@value
class Told:
    """What the story needs to know of the row: the sidecar's ``segment_sizes``, and whether it dials loopback."""

    segment_sizes: tuple[int, ...]
    dials_loopback: bool = False
    has_sidecar: bool = True


def story(frames: Iterable[Frame], told: Told, steps: Iterable[tuple[int, str]] = ()) -> tuple[list[Arrow], int]:
    """The arrows of a picture, and how many more there were between the first and the last ones.

    ``steps`` are their beginnings in nanoseconds and their names; each stands ahead of what it sent, as an arrow of
    kind ``step`` that leads nowhere.
    """
    segments = [segment for frame in frames if (segment := read(frame)) is not None]
    arrows = _Conversation(segments, told).arrows()
    start = segments[0].frame.at if segments else 0
    begun = [Arrow((at - start) / 1e6, CLIENT, CLIENT, "", STEP, label) for at, label in steps]
    arrows = sorted([*begun, *arrows], key=lambda arrow: arrow.at) if len(begun) > 1 else arrows
    left_out = max(0, len(arrows) - MOST - TAIL)
    return (arrows if not left_out else [*arrows[:MOST], *arrows[-TAIL:]]), left_out


class _Conversation:
    def __init__(self, segments: list[Segment], told: Told) -> None:
        self._segments = segments
        self._told = told
        self._answers: dict[tuple[str, int], Segment] = {}
        self._calls: dict[tuple[str, int], Segment] = {}
        for segment in segments:
            if segment.kind == "SYN":
                self._calls.setdefault((segment.source, segment.source_port), segment)
            if segment.kind == "SYN-ACK":
                self._answers.setdefault((segment.destination, segment.destination_port), segment)
        self._ended = {
            (item.destination, item.destination_port) for item in segments if item.kind in ("SYN-ACK", "RST")
        }
        self._captures_outbound = any(segment.destination_port == OUTBOUND_PORT for segment in segments)

    def arrows(self) -> list[Arrow]:
        start = self._segments[0].frame.at if self._segments else 0
        made = []
        seen: set[tuple[object, ...]] = set()
        for segment in self._segments:
            if segment.kind not in TOLD:
                continue
            again = (segment.flow, segment.kind, segment.sequence, segment.frame.interface)
            repeated = segment.transport != 17 and again in seen
            seen.add(again)
            made.append(self._arrow(segment, (segment.frame.at - start) / 1e6, repeated))
        return made

    def _arrow(self, segment: Segment, at: float, repeated: bool) -> Arrow:
        caller = (segment.source, segment.source_port) in self._calls and segment.kind != "SYN-ACK"
        forward = caller or (segment.destination, segment.destination_port) not in self._calls
        ends = (segment.source, segment.source_port) if forward else (segment.destination, segment.destination_port)
        call = self._calls.get(ends, segment)
        initiator, responder = self._initiator(call), self._responder(call)
        source, target = (initiator, responder) if forward else (responder, initiator)
        interface = segment.frame.interface
        if interface != "lo":  # what passes a network card has one end outside
            source, target = (source, CLIENT) if segment.frame.out else (CLIENT, target)
            if segment.frame.out and source == CLIENT:
                source = APPLICATION
            if not segment.frame.out and target == CLIENT:
                target = SIDECAR
        words = f"{segment.kind}{' again' if repeated else ''} {_end(segment.source, segment.source_port)} → "
        words += _end(segment.destination, segment.destination_port)
        return Arrow(
            at, source, target, interface, segment.kind, words, self._wrong(segment, call, initiator, responder)
        )

    def _wrong(self, segment: Segment, call: Segment, initiator: str, responder: str) -> str:
        if call.frame.interface == "lo" and segment.frame.interface != "lo":
            if segment.kind == "SYN-ACK" and segment.frame.out:
                return f"the answer leaves by {segment.frame.interface}, to a client that never made this call"
            if segment.kind == "RST" and not segment.frame.out:
                return "the client knows nothing of this connection, and resets it"
        if segment.kind == "SYN" and segment.frame.interface == "lo":
            itself = ["the sidecar calls itself"] if initiator == responder == SIDECAR else []
            nobody = ["no answer comes"] if (segment.source, segment.source_port) not in self._ended else []
            return ", and ".join((*itself, *nobody))
        if segment.kind == "RST" and segment.frame.out:
            return "the client is reset"
        return ""

    def _responder(self, call: Segment) -> str:
        answer = self._answers.get((call.source, call.source_port))
        sizes = self._told.segment_sizes
        if answer is not None and answer.segment_size in sizes:
            return SIDECAR
        if call.destination_port in (*INBOUND_PORTS, OUTBOUND_PORT) and self._told.has_sidecar:
            return SIDECAR
        if call.frame.interface != "lo" and call.frame.out:
            return CLIENT
        return APPLICATION

    def _initiator(self, call: Segment) -> str:
        if call.frame.interface != "lo":
            if not call.frame.out:
                return CLIENT
            return SIDECAR if self._captures_outbound else APPLICATION
        if call.destination_port == OUTBOUND_PORT or not self._told.has_sidecar:
            return APPLICATION
        own = (*ADDRESSES["pod"].values(), *(() if self._told.dials_loopback else ADDRESSES["loopback"].values()))
        return APPLICATION if call.source in own and not self._chained(call) else SIDECAR

    def _chained(self, call: Segment) -> bool:
        """Whether the sidecar took a call from this very address before: it then keeps the pod's own as a source."""
        earlier = (item for item in self._segments if item.kind == "SYN" and item.frame.at < call.frame.at)
        return any(
            item.source == call.source and item.frame.interface == "lo" and self._responder(item) == SIDECAR
            for item in earlier
            if item is not call and item.destination_port != OUTBOUND_PORT
        )


def _end(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
