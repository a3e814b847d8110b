"""User namespaces: whose root owns a network namespace, and work done as that root.

The owner match is refused from any other user namespace than the network namespace's own (net/netfilter/xt_owner.c,
owner_check), and its ids are the inside's numbers. So a pod with a user namespace of its own is entered by both.
"""

from __future__ import annotations

import fcntl
import os

from meshnet.kernel.netns import CLONE_NEWNET, setns
from meshnet.model.errors import NamespaceError, PermissionMissing, ToolError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from meshnet.kernel.netns import Namespace

CLONE_NEWUSER = 0x10000000
NS_GET_USERNS = 0xB701
"""ioctl_ns(2), linux/nsfs.h."""

OWN = "/proc/self/ns/user"
LARGEST_ANSWER = 1 << 24


def owner(namespace: Namespace) -> int | None:
    """An open file of the user namespace that owns a network namespace; None when it is the caller's own.

    PermissionMissing when that one lies outside of the caller's, which then has no say there anyway.
    """
    try:
        fd = fcntl.ioctl(namespace.fd, NS_GET_USERNS)
    except PermissionError as error:
        raise PermissionMissing(
            f"{namespace.where} belongs to a user namespace outside of this one", hint="run it on the node itself"
        ) from error
    except OSError as error:
        raise NamespaceError(f"{namespace.where}: whose it is can't be seen: {error.strerror}") from error
    there, here = os.fstat(fd), os.stat(OWN)
    if (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino):
        os.close(fd)
        return None
    os.set_inheritable(fd, False)
    return fd


def as_root_of(user: int, namespace: Namespace, work: Callable[[], str]) -> str:
    """The text that ``work`` returns, done by a child that is in both namespaces as the inner user 0.

    In a child, since a process that went into a user namespace doesn't come back. Whatever ``work`` raises has to be
    put into words by itself. NamespaceError, PermissionMissing, ToolError.
    """
    read, write = os.pipe2(os.O_CLOEXEC)
    pid = os.fork()
    if pid == 0:
        os.close(read)  # else an answer that nobody reads to its end would wait for a reader: this very child
        _as_child(write, user, namespace, work)
    os.close(write)
    said = bytearray()
    try:
        while piece := os.read(read, 1 << 16):
            said += piece
            if len(said) > LARGEST_ANSWER:
                break
    finally:
        os.close(read)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    text = said.decode("utf-8", "replace")
    if code == 0:
        return text
    if code == 4:
        raise PermissionMissing(text, hint="run it as root of the node")
    if code == 3:
        raise NamespaceError(text)
    raise ToolError(f"the child in the user namespace of {namespace.where} ended with {code}", detail=text)


def _as_child(write: int, user: int, namespace: Namespace, work: Callable[[], str]) -> None:
    code = 1
    try:
        try:
            said, ended = _entered(user, namespace, work), 0
        except PermissionError as error:
            said, ended = f"entering the user namespace of {namespace.where}: {error.strerror}", 4
        except OSError as error:
            said, ended = f"entering the user namespace of {namespace.where}: {error.strerror}", 3
        rest = memoryview(said.encode("utf-8", "replace"))
        while rest:
            rest = rest[os.write(write, rest) :]
        code = ended
    finally:
        os._exit(code)


def _entered(user: int, namespace: Namespace, work: Callable[[], str]) -> str:
    setns(user, CLONE_NEWUSER)
    setns(namespace.fd, CLONE_NEWNET)
    if not namespace.is_current:
        raise OSError(0, "another network namespace than the one that was asked for")
    try:
        if _may_set_groups():
            os.setgroups([])
        os.setgid(0)
        os.setuid(0)
    except OSError as error:
        raise OSError(error.errno, f"its user 0 can't be taken ({error.strerror}): is it mapped?") from error
    return work()


def _may_set_groups() -> bool:
    """A map that an ordinary user wrote forbids it (user_namespaces(7)); the node's groups mean nothing inside then."""
    with open("/proc/self/setgroups", encoding="ascii") as file:
        return file.read().strip() == "allow"
