"""The calls of a scenario: sockets made in a namespace under a user's identity, and one word for how each ended."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import socket
import struct
import time

from meshnet.model.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from meshnet.kernel.netns import Namespace
    from meshnet.model.cidr import Family

PATIENCE = 4.0
"""Seconds until a call counts as never answered: the sidecar's own dial is bounded by one."""

FIRST_LOOK = 0.4
"""Seconds without an answer after which the lab looks at sockets and connection tracking: the moment of failure."""

INET: dict[Family, socket.AddressFamily] = {4: socket.AF_INET, 6: socket.AF_INET6}
DNS_ID, TXT, IN = 0x6D6E, 16, 1
_libc = ctypes.CDLL(None, use_errno=True)


@value
class Where:
    """From whom to whom. ``source_port`` 0 is any; ``uid`` None is as this process."""

    namespace: Namespace
    family: Family
    host: str
    port: int
    uid: int | None = None
    source_port: int = 0


class Call:
    """One connection that asks who its peer sees. A context manager; ``ask`` can be called again while it is open."""

    def __init__(self, where: Where, waiting: Callable[[], None] = lambda: None) -> None:
        self.where = where
        self._waiting = waiting
        self._socket = opened(where)
        self.connected = ""

    def connect(self) -> str:
        """Empty when the connection stands, else the word for why not."""
        self._socket.setblocking(False)
        code = self._socket.connect_ex((self.where.host, self.where.port))
        if code not in (0, errno.EINPROGRESS):
            return _word(code)
        if not self._wait_for(write=True):
            return "timeout"
        code = self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        return _word(code) if code else ""

    def ask(self, *, last: bool = False) -> str:
        """The address that the application names as its peer, or the word for how it ended."""
        ending = "close" if last else "keep-alive"
        try:
            self._socket.sendall(f"GET /peer HTTP/1.1\r\nHost: lab\r\nConnection: {ending}\r\n\r\n".encode())
            return self._answer()
        except TimeoutError:
            return "timeout"
        except OSError as error:
            return _word(error.errno or 0)

    def ends(self) -> tuple[str, int]:
        """This side's address and port."""
        found = self._socket.getsockname()
        return found[0], found[1]

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> Call:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _answer(self) -> str:
        whole = b""
        while not _complete(whole):
            if not self._wait_for(write=False):
                return "timeout"
            piece = self._socket.recv(65536)
            if not piece:
                return "reset" if not whole else _peer(whole)
            whole += piece
        return _peer(whole)

    def _wait_for(self, *, write: bool) -> bool:
        import select

        watched: tuple[list[socket.socket], list[socket.socket]] = (
            ([], [self._socket]) if write else ([self._socket], [])
        )
        for seconds in (FIRST_LOOK, PATIENCE - FIRST_LOOK):
            if any(select.select(*watched, [], seconds)[:2]):
                return True
            self._waiting()
        return False


def opened(where: Where, kind: socket.SocketKind = socket.SOCK_STREAM) -> socket.socket:
    """A socket in the place and of the user of a call; its source port may be shared by several."""
    with where.namespace.entered(), identity(where.uid):
        made = socket.socket(INET[where.family], kind)
    if where.source_port:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(("", where.source_port))
    return made


@contextlib.contextmanager
def identity(uid: int | None) -> Iterator[None]:
    """Sockets made inside belong to this user and group, for this thread alone: xt_owner looks at their creator's."""
    if uid is None:
        yield
        return
    _libc.setfsgid(uid)
    _libc.setfsuid(uid)
    try:
        yield
    finally:
        _libc.setfsuid(os.geteuid())
        _libc.setfsgid(os.getegid())


def asked_name(where: Where, transport: str, patience: float = PATIENCE) -> str:
    """A DNS query, and the name of the server that answered it (``lab.resolver``); the word for how it ended."""
    kind = socket.SOCK_DGRAM if transport == "udp" else socket.SOCK_STREAM
    with opened(where, kind) as made:
        made.settimeout(patience)
        # a reset instead of TIME_WAIT, so that another user can ask from the same port at once
        made.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        try:
            made.connect((where.host, where.port))
            if transport == "udp":
                made.send(query())
                answer = made.recv(512)
            else:
                question = query()
                made.sendall(struct.pack("!H", len(question)) + question)
                answer = made.recv(512)[2:]
        except TimeoutError:
            return "timeout"
        except OSError as error:
            return _word(error.errno or 0)
    return read_text_record(answer)


def query() -> bytes:
    """The question ``who.lab. TXT`` (RFC 1035 section 4)."""
    return struct.pack("!6H", DNS_ID, 0x0100, 1, 0, 0, 0) + b"\x03who\x03lab\x00" + struct.pack("!2H", TXT, IN)


def read_text_record(answer: bytes) -> str:
    """The first string of the only answer; ``garbage`` for anything else."""
    start = len(query()) + 12
    if len(answer) <= start:
        return "garbage"
    return answer[start + 1 : start + 1 + answer[start]].decode("ascii", "replace")


def settled(look: Callable[[], bool], seconds: float) -> bool:
    """Whether something becomes true within a time."""
    end = time.monotonic() + seconds
    while not look():
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def _complete(whole: bytes) -> bool:
    head, found, body = whole.partition(b"\r\n\r\n")
    if not found:
        return False
    for line in head.split(b"\r\n")[1:]:
        name, _, rest = line.partition(b":")
        if name.lower() == b"content-length":
            return len(body) >= int(rest)
        if name.lower() == b"transfer-encoding":
            return body.endswith(b"0\r\n\r\n")
    return False


def _peer(whole: bytes) -> str:
    """What the application said; for another status than 200 the status."""
    head, _, body = whole.partition(b"\r\n\r\n")
    words = head.split(b" ")
    if len(words) < 2 or words[1] != b"200":
        return f"status {words[1].decode('ascii', 'replace') if len(words) > 1 else '?'}"
    return body.decode("ascii", "replace").strip() or "reset"


def _word(code: int) -> str:
    words = {
        errno.ECONNREFUSED: "refused",
        errno.ECONNRESET: "reset",
        errno.EPIPE: "reset",
        errno.ETIMEDOUT: "timeout",
        errno.EHOSTUNREACH: "unreachable",
        errno.ENETUNREACH: "unreachable",
    }
    return words.get(code, os.strerror(code))
