"""Giving up root in a process that stays able to set marks and bind the addresses of others."""

from __future__ import annotations

import ctypes
import os
import signal
from collections.abc import Iterable

CAP_NET_BIND_SERVICE, CAP_NET_ADMIN = 10, 12
"""linux/capability.h. SO_MARK and IP_TRANSPARENT both take NET_ADMIN (socket(7), ip(7))."""

CAPABILITY_VERSION_3 = 0x20080522
PR_SET_PDEATHSIG, PR_SET_KEEPCAPS = 1, 8
PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE = 47, 2

_libc = ctypes.CDLL(None, use_errno=True)


class _Header(ctypes.Structure):
    _fields_ = [("version", ctypes.c_uint32), ("pid", ctypes.c_int)]


class _Sets(ctypes.Structure):
    _fields_ = [("effective", ctypes.c_uint32), ("permitted", ctypes.c_uint32), ("inheritable", ctypes.c_uint32)]


def become(uid: int | None, gid: int | None, capabilities: Iterable[int]) -> None:
    """Change this process's ids for good and keep only the capabilities named; None leaves an id as it is.

    Before any socket is opened: the owner match looks at the credentials with which a socket was created
    (net/netfilter/xt_owner.c), and a listener made by root would answer as root. Supplementary groups are
    dropped, since ``--suppl-groups`` matches them. Errors: OSError.
    """
    _prctl(PR_SET_KEEPCAPS, 1)
    if uid is not None or gid is not None:
        os.setgroups([])
    if gid is not None:
        os.setresgid(gid, gid, gid)
    if uid is not None:
        os.setresuid(uid, uid, uid)
    keep_only(capabilities)


def keep_only(capabilities: Iterable[int]) -> None:
    """Set the effective and permitted capabilities (all below 32) and clear the inheritable. Errors: OSError."""
    _set(tuple(capabilities), inheritable=False)


def hand_on(capabilities: Iterable[int]) -> None:
    """Keep exactly these capabilities across exec, under whatever uid (capabilities(7), ambient set). Errors: OSError.

    Without them in the ambient set a program that isn't root's starts with none, whatever this process holds.
    """
    numbers = tuple(capabilities)
    _set(numbers, inheritable=True)
    for number in numbers:
        _prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, number)


def die_with_parent() -> None:
    """Be killed when the thread that started this process ends (prctl(2), PR_SET_PDEATHSIG).

    After ``become``: a change of ids clears it. A parent that is gone already shows at the first write to its pipe.
    """
    _prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def _set(capabilities: tuple[int, ...], *, inheritable: bool) -> None:
    bits = sum(1 << number for number in set(capabilities))
    sets = (_Sets * 2)(_Sets(bits, bits, bits if inheritable else 0), _Sets(0, 0, 0))
    if _libc.capset(ctypes.byref(_Header(CAPABILITY_VERSION_3, 0)), sets):
        code = ctypes.get_errno()
        raise OSError(code, f"capset: {os.strerror(code)}")


def _prctl(option: int, argument: int, second: int = 0) -> None:
    if _libc.prctl(option, ctypes.c_ulong(argument), ctypes.c_ulong(second), 0, 0):
        code = ctypes.get_errno()
        raise OSError(code, f"prctl: {os.strerror(code)}")
