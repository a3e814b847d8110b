"""A mount namespace of one's own, with an empty /dev/shm: files that end with the processes that are in it."""

from __future__ import annotations

import ctypes
import os

CLONE_NEWNS = 0x00020000
MS_NOSUID, MS_NODEV, MS_REC, MS_PRIVATE = 0x2, 0x4, 0x4000, 0x40000
"""linux/sched.h and linux/mount.h."""

SHARED_MEMORY = "/dev/shm"  # noqa: S108  the point is that it becomes a private one


def private_shared_memory(size: str = "256m") -> None:
    """Move this process into a new mount namespace whose /dev/shm is empty, and its own.

    Whatever is written there is gone with the last process in the namespace, also after SIGKILL, and the host never
    sees it: Envoy leaves its shared memory behind, and no run can clean up after one that was killed. Needs
    CAP_SYS_ADMIN, also that of a user namespace. Errors: OSError.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    _done(libc.unshare(CLONE_NEWNS), "unshare")
    _done(libc.mount(b"none", b"/", None, ctypes.c_ulong(MS_REC | MS_PRIVATE), None), "making mounts private")
    flags = ctypes.c_ulong(MS_NOSUID | MS_NODEV)
    options = f"size={size},mode=1777".encode()
    _done(libc.mount(b"tmpfs", SHARED_MEMORY.encode(), b"tmpfs", flags, options), f"mounting {SHARED_MEMORY}")


def _done(code: int, what: str) -> None:
    if code:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
