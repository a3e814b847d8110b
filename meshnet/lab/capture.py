"""Packets as they pass an interface: taken from AF_PACKET, kept as pcap.

The kernel queues them with their times until the end of a step, so that nobody has to read meanwhile: a reader would
compete with the very servers that are watched.
"""

from __future__ import annotations

import contextlib
import socket
import struct
from typing import TYPE_CHECKING

from meshnet.model.value import value

if TYPE_CHECKING:
    from pathlib import Path

    from meshnet.kernel.netns import Namespace

ETH_P_ALL = 0x0003
SO_RCVBUFFORCE, SO_TIMESTAMPNS = 33, 35
PACKET_OUTGOING = 4
"""linux/if_ether.h, asm-generic/socket.h, linux/if_packet.h."""

BUFFER = 64 * 1024 * 1024
"""Bytes of queue an interface. A loop that is stopped after 600 connections fills about a quarter of it."""

SNAP = 65535
PCAP_NANOSECONDS, LINKTYPE_ETHERNET = 0xA1B23C4D, 1
"""The classic format with nanoseconds; its magic number as tcpdump and Wireshark know it. lo has Ethernet heads too."""


@value
class Frame:
    """One packet on one interface; ``at`` in nanoseconds, ``out`` when it left by there."""

    interface: str
    at: int
    out: bool
    data: bytes


class Capture:
    """Watches interfaces of a namespace from the moment it is made. Errors: OSError (PermissionError).

    To be made well ahead of the first packet that matters: the kernel begins to note times in a work queue
    (net/core/dev.c, netstamp_work), and until then a packet has the time at which it is read.
    """

    def __init__(self, namespace: Namespace, interfaces: tuple[str, ...]) -> None:
        self._stack = contextlib.ExitStack()
        self._sockets: list[tuple[str, socket.socket]] = []
        with namespace.entered():
            for interface in interfaces:
                # opened for no protocol: nothing of another interface may be queued before the bind
                made = self._stack.enter_context(socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0))
                _roomy(made)
                made.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
                made.bind((interface, ETH_P_ALL))
                made.setblocking(False)
                self._sockets.append((interface, made))

    def taken(self) -> list[Frame]:
        """What passed since the last time, in order of time. On lo a packet passes twice; it counts as arriving."""
        frames = [frame for interface, made in self._sockets for frame in _drained(interface, made)]
        return sorted(frames, key=lambda frame: frame.at)

    def close(self) -> None:
        self._stack.close()

    def __enter__(self) -> Capture:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _roomy(made: socket.socket) -> None:
    """The whole buffer, or as much of it as somebody gets who is root in a user namespace alone (socket(7))."""
    try:
        made.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER)
    except PermissionError:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)


def _drained(interface: str, made: socket.socket) -> list[Frame]:
    frames: list[Frame] = []
    while True:
        try:
            data, said, _, place = made.recvmsg(SNAP, 256)
        except BlockingIOError:
            return frames
        out = place[2] == PACKET_OUTGOING
        if interface == "lo" and out:
            continue
        at = next((_time(content) for level, kind, content in said if kind == SO_TIMESTAMPNS), 0)
        frames.append(Frame(interface, at, out, data))


def _time(content: bytes) -> int:
    seconds, nanoseconds = struct.unpack("qq", content[:16])
    return int(seconds) * 1_000_000_000 + int(nanoseconds)


def write_pcap(path: Path, frames: list[Frame]) -> None:
    """Frames of one interface as a file that tcpdump and Wireshark read."""
    with path.open("wb") as file:
        file.write(struct.pack("=IHHiIII", PCAP_NANOSECONDS, 2, 4, 0, 0, SNAP, LINKTYPE_ETHERNET))
        for frame in frames:
            seconds, rest = divmod(frame.at, 1_000_000_000)
            file.write(struct.pack("=IIII", seconds, rest, len(frame.data), len(frame.data)))
            file.write(frame.data)
