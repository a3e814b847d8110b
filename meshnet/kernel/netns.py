"""Network namespaces by name, path or process: open one, enter it for a while, come back, hold it alone.

No ``ip netns exec`` and no shell: setns(2) moves the calling thread, and a socket or a process made there belongs to
the namespace. Whoever reads /proc while inside: /proc/sys/net follows the reading thread, but /proc/net is a link to
``self/net``, the process's first thread; ``/proc/thread-self/net`` is right for any thread.
"""

from __future__ import annotations

import fcntl
import posix
import time

from meshnet.model.errors import BusyError, NamespaceError, PermissionMissing, UsageError
from meshnet.model.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Literal

    Kind = Literal["own", "name", "path", "pid"]

FOLDERS = ("/run/netns", "/var/run/netns")
"""Where ip-netns(8) keeps names. One is a link to the other, except in images without the link."""

CLONE_NEWNET = 0x40000000
NS_GET_NSTYPE = 0xB703
"""ioctl_ns(2), linux/nsfs.h."""

OWN_NOW = "/proc/thread-self/ns/net"
TYPES = {
    0x00020000: "mount",
    0x02000000: "cgroup",
    0x04000000: "UTS",
    0x08000000: "IPC",
    0x10000000: "user",
    0x20000000: "PID",
    0x00000080: "time",
}
"""CLONE_NEW… flags of linux/sched.h, for the words about a namespace of another type."""

CAPABILITIES = {
    "CAP_SETGID": 6,
    "CAP_SETUID": 7,
    "CAP_NET_BIND_SERVICE": 10,
    "CAP_NET_ADMIN": 12,
    "CAP_NET_RAW": 13,
    "CAP_SYS_MODULE": 16,
    "CAP_SYS_PTRACE": 19,
    "CAP_SYS_ADMIN": 21,
}
"""Bit numbers of linux/capability.h."""


@value
class Where:
    """Which namespace is meant: the thread's own, or one by ``name``, ``path`` or ``pid``."""

    kind: Kind = "own"
    text: str = ""

    def __post_init__(self) -> None:
        if self.kind == "name" and not _good_name(self.text):
            raise NamespaceError(
                f"no name of a network namespace ({self.text!r})",
                hint="a name as `ip netns list` prints it, or an absolute path such as /proc/4711/ns/net",
            )
        if self.kind == "pid" and not (self.text.isascii() and self.text.isdigit() and 0 < int(self.text) < 1 << 31):
            raise NamespaceError(f"not a process id ({self.text})", hint="a positive number, as `ps` prints it")

    def __str__(self) -> str:
        return {"own": "this network namespace", "pid": f"process {self.text}"}.get(self.kind, self.text)


OWN = Where()


def where(netns: str | None = None, pid: int | str | None = None) -> Where:
    """What ``--netns`` and ``--pid`` say: an absolute path is a path, any other word a name, nothing is one's own."""
    if netns is not None and pid is not None:
        raise UsageError("a namespace by name and by process at once", hint="give --netns or --pid, not both")
    if pid is not None:
        return Where("pid", str(pid))
    if netns is None:
        return OWN
    return Where("path" if netns.startswith("/") else "name", netns)


class Namespace:
    """An open network namespace: it lives at least as long as this does. Close it, or use it as a context manager."""

    __slots__ = ("device", "fd", "inode", "where")

    def __init__(self, place: Where, fd: int) -> None:
        self.where = place
        self.fd = fd
        found = posix.fstat(fd)
        self.inode = found.st_ino
        self.device = found.st_dev

    @property
    def is_current(self) -> bool:
        """Whether the calling thread is in it now."""
        now = posix.stat(OWN_NOW)
        return (now.st_dev, now.st_ino) == (self.device, self.inode)

    @property
    def is_initial(self) -> bool:
        """Whether this process came up in it (seen when this module was loaded)."""
        return (self.device, self.inode) == _BORN_IN

    def entered(self) -> Entered:
        """A context manager: the calling thread is inside, and back where it was afterwards, whatever happens."""
        return Entered(self)

    def close(self) -> None:
        if self.fd >= 0:
            posix.close(self.fd)
            self.fd = -1

    def __enter__(self) -> Namespace:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Namespace({self.where}, net:[{self.inode}])"


