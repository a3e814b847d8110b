"""Servers of the lab: child processes in a namespace, awaited until they are ready, ended by their pid."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Protocol

import meshnet
from meshnet.model.errors import ToolError
from meshnet.sidecar.config import Settings

READY_SECONDS = 15.0
STOP_SECONDS = 5.0
STDERR_BYTES = 65536
LOOK_SECONDS = 0.01
"""Between two looks at a server that can't say by itself that it is ready."""


class Enterable(Protocol):
    """Anything that can be entered for a while by the calling thread, such as a network namespace."""

    def entered(self) -> contextlib.AbstractContextManager[Any]: ...


class Child:
    """A running server. A context manager: leaving it stops the process."""

    def __init__(self, name: str, process: subprocess.Popen[bytes], errors: IO[bytes]) -> None:
        self.name = name
        self._process = process
        self._errors = errors
        self._kept: str | None = None

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    @property
    def stderr(self) -> str:
        """The end of what the process wrote on stderr so far, at most ``STDERR_BYTES``."""
        if self._kept is not None:
            return self._kept
        size = os.fstat(self._errors.fileno()).st_size
        start = max(0, size - STDERR_BYTES)
        return os.pread(self._errors.fileno(), STDERR_BYTES, start).decode(errors="replace")

    def ask_to_end(self) -> None:
        """SIGTERM, without waiting: several that are to stop do so side by side."""
        if self.running:
            self._process.terminate()

    def stop(self, *, within: float = STOP_SECONDS) -> int:
        """End the process: SIGTERM, and SIGKILL after ``within`` seconds. Gives its exit code; again is harmless."""
        self.ask_to_end()
        try:
            self._process.wait(within)
        except subprocess.TimeoutExpired:
            self._process.kill()
        code = self._process.wait()
        if self._kept is None:
            self._kept = self.stderr
            self._errors.close()
            if self._process.stdout is not None:
                self._process.stdout.close()
        return code

    def stats(self, *, within: float = STOP_SECONDS) -> dict[str, Any]:
        """A sidecar's counters: asked for by SIGUSR1 while it runs, the last ones after its end. Errors: ToolError."""
        before = self.stderr.count('{"stats"')
        if self.running:
            self._process.send_signal(signal.SIGUSR1)
        end = time.monotonic() + within
        while True:
            lines = [line for line in self.stderr.splitlines() if line.startswith('{"stats"') and line.endswith("}")]
            if lines and (len(lines) > before or not self.running):
                found: dict[str, Any] = json.loads(lines[-1])["stats"]
                return found
            if time.monotonic() > end:
                raise ToolError(f"{self.name} gives no counters", detail=self.stderr)
            time.sleep(0.01)

    def __enter__(self) -> Child:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def start(
    name: str,
    command: Sequence[str],
    namespace: Enterable | None = None,
    *,
    ready_within: float = READY_SECONDS,
    ready: Callable[[Child], bool] | None = None,
) -> Child:
    """Start a server and wait for its line ``ready``, or until ``ready`` says so of one that prints no such line.

    The calling thread enters the namespace, and a child begins where the thread that forks it is; nothing has to
    run between fork and exec. The servers of the lab die with that thread (``die_with_parent``). stderr goes to a
    file without a name, since a pipe that nobody reads would stop a server that has much to say. Errors: ToolError
    when it ends early or isn't ready in time, with its own words; the process is gone then.
    """
    errors = tempfile.TemporaryFile()  # noqa: SIM115  closed by Child.stop
    try:
        with namespace.entered() if namespace else contextlib.nullcontext():
            process = subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE if ready is None else errors,
                stderr=errors,
                env=_environment(),
            )
    except BaseException:
        errors.close()
        raise
    child = Child(name, process, errors)
    try:
        if ready is None:
            _await_ready(child, process, ready_within)
        else:
            wait(child, ready, ready_within)
    except BaseException:
        child.stop()
        raise
    return child


def start_sidecar(settings: Settings, namespace: Enterable | None = None) -> Child:
    """The embedded sidecar, listening. Errors: as ``start``."""
    return start("sidecar", _module("meshnet.sidecar", settings.to_json()), namespace)


def start_application(
    namespace: Enterable | None = None, *, port: int = 80, uid: int | None = None, gid: int | None = None, **more: Any
) -> Child:
    """The HTTP echo application of ``lab.application``, listening. Errors: as ``start``."""
    told = json.dumps({"port": port, "uid": uid, "gid": gid, **more})
    return start("application", _module("meshnet.lab.application", told), namespace)


def _module(name: str, argument: str) -> list[str]:
    return [sys.executable, "-m", name, argument]


def _environment() -> dict[str, str]:
    """The parent's, with the directory that this package was imported from first.

    Tests run from a checkout while another version may be installed: parent and child must be of one.
    """
    here = str(Path(meshnet.__file__).resolve().parent.parent)
    paths = [here, *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


def wait(child: Child, ready: Callable[[Child], bool], seconds: float) -> None:
    """Look at a server until it is ready. ToolError when it ends before, or isn't ready in time."""
    end = time.monotonic() + seconds
    while not ready(child):
        if not child.running:
            words = child.stderr
            raise ToolError(f"{child.name} ended with {child.stop()} before it was ready", detail=words)
        if time.monotonic() > end:
            raise ToolError(f"{child.name} was not ready within {seconds:g} s", detail=child.stderr)
        time.sleep(LOOK_SECONDS)


def _await_ready(child: Child, process: subprocess.Popen[bytes], seconds: float) -> None:
    assert process.stdout is not None
    stream = process.stdout.fileno()
    end = time.monotonic() + seconds
    said = b""
    while b"\n" not in said:
        readable, _, _ = select.select([stream], [], [], max(0.0, end - time.monotonic()))
        if not readable:
            raise ToolError(f"{child.name} was not ready within {seconds:g} s", detail=child.stderr)
        piece = os.read(stream, 4096)
        if not piece:
            code = child.stop()
            raise ToolError(f"{child.name} ended with {code} before it was ready", detail=child.stderr)
        said += piece
    if said.split(b"\n")[0] != b"ready":
        raise ToolError(f"{child.name} said {said[:100]!r} instead of ready", detail=child.stderr)
