"""Netlink: one socket in the namespace that the calling thread is in, messages out, lists and verdicts back.

``_socket`` and not ``socket``: the latter brings ``selectors`` and ``enum`` along, half a bare start of the
interpreter, and nothing of what it adds is needed here. So with ``_struct``, which ``struct`` passes on.
"""

from __future__ import annotations

import _struct as struct
import posix
from _socket import AF_NETLINK, MSG_TRUNC, SOCK_CLOEXEC, SOCK_RAW
from _socket import socket as Socket  # noqa: N812 (the class is named as a function is)

from meshnet.model.errors import ToolError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType

ROUTE, NETFILTER = 0, 12
"""NETLINK_ROUTE and NETLINK_NETFILTER of linux/netlink.h."""

REQUEST, ACK, DUMP = 0x1, 0x4, 0x300
INTERRUPTED = 0x10
"""NLM_F_DUMP_INTR: what is listed changed meanwhile, so something may be missing or there twice."""

ERROR, DONE = 2, 3
HEADER = 16
"""Bytes of a nlmsghdr."""

KIND = 0x3FFF
"""An attribute's type without the flags NLA_F_NESTED and NLA_F_NET_BYTEORDER."""

SOL_NETLINK, GET_STRICT_CHECK = 270, 12
BUFFER = 1 << 16
"""Bytes. The kernel fills at most 32 KiB of it with one piece of a list, and the first one of a socket, before it has
seen this number, with less than 4 (netlink_dump in net/netlink/af_netlink.c)."""

TRIES = 20
PATIENCE = 5.0
"""Seconds to wait for an answer, which the kernel has ready before sending returns."""

PROTOCOL_FAMILY = {4: 2, 6: 10}
"""AF_INET and AF_INET6, which nfnetlink's NFPROTO_IPV4 and NFPROTO_IPV6 equal."""


class Netlink:
    """A context manager. ``what`` it is asked for is said in errors.

    OSError with the kernel's number when it refuses; ToolError when there is no answer, or none that can be read.
    """

    __slots__ = ("_sequence", "_socket", "_what")

    def __init__(self, protocol: int, what: str) -> None:
        self._what = what
        self._sequence = 0
        self._socket = Socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol)
        self._socket.settimeout(PATIENCE)
        if protocol == ROUTE:
            # Only so does the kernel look at what a header asks for, a protocol or a link; Linux 4.20 and later.
            self._socket.setsockopt(SOL_NETLINK, GET_STRICT_CHECK, 1)

    def __enter__(self) -> Netlink:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def dump(self, kind: int, body: bytes, *, says_when_interrupted: bool = False) -> list[bytes]:
        """The payloads of all messages that the kernel lists; asked anew when the list changed while it was read.

        The kernel says so of most lists, but not of policy rules: it goes on with the n-th of them, and when an earlier
        one went away between two pieces, one is left out. So what came in pieces counts when it came twice alike,
        unless the caller knows that of this list the kernel ``says_when_interrupted``.
        """
        before: list[bytes] | None = None
        for _ in range(TRIES):
            self._sequence += 1
            self._socket.send(message(kind, REQUEST | DUMP, self._sequence, body))
            found, pieces, whole = self._listed()
            if whole and (pieces < 2 or says_when_interrupted or found == before):
                return found
            before = found
        raise ToolError(f"{self._what} change faster than they can be read", hint="try again")

    def carry_out(self, batch: bytes) -> int:
        """Send messages of which the last asks for an acknowledgement: the number of the first refusal, or 0."""
        self._socket.send(batch)
        _, kind, _, body = messages(self._received(), self._what)[0]
        if kind != ERROR:
            raise ToolError(f"{self._what}: an answer of kind {kind} from the kernel")
        return _code(body)

    def _listed(self) -> tuple[list[bytes], int, bool]:
        """One list to its end, in how many pieces it came, and whether the kernel saw no change in between."""
        found: list[bytes] = []
        pieces, whole = 0, True
        while True:
            count = len(found)
            for sequence, kind, flags, body in messages(self._received(), self._what):
                if sequence != self._sequence:
                    continue
                whole = whole and not flags & INTERRUPTED
                if kind in (DONE, ERROR):
                    if code := _code(body):
                        raise OSError(code, posix.strerror(code))
                    return found, pieces + (len(found) > count), whole
                found.append(body)
            pieces += len(found) > count

    def _received(self) -> bytes:
        try:
            data, _, flags, _ = self._socket.recvmsg(BUFFER)
        except TimeoutError as error:
            raise ToolError(f"{self._what}: no answer from the kernel") from error
        if flags & MSG_TRUNC:
            raise ToolError(f"{self._what}: the kernel's answer is longer than {BUFFER} bytes")
        return data


def message(kind: int, flags: int, sequence: int, body: bytes) -> bytes:
    return struct.pack("=IHHII", HEADER + len(body), kind, flags, sequence, 0) + body


def messages(data: bytes, what: str) -> list[tuple[int, int, int, bytes]]:
    """The messages of one datagram: (sequence, kind, flags, payload) each; ToolError when one is cut off."""
    found = []
    place, end = 0, len(data)
    while place < end:
        if end - place < HEADER:
            raise ToolError(f"{what}: half an answer from the kernel")
        length, kind, flags, sequence, _ = struct.unpack_from("=IHHII", data, place)
        if not HEADER <= length <= end - place:
            raise ToolError(f"{what}: half an answer from the kernel")
        found.append((sequence, kind, flags, data[place + HEADER : place + length]))
        place += (length + 3) & ~3
    return found


def attribute(kind: int, body: bytes) -> bytes:
    return struct.pack("=HH", 4 + len(body), kind) + body + b"\0" * (-len(body) % 4)


def text_attribute(kind: int, text: str) -> bytes:
    return attribute(kind, text.encode() + b"\0")


def attributes(body: bytes, place: int) -> dict[int, bytes]:
    """The attributes behind a header of ``place`` bytes, by type; what is cut off is left out, as the kernel does."""
    found: dict[int, bytes] = {}
    end = len(body)
    while place + 4 <= end:
        length, kind = struct.unpack_from("=HH", body, place)
        if not 4 <= length <= end - place:
            break
        found[kind & KIND] = body[place + 4 : place + length]
        place += (length + 3) & ~3
    return found


def nested(body: bytes) -> list[bytes]:
    """The bodies of a list of attributes that are all of one kind, in their order."""
    found = []
    place, end = 0, len(body)
    while place + 4 <= end:
        length = struct.unpack_from("=H", body, place)[0]
        if not 4 <= length <= end - place:
            break
        found.append(body[place + 4 : place + length])
        place += (length + 3) & ~3
    return found


def text(body: bytes) -> str:
    """A string attribute."""
    return body.rstrip(b"\0").decode("utf-8", "replace")


def _code(body: bytes) -> int:
    """The errno of an error message or at the end of a list; 0 when all is well."""
    return -int(struct.unpack_from("=i", body)[0]) if len(body) >= 4 else 0
