"""A lab that outlives the command which built it: a process in the background that holds places and servers.

``python -m meshnet.lab.keeper <prefix> '<told as JSON>'``. It writes ``ready`` on stdout when everything runs, and
takes everything down at SIGTERM. Killed, its servers end with it, and only names are left; ``clear`` finds both, by
the prefix, and needs no file that says what there is.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
from pathlib import Path

from meshnet.kernel import netns
from meshnet.lab.process import Child, start
from meshnet.lab.scenario import Application, Row, Scenario, Sidecar, Variant
from meshnet.lab.topology import Plan
from meshnet.lab.world import World
from meshnet.model.errors import MeshnetError, NamespaceError, Wrong

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType

    from meshnet.lab.scenario import ApplicationKind, LabBackend, SidecarKind

PREFIX = "mnlab-"
MODULE = "meshnet.lab.keeper"
ENDING_SECONDS = 15.0


def up(spec: str, sidecar: SidecarKind, application: ApplicationKind, backend: LabBackend, prefix: str) -> Child:
    """Build a lab for a spec's text and leave it running; an earlier one of this prefix is cleared first.

    The process stays when the caller ends. Errors: ToolError with the keeper's words.
    """
    clear(prefix)
    told = {"spec": spec, "sidecar": sidecar, "application": application, "backend": backend}
    return start("the lab", [sys.executable, "-m", MODULE, prefix, json.dumps(told)], ready_within=60.0)


def clear(prefix: str = PREFIX) -> tuple[int, list[str]]:
    """End the keepers of a prefix and take its names away; how many and which. Nothing else is touched."""
    pids = keepers(prefix)
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    end = time.monotonic() + ENDING_SECONDS
    while any(_alive(pid) for pid in pids) and time.monotonic() < end:
        time.sleep(0.02)
    for pid in pids:
        if pid in keepers(prefix):  # asked again: the number may be somebody else's by now
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    left = names(prefix)
    for name in left:
        with contextlib.suppress(NamespaceError):
            netns.delete(name)
    return len(pids), left


def names(prefix: str = PREFIX) -> list[str]:
    """The namespaces of a prefix."""
    folder = Path(netns.FOLDERS[0])
    return sorted(path.name for path in folder.iterdir() if path.name.startswith(prefix)) if folder.is_dir() else []


def keepers(prefix: str) -> list[int]:
    """The processes that keep a lab of this prefix, known by their command line."""
    found = []
    for path in Path("/proc").iterdir():
        if not path.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            words = path.joinpath("cmdline").read_bytes().split(b"\0")
            if words[1:4] == [b"-m", MODULE.encode(), prefix.encode()]:
                found.append(int(path.name))
    return found


def _alive(pid: int) -> bool:
    """Whether a process runs; one that ended and was not waited for yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def main(arguments: list[str]) -> int:
    """Keep a lab until SIGTERM; the exit code is one of those in ``model.errors``."""
    prefix, told = arguments[0], json.loads(arguments[1])
    os.setsid()  # the terminal's Ctrl-C is for the command that was typed, not for the lab
    try:
        with World(_row(told), prefix=prefix, watched=False):
            ended: list[int] = []
            signal.signal(signal.SIGTERM, lambda number, _frame: ended.append(number))
            print("ready", flush=True)
            while not ended:
                signal.pause()
    except MeshnetError as error:
        print("\n".join(error.lines()), file=sys.stderr)
        return error.exit_code
    except Wrong as error:
        print(f"{error.what}: {error.right}", file=sys.stderr)
        return 2
    return 0


def _row(told: dict[str, str]) -> Row:
    variant = Variant(
        spec=told["spec"],
        sidecar=Sidecar(told["sidecar"]),  # type: ignore[arg-type]
        application=Application(told["application"]),  # type: ignore[arg-type]
    )
    scenario = Scenario("up", "", "", "", (variant,), Plan())
    return Row(scenario, variant, 4, told["backend"])  # type: ignore[arg-type]


def _stopped(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _stopped)  # also while it is being built: what there is goes again
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(0)
