"""Names of test namespaces, which say whose they are, and the end of those whose process is gone."""

from __future__ import annotations

import contextlib
import itertools
import os
from pathlib import Path

from meshnet.kernel import netns
from meshnet.model.errors import NamespaceError

PREFIX = os.environ.get("MESHNET_TEST_PREFIX") or "mnt"
_numbers = itertools.count()


def fresh_name() -> str:
    return f"{PREFIX}-{os.getpid()}-{next(_numbers)}"


def sweep() -> None:
    """Delete the namespaces of our prefix whose process has ended; its own are those of the asking process."""
    for path in Path("/run/netns").glob(f"{PREFIX}-*-*"):
        pid = path.name.split("-")[1]
        if pid.isdigit() and not Path(f"/proc/{pid}").exists():
            with contextlib.suppress(NamespaceError):  # another worker of the same run was quicker
                netns.delete(path.name)
