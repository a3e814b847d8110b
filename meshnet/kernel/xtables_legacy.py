"""Legacy tables through python-iptables (libiptc), with the text of iptables-restore and -save as its language.

Every call forks: after TPROXY or REDIRECT was used for one family, the other family can't use them in the same process
(python-iptables 1.2.0; libxtables may end the process), and an ``exit`` in the library must not be ours.
"""

from __future__ import annotations

import os
import time

from meshnet.kernel import netns
from meshnet.kernel.run import DEFAULT_TIMEOUT, Started
from meshnet.kernel.together import awaited, later
from meshnet.kernel.xtables import LOCK_WAIT, legacy_tables
from meshnet.model.errors import BusyError, ToolError, UnsupportedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from meshnet.kernel.ports import Work
    from meshnet.kernel.run import Ran
    from meshnet.model.cidr import Family

LOCK_PATH = "/run/xtables.lock"
"""What the tools lock when XTABLES_LOCKFILE says nothing else."""

REFUSED, BUSY, BROKEN = 101, 102, 103
"""Exit statuses of the child: the library or the kernel said no, the lock was taken, anything else. Above those with
which libxtables itself ends a process (enum xtables_exittype: 1 to 4), which would pass for an answer of ours."""


def available() -> str:
    """Why this backend can't be used here; empty when it can. Loads the library: half a second, once."""
    try:
        import iptc  # noqa: F401
    except ImportError as error:
        return f"python-iptables is not installed ({error}): pip install 'meshnet[libiptc]'"
    except Exception as error:  # its module level calls ldconfig and reads symbols of libraries that may be missing
        return f"python-iptables can't use libxtables, libip4tc and libip6tc here: {error}"
    return ""


class LegacyLibrary:
    """``libiptc``: the same tables as iptables-legacy, without its programs. Same shape as ``xtables.Xtables``.

    ``lock_path`` is taken exclusively for the length of a restore, waiting ``lock_wait`` seconds at most; without
    one it is the tools' own lock in the namespace that this process came up in, and none elsewhere.
    """

    __slots__ = ("lock_path", "lock_wait")
    name = "libiptc"

    def __init__(self, *, lock_path: str | None = None, lock_wait: float = LOCK_WAIT) -> None:
        self.lock_path = lock_path
        self.lock_wait = lock_wait

    def save(self, family: Family, counters: bool = False) -> str:
        """The rules of a family as iptables-legacy-save prints them, without comment lines. ToolError.

        Only the tables that exist are opened: opening one creates it.
        """
        return self.begin_save(family, counters).finish()

    def begin_save(self, family: Family, counters: bool = False) -> Work[str]:
        """Start a ``save`` and return at once."""
        tables = legacy_tables(family)
        if not tables:
            return later(str)

        def work() -> str:
            from meshnet.kernel import legacy_child

            return legacy_child.save(family, tables, counters)

        return working(work)

    def restore(self, family: Family, text: str, *, test: bool = False) -> None:
        """Carry out a restore text, each table all or nothing; only parse it with ``test``. ToolError, BusyError."""
        self.begin(family, text, test=test).finish()

    def begin(self, family: Family, text: str, *, test: bool = False) -> Work[str]:
        """Start a restore and return at once, so that both families run side by side; ``finish`` it."""
        path, wait = self._lock(), self.lock_wait

        def work() -> str:
            from meshnet.kernel import legacy_child

            if path:
                # never closed: the lock goes with the child
                lock = os.open(path, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
                netns.lock_within(lock, wait, f"somebody else holds the xtables lock {path}")
            legacy_child.restore(family, text, test=test)
            return ""

        return working(work, wait)

    def delete_empty_table(self, family: Family, table: str, besides: str = "") -> bool:  # noqa: ARG002
        """Legacy tables stay while their module is loaded: nothing to do."""
        return False

    def _lock(self) -> str:
        if self.lock_path is not None:
            return self.lock_path
        return os.environ.get("XTABLES_LOCKFILE", LOCK_PATH) if netns.in_birthplace() else ""


def working(work: Callable[[], str], wait: float = 0.0) -> Work[str]:
    """A child under way with ``work``; what that returns, or why it failed, comes back through memfds.

    ``finish`` waits at most half a minute and the wait for the lock.
    """
    reason = available()
    if reason:
        raise UnsupportedError((reason,), hint="use --backend iptables-legacy")
    answer, chatter = os.memfd_create("meshnet-answer"), os.memfd_create("meshnet-chatter")
    pid = os.fork()
    if pid == 0:
        _child(work, answer, chatter)
    timeout = DEFAULT_TIMEOUT + wait
    return awaited(Started(("libiptc",), pid, answer, chatter, time.monotonic() + timeout, timeout), _answered)


def _answered(ran: Ran) -> str:
    if ran.ok:
        return ran.out
    message, _, detail = ran.out.partition("\n")
    if ran.code == BUSY:
        raise BusyError(message, hint="try again; lslocks")
    if ran.code == REFUSED:
        raise ToolError(message, detail=detail)
    how = f"by signal {-ran.code}" if ran.code < 0 else f"with status {ran.code}"
    raise ToolError(f"the libiptc child ended {how}", detail=ran.out + ran.err)


def _child(work: Callable[[], str], answer: int, chatter: int) -> None:
    """Never returns. libxtables prints rules to standard output and complaints to standard error: both are ours."""
    code, said = BROKEN, ""
    try:
        os.dup2(os.memfd_create("meshnet-printed"), 1)
        os.dup2(chatter, 2)
        said = work()
        code = 0
    except BusyError as error:
        code, said = BUSY, error.message
    except ToolError as error:
        code, said = REFUSED, f"{error.message}\n{error.detail}"
    except BaseException as error:
        said = f"{type(error).__name__}: {error}\n"
    finally:
        rest = memoryview(said.encode())
        while rest:
            rest = rest[os.write(answer, rest) :]
        os._exit(code)
