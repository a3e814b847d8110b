"""A socket in memory that answers as a script says, in place of a netlink socket."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from meshnet.kernel import netlink

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

    Answer = Callable[[int], bytes]


def said(kind: int, *bodies: bytes, flags: int = 2) -> Answer:
    """A datagram with messages of one kind, under the number of the question."""
    return lambda sequence: b"".join(
        netlink.message(kind, flags, sequence, body) + b"\0" * (-len(body) % 4) for body in bodies
    )


def done(flags: int = 2, code: int = 0) -> Answer:
    return said(netlink.DONE, struct.pack("=i", -code), flags=flags)


def refused(code: int) -> Answer:
    return said(netlink.ERROR, struct.pack("=i", -code) + bytes(16))


class Script:
    """Hands out its answers one by one; ``asked`` are the (kind, payload) of the questions."""

    def __init__(self, *answers: Answer, flags: int = 0) -> None:
        self.answers, self.flags = list(answers), flags
        self.asked: list[tuple[int, bytes]] = []
        self.closed = False

    def __call__(self, *_: int) -> Script:
        return self

    def settimeout(self, seconds: float) -> None:
        assert seconds > 0

    def setsockopt(self, *_: int) -> None:
        return None

    def close(self) -> None:
        self.closed = True

    def send(self, data: bytes) -> None:
        _, kind, _, self.sequence, _ = struct.unpack_from("=IHHII", data)
        self.asked.append((kind, data[16:]))

    def recvmsg(self, _: int) -> tuple[bytes, list[object], int, None]:
        if not self.answers:
            raise TimeoutError
        return self.answers.pop(0)(self.sequence), [], self.flags, None


def play(monkeypatch: pytest.MonkeyPatch, *answers: Answer, flags: int = 0) -> Script:
    script = Script(*answers, flags=flags)
    monkeypatch.setattr(netlink, "Socket", script)
    return script


def listed(*bodies: str) -> tuple[Answer, ...]:
    """The answers to one question for a list: bodies as the kernel said them, in hexadecimal."""
    return (*(said(7, bytes.fromhex(body)) for body in bodies), done())
