"""The iptables tools of one variant: read and write the rules of the namespace that the calling thread is in.

Text in, text out. Both variants print the same text for the same rules (1.8.9: the vocabulary of this project comes
back as fed, apart from ``--syn``, bare addresses and the order of conntrack states), in another order of tables.
"""

from __future__ import annotations

import posix

from meshnet.kernel import netns, nft_table
from meshnet.kernel.run import start
from meshnet.kernel.savetext import BUILT_IN, sections
from meshnet.kernel.together import awaited, later
from meshnet.model.errors import BusyError, ToolError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    from meshnet.kernel.ports import Work
    from meshnet.kernel.run import Ran, Started
    from meshnet.model.cidr import Family

    Variant = Literal["nft", "legacy"]

LOCK_WAIT = 5
"""Seconds to wait for the xtables lock. The legacy tools wait for ever by default, and kubelet kills us meanwhile."""

LOCKED = 4
"""Exit status of the tools for a resource problem: the lock, but with nft also a busy chain (iptables(8))."""

NAMES = {4: "ip_tables_names", 6: "ip6_tables_names"}
"""In /proc/net: the legacy tables that exist. Reading it creates none; ``iptables-legacy -L`` and -save do."""


def program(family: Family, variant: Variant, verb: str = "") -> str:
    """The name of a tool, such as ``ip6tables-nft-save``; both Debian's and Red Hat's packages have these names."""
    return f"{'ip6tables' if family == 6 else 'iptables'}-{variant}{'-' + verb if verb else ''}"


def legacy_tables(family: Family) -> tuple[str, ...]:
    """The legacy tables that the current namespace has, newest first; none when the kernel has no such tables."""
    try:
        with open(f"/proc/thread-self/net/{NAMES[family]}", encoding="utf-8") as file:
            return tuple(file.read().split())
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise ToolError(f"can't see which legacy tables there are: {error.strerror}") from error


def foreign_to_tools(text: str, table: str) -> bool:
    """Whether iptables-nft-save says, in a comment and with status 0, that a table holds what it can't print.

    Such a table looks empty, but somebody wrote chains of their own into it with nft. (1.8.9's -X spared them when
    tried; other versions need not.)
    """
    return any(line.startswith("#") and f"`{table}'" in line and "incompatible" in line for line in text.split("\n"))


class Xtables:
    """``iptables-nft`` or ``iptables-legacy`` with their IPv6 twins. Holds no state: enter a namespace, then call.

    ``lock_wait`` in whole seconds. The legacy lock is one file for all pods that share a mount namespace, so in a
    namespace other than the one this process came up in, the tools get a lock of their own; who wants to be alone in
    that namespace takes ``netns.held``.
    """

    __slots__ = ("_lock_path", "lock_wait", "name", "variant")

    def __init__(self, variant: Variant, *, lock_wait: int = LOCK_WAIT, lock_path: str = "") -> None:
        self.variant: Variant = variant
        self.name = f"iptables-{variant}"
        self.lock_wait = lock_wait
        self._lock_path = lock_path

    def present(self, family: Family) -> tuple[str, ...]:
        """The tables that a family has, asked of the kernel without a process; ToolError. Looking creates none."""
        if self.variant == "legacy":
            return legacy_tables(family)
        # in a table of another name there may be anything, but the tools neither read nor write it
        return tuple(table for table in nft_table.tables(family) if table in BUILT_IN)

    def save(self, family: Family, counters: bool = False) -> str:
        """The rules of a family as iptables-save prints them, with packet and byte counts if wanted.

        MissingToolError, ToolError. Empty when there is no table, and then no process is needed for it.
        """
        return self.begin_save(family, counters).finish()

    def begin_save(self, family: Family, counters: bool = False) -> Work[str]:
        """Start a ``save`` and return at once, so that both families run side by side; ``finish`` it."""
        if not self.present(family):
            return later(str)
        return awaited(start([program(family, self.variant, "save"), *(["-c"] if counters else [])]), _saved)

    def restore(self, family: Family, text: str, *, test: bool = False) -> None:
        """Carry out a restore text on top of what there is, each table all or nothing; only check it with ``test``.

        MissingToolError, ToolError with the tool's words and the line, BusyError when the lock wasn't to be had.
        Tables in front of the one that fails stay changed.
        """
        self.begin(family, text, test=test).finish()

    def begin(self, family: Family, text: str, *, test: bool = False) -> Work[None]:
        """Start a restore and return at once, so that both families run side by side; ``finish`` it."""
        argv = [program(family, self.variant, "restore"), "--noflush", *(["--test"] if test else [])]
        return awaited(self._started(argv, text), lambda ran: _restored(ran, text))

    def _started(self, argv: list[str], text: str) -> Started:
        if self.variant == "nft":
            return start(argv, text=text)
        argv += ["-w", str(self.lock_wait)]
        limit = self.lock_wait + 30.0
        if self._lock_path:
            return start(argv, text=text, timeout=limit, env={"XTABLES_LOCKFILE": self._lock_path})
        if netns.in_birthplace():
            return start(argv, text=text, timeout=limit)
        lock = posix.memfd_create("meshnet-xtables-lock")
        try:
            env = {"XTABLES_LOCKFILE": f"/proc/self/fd/{lock}"}
            return start(argv, text=text, timeout=limit, env=env, keep_fds=(lock,))
        finally:
            posix.close(lock)

    def delete_empty_table(self, family: Family, table: str, besides: str = "") -> bool:
        """Take an nft table away that holds nothing but empty chains with policy ACCEPT; whether it is gone now.

        ``besides`` names a chain of the caller's that may be in it, empty too. Legacy tables can't be taken away while
        their module is loaded: False. Chains and table go in one batch, which the kernel refuses as soon as anybody
        put something into it.
        """
        if self.variant == "legacy":
            return False
        text = self.save(family)
        found = next((section for section in sections(text) if section.table == table), None)
        if found is None or found.lines or foreign_to_tools(text, table):
            return False
        if any(policy != "ACCEPT" and name != besides for name, policy in found.chains.items()):
            return False
        return nft_table.delete_table(family, table, tuple(found.chains))


def _saved(ran: Ran) -> str:
    if not ran.ok:
        raise ToolError(f"{ran.argv[0]} refused", detail=ran.err)
    return ran.out


def _restored(ran: Ran, text: str) -> None:
    if not ran.ok:
        raise _refusal(ran, text)


def _refusal(ran: Ran, text: str) -> ToolError:
    tool = ran.argv[0]
    if ran.code == LOCKED and "xtables lock" in ran.err:
        return BusyError(f"{tool}: somebody else holds the xtables lock", hint="try again; lslocks", detail=ran.err)
    number = _line_number(ran.err)
    lines = text.splitlines()
    if ran.code >= 0 and 0 < number <= len(lines):
        return ToolError(f"{tool} refused line {number}: {lines[number - 1]}", detail=ran.err)
    ended = f"was ended by signal {-ran.code}" if ran.code < 0 else f"failed with status {ran.code}"
    return ToolError(f"{tool} {ended}", detail=ran.err)


def _line_number(words: str) -> int:
    """Which line the tool means: it says ``Error occurred at line: 7`` or ``line 7 failed``; 0 when it doesn't."""
    for marker in ("at line: ", "line "):
        number = words.partition(marker)[2].partition("\n")[0].split(" ")[0]
        if number.isascii() and number.isdigit():
            return int(number)
    return 0