class Entered:
    """One stay in a namespace. PermissionMissing when the kernel lets this process not in."""

    __slots__ = ("_back", "_namespace")

    def __init__(self, namespace: Namespace) -> None:
        self._namespace = namespace
        self._back = -1

    def __enter__(self) -> Namespace:
        if not self._namespace.is_current:
            back = posix.open(OWN_NOW, posix.O_RDONLY | posix.O_CLOEXEC)
            try:
                _setns(self._namespace.fd, self._namespace.where)
            except BaseException:
                posix.close(back)
                raise
            self._back = back
        return self._namespace

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._back >= 0:
            back, self._back = self._back, -1
            try:
                _setns(back, OWN)
            finally:
                posix.close(back)


class Held:
    """The only holder of a namespace among all processes that ask this way. See ``held``."""

    __slots__ = ("_fd", "_namespace", "_timeout")

    def __init__(self, namespace: Namespace, timeout: float) -> None:
        self._namespace = namespace
        self._timeout = timeout
        self._fd = -1

    def __enter__(self) -> Namespace:
        # an open file of its own: flock(2) belongs to the open file, and two threads that share one share the lock
        fd = posix.open(f"/proc/self/fd/{self._namespace.fd}", posix.O_RDONLY | posix.O_CLOEXEC)
        # Children hold it too: when we are killed, a restore under way goes on, and nobody may look before its end.
        posix.set_inheritable(fd, True)
        try:
            lock_within(fd, self._timeout, f"{self._namespace.where}: another meshnet is at work there")
        except BaseException:
            posix.close(fd)
            raise
        self._fd = fd
        return self._namespace

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._fd >= 0:
            fcntl.flock(self._fd, fcntl.LOCK_UN)  # closing alone would leave it to a child that still runs
            posix.close(self._fd)
            self._fd = -1


def open_namespace(place: Where = OWN) -> Namespace:
    """Open a namespace. NamespaceError when there is none there, PermissionMissing when /proc doesn't let us look."""
    path = _path_of(place)
    try:
        # O_PATH opens without side effects: a FIFO would wait for a writer, a device might start something
        seen = posix.open(path, posix.O_PATH | posix.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError, ProcessLookupError) as error:
        raise NamespaceError(_gone(place, path), hint="`ip netns list` and `lsns -t net` show what there is") from error
    except PermissionError as error:
        raise _no_permission(place) from error
    except (OSError, ValueError) as error:
        raise NamespaceError(f"{place}: can't be opened: {error}") from error
    try:
        if posix.fstat(seen).st_dev != posix.stat(OWN_NOW).st_dev:
            raise NamespaceError(f"{path} is no namespace", hint="a name left behind by a namespace that is gone?")
        fd = posix.open(f"/proc/self/fd/{seen}", posix.O_RDONLY | posix.O_NONBLOCK | posix.O_CLOEXEC)
    except PermissionError as error:
        raise _no_permission(place) from error
    finally:
        posix.close(seen)
    try:
        kind = fcntl.ioctl(fd, NS_GET_NSTYPE)
        if kind != CLONE_NEWNET:
            raise NamespaceError(f"{path} is a {TYPES.get(kind, 'different')} namespace, not a network namespace")
        return Namespace(place, fd)
    except BaseException:
        posix.close(fd)
        raise


def in_birthplace() -> bool:
    """Whether the calling thread is in the namespace that this process came up in."""
    return _identity(OWN_NOW) == _BORN_IN


def held(namespace: Namespace, timeout: float = 10.0) -> Held:
    """A context manager: alone in the namespace among all that use it, whichever name or path they came by.

    An exclusive flock on the namespace's own inode, so that nothing is left in a file system and containers with
    different mounts exclude each other too. ``timeout`` in seconds, BusyError after it.
    """
    return Held(namespace, timeout)


def lock_within(fd: int, timeout: float, busy: str) -> None:
    """Take an exclusive flock on an open file within ``timeout`` seconds, else BusyError with the words of ``busy``."""
    deadline = time.monotonic() + timeout
    pause = 0.002
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError as error:
            left = deadline - time.monotonic()
            if left <= 0:
                raise BusyError(
                    f"{busy}, waited {timeout:g} s", hint="try again, or look who holds it: lslocks"
                ) from error
            time.sleep(min(pause, left))
            pause = min(pause * 2, 0.05)


def missing_capabilities(wanted: tuple[str, ...]) -> tuple[str, ...]:
    """Those of the capabilities that this thread has not in its effective set (proc_pid_status(5), CapEff)."""
    with open("/proc/thread-self/status", encoding="utf-8", errors="replace") as file:
        effective = next((int(line.split()[1], 16) for line in file if line.startswith("CapEff:")), 0)
    return tuple(name for name in wanted if not effective >> CAPABILITIES[name] & 1)


