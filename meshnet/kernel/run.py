"""The only place that starts processes: bounded in time, without a shell, without threads, without dead-locks.

``posix_spawn`` and not ``subprocess``: importing that module costs as much as the bare interpreter. And in this room
``posix``, the module in C, and not ``os`` around it, which costs a tenth of that. All three standard streams of a child
are memfds: it can write tens of megabytes before anybody reads, so that no pipe fills up while the other one is waited
on, and the child runs in the network namespace of the thread that started it.
"""

from __future__ import annotations

import posix
import select
import sys
import time

from meshnet.model.errors import MissingToolError, ToolError
from meshnet.model.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

DEFAULT_TIMEOUT = 30.0
"""Seconds. A restore of 20,000 rules takes less than one; whatever takes 30 is waiting for somebody."""

SBIN = ("/usr/local/sbin", "/usr/sbin", "/sbin")
"""Minimal containers and cron have no sbin in PATH, and that is where all of these tools live."""

SIGKILL, SIGPIPE, SIGXFSZ = 9, 13, 25
"""By number (signal(7)): the ``signal`` module brings ``enum`` along."""

PACKAGES = {"nft": "nftables", "ip": "iproute2", "ss": "iproute2", "conntrack": "conntrack", "modprobe": "kmod"}
"""Debian's name for the package, where it isn't that of the program."""


@value
class Ran:
    """A process that ended. ``code`` is its exit status, or minus the signal that ended it."""

    argv: tuple[str, ...]
    code: int
    out: str
    err: str

    @property
    def ok(self) -> bool:
        return self.code == 0


_BORN_WITH: dict[str, str] = {}


def environment() -> Mapping[str, str]:
    """This process's variables. Whoever has ``os`` changes them there, and ``posix`` isn't told."""
    if "os" in sys.modules:
        return sys.modules["os"].environ  # type: ignore[no-any-return]
    if not _BORN_WITH:
        encoding = sys.getfilesystemencoding()
        for name, text in posix.environ.items():
            _BORN_WITH[name.decode(encoding, "surrogateescape")] = text.decode(encoding, "surrogateescape")
    return _BORN_WITH


def find(program: str) -> str | None:
    """The path of a program in PATH and the sbin directories; None when it is not installed."""
    if "/" in program:
        return program if _executable(program) else None
    for folder in (*environment().get("PATH", "/bin:/usr/bin").split(":"), *SBIN):
        path = f"{folder or '.'}/{program}"
        if _executable(path):
            return path
    return None


def run(
    argv: Sequence[str],
    *,
    text: str = "",
    timeout: float = DEFAULT_TIMEOUT,
    env: Mapping[str, str] | None = None,
    keep_fds: Sequence[int] = (),
) -> Ran:
    """Run a program to its end; a non-zero exit status is an answer, not an exception.

    ``text`` is its standard input, ``timeout`` is in seconds, ``env`` is added to the environment (LC_ALL is C),
    ``keep_fds`` are inherited under their own numbers. MissingToolError when it is not installed, ToolError when it
    can't be started or was killed at the bound.
    """
    return start(argv, text=text, timeout=timeout, env=env, keep_fds=keep_fds).wait()


def start(
    argv: Sequence[str],
    *,
    text: str = "",
    timeout: float = DEFAULT_TIMEOUT,
    env: Mapping[str, str] | None = None,
    keep_fds: Sequence[int] = (),
) -> Started:
    """Start a program and return at once, so that two can run side by side. Arguments and errors as for ``run``."""
    path = find(argv[0])
    if path is None:
        raise MissingToolError(f"{argv[0]} is not installed", hint=f"apt-get install {package_of(argv[0])}")
    streams: list[int] = []
    try:
        for name in ("stdin", "stdout", "stderr"):
            streams.append(_memory_file(name))
        _fill(streams[0], text)
        actions = [(posix.POSIX_SPAWN_DUP2, stream, number) for number, stream in enumerate(streams)]
        # a dup2 onto itself takes close-on-exec off, in the child only (posix_spawn_file_actions_adddup2(3))
        actions += [(posix.POSIX_SPAWN_DUP2, fd, fd) for fd in keep_fds]
        pid = posix.posix_spawn(
            path,
            list(argv),
            {**environment(), "LC_ALL": "C", **(env or {})},
            file_actions=actions,
            # The interpreter ignores these two, and what is ignored stays so across exec: a tool would then print
            # errors about a closed pipe. Handlers of ours (Ctrl-C) go back to the default by themselves.
            setsigmask=(),
            setsigdef=(SIGPIPE, SIGXFSZ),
        )
    except OSError as error:
        _close(streams)
        raise ToolError(f"can't start {path}: {error.strerror}") from error
    except BaseException:
        _close(streams)
        raise
    posix.close(streams[0])
    return Started(tuple(argv), pid, streams[1], streams[2], time.monotonic() + timeout, timeout)