def require_capabilities(wanted: tuple[str, ...], work: str) -> None:
    """PermissionMissing, in one line, when a capability is lacking for ``work``."""
    missing = missing_capabilities(wanted)
    if missing:
        raise PermissionMissing(f"{work} needs {' and '.join(missing)}", hint="run it as root, or give the capability")


def create(name: str) -> None:
    """Make a named network namespace as ``ip netns add`` does (a bind mount under /run/netns)."""
    place = Where("name", name)
    require_capabilities(("CAP_SYS_ADMIN",), f"making the network namespace {name}")
    if posix.access(_path_of(place), posix.F_OK):  # the library would leave its helper process behind as a zombie
        raise NamespaceError(f"the network namespace {name} exists already")
    from pyroute2 import netns as library

    try:
        library.create(name)
        open_namespace(place).close()
    except FileExistsError as error:
        raise NamespaceError(f"the network namespace {name} exists already") from error
    except OSError as error:
        raise NamespaceError(f"can't make the network namespace {name}: {error}") from error


def unnamed() -> Namespace:
    """A new namespace without a name: it ends when it is closed, or with this process, however that ends."""
    before = posix.open(OWN_NOW, posix.O_RDONLY | posix.O_CLOEXEC)
    try:
        _call_unshare()
        try:
            return Namespace(Where("path", OWN_NOW), posix.open(OWN_NOW, posix.O_RDONLY | posix.O_CLOEXEC))
        finally:
            setns(before, CLONE_NEWNET)
    except PermissionError as error:
        raise PermissionMissing("making a network namespace needs CAP_SYS_ADMIN", hint="run as root") from error
    finally:
        posix.close(before)


def delete(name: str) -> None:
    """Take a name away, as ``ip netns del`` does; the namespace ends with its last process, socket or open file."""
    Where("name", name)
    from pyroute2 import netns as library

    try:
        library.remove(name)
    except FileNotFoundError as error:
        raise NamespaceError(f"there is no network namespace {name}") from error
    except OSError as error:
        raise NamespaceError(f"can't delete the network namespace {name}: {error}") from error


def _good_name(name: str) -> bool:
    """What iproute2 takes as a name (its invalid_name), and nothing that a terminal would act upon."""
    return 0 < len(name.encode()) <= 255 and name not in (".", "..") and "/" not in name and name.isprintable()


def _path_of(place: Where) -> str:
    if place.kind == "own":
        return OWN_NOW
    if place.kind == "pid":
        return f"/proc/{place.text}/ns/net"
    if place.kind == "path":
        return place.text
    found = [f"{folder}/{place.text}" for folder in FOLDERS if posix.access(f"{folder}/{place.text}", posix.F_OK)]
    return found[0] if found else f"{FOLDERS[0]}/{place.text}"


def _gone(place: Where, path: str) -> str:
    if place.kind == "pid":
        return f"there is no process {place.text}"
    if place.kind == "name":
        return f"there is no network namespace {place.text} (no {path})"
    return f"there is no {path}"


def _no_permission(place: Where) -> PermissionMissing:
    return PermissionMissing(
        f"the namespace of {place} can't be looked at without CAP_SYS_PTRACE", hint="run it as root"
    )


def _identity(path: str) -> tuple[int, int]:
    try:
        found = posix.stat(path)
    except OSError:  # no /proc: whatever asks for a namespace later says so in words
        return (0, 0)
    return (found.st_dev, found.st_ino)


_BORN_IN = _identity(OWN_NOW)


def _setns(fd: int, place: Where) -> None:
    try:
        setns(fd, CLONE_NEWNET)
    except PermissionError as error:
        raise PermissionMissing(
            f"entering {place} needs CAP_SYS_ADMIN", hint="run it as root, in the user namespace that owns the pod"
        ) from error
    except OSError as error:
        raise NamespaceError(f"can't enter {place}: {error.strerror}") from error


def setns(fd: int, kind: int) -> None:
    """Move the calling thread (setns(2)); ``kind`` is a CLONE_NEW… flag. OSError."""
    native = getattr(posix, "setns", None)  # Python 3.12 and later
    if native is not None:
        native(fd, kind)
        return
    import ctypes

    if ctypes.CDLL(None, use_errno=True).setns(fd, kind):
        number = ctypes.get_errno()
        raise OSError(number, posix.strerror(number))


def _call_unshare() -> None:
    native = getattr(posix, "unshare", None)  # Python 3.12 and later
    if native is not None:
        native(CLONE_NEWNET)
        return
    import ctypes

    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET):
        number = ctypes.get_errno()
        raise OSError(number, posix.strerror(number))