class Started:
    """A process under way. Call ``wait`` once, or use it as a context manager, which stops what still runs."""

    __slots__ = ("_deadline", "_err", "_out", "_pidfd", "_timeout", "argv", "pid")

    def __init__(self, argv: tuple[str, ...], pid: int, out: int, err: int, deadline: float, timeout: float) -> None:
        self.argv = argv
        self.pid = pid
        self._out, self._err = out, err
        self._deadline, self._timeout = deadline, timeout
        try:
            self._pidfd = posix.pidfd_open(pid)
        except ProcessLookupError as error:
            self._pidfd, self.pid = -1, 0
            self.stop()
            raise _lost(argv[0]) from error
        except OSError as error:
            self._pidfd = -1
            self.stop()
            raise ToolError(
                f"can't watch {argv[0]}: pidfd_open: {error.strerror}", hint="Linux 5.3 or later"
            ) from error

    def wait(self) -> Ran:
        """Wait for the end, at most until the bound given at the start; ToolError when it was killed there.

        Also when this thread is interrupted (Ctrl-C reaches the child as well) the child is ended and reaped.
        """
        try:
            if not self._ended(self._deadline - time.monotonic()):
                self.stop()
                raise ToolError(f"{self.argv[0]} did not end within {self._timeout:g} s and was killed")
            pid, self.pid = self.pid, 0  # before the reaping: the number may belong to somebody else right after it
            code = _reap(pid, self.argv[0])
            return Ran(self.argv, code, _content(self._out), _content(self._err))
        finally:
            self.stop()

    def stop(self) -> None:
        """Kill what still runs, reap it, and close everything. Does nothing the second time."""
        try:
            if self.pid:
                pid, self.pid = self.pid, 0
                posix.kill(pid, SIGKILL)
                if self._pidfd < 0 or self._ended(5.0):  # a child in an uninterruptible wait can't be reaped
                    _reap(pid, self.argv[0])
        finally:
            _close([fd for fd in (self._pidfd, self._out, self._err) if fd >= 0])
            self._pidfd = self._out = self._err = -1

    def __enter__(self) -> Started:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _ended(self, seconds: float) -> bool:
        poll = select.poll()
        poll.register(self._pidfd, select.POLLIN)
        return bool(poll.poll(max(0, int(seconds * 1000))))


def package_of(program: str) -> str:
    """Debian's package that has a program."""
    name = program.rpartition("/")[2]
    if name.startswith(("iptables", "ip6tables", "xtables")):
        return "iptables"
    return PACKAGES.get(name, name)


def _executable(path: str) -> bool:
    return posix.access(path, posix.X_OK) and not posix.access(f"{path}/", posix.F_OK)  # which only a folder has


def _memory_file(name: str) -> int:
    fd = posix.memfd_create(f"meshnet-{name}")
    if fd > 2:
        return fd
    # Started with standard streams closed (some daemons do): the memfd got number 0, 1 or 2, and laying out the
    # child's streams would overwrite one with another.
    low = [fd]
    try:
        while low[-1] <= 2:
            low.append(posix.dup(low[-1]))
    finally:
        _close([fd for fd in low if fd <= 2])
    return low[-1]


def _fill(fd: int, text: str) -> None:
    body, done = memoryview(text.encode("utf-8", "surrogateescape")), 0
    while done < len(body):
        done += posix.pwrite(fd, body[done:], done)  # and so the child reads from the start


def _content(fd: int) -> str:
    size = posix.fstat(fd).st_size
    read = bytearray()
    while len(read) < size:
        piece = posix.pread(fd, size - len(read), len(read))
        if not piece:
            break
        read += piece
    return read.decode("utf-8", "replace")


def _reap(pid: int, program: str) -> int:
    try:
        return posix.waitstatus_to_exitcode(posix.waitpid(pid, 0)[1])
    except ChildProcessError as error:
        raise _lost(program) from error


def _lost(program: str) -> ToolError:
    """The kernel reaped the child by itself, at its end or even before we could look."""
    return ToolError(
        f"the exit status of {program} is lost",
        hint="start meshnet without SIGCHLD ignored: whoever starts it told the kernel to forget its children",
    )


def _close(fds: Sequence[int]) -> None:
    for fd in fds:
        posix.close(fd)
