"""``python -m meshnet.sidecar '<settings as JSON>'``: one sidecar in the namespace that it was started in.

Writes ``ready`` on stdout when it listens, its counters as one line of JSON on stderr at SIGUSR1 and at its end.
SIGTERM and SIGINT end it, and so does the end of the process that started it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import resource
import signal
import sys

from meshnet.model.errors import NOT_HERE, REFUSED, WRONG_USAGE, Wrong
from meshnet.sidecar.config import Settings
from meshnet.sidecar.listener import Listener, close_all, open_listeners
from meshnet.sidecar.privilege import CAP_NET_ADMIN, CAP_NET_BIND_SERVICE, become, die_with_parent, keep_only
from meshnet.sidecar.proxy import Proxy

SPARE_FILES = 256


def main(arguments: list[str]) -> int:
    """Run a sidecar to its end; the exit code is one of those in ``model.errors``."""
    try:
        settings = Settings.from_json(arguments[0] if len(arguments) == 1 else "")
    except Wrong as error:
        print(f"sidecar: settings: {error}", file=sys.stderr)
        return WRONG_USAGE
    try:
        listeners = _prepared(settings)
    except PermissionError as error:
        print(
            f"sidecar: needs CAP_NET_ADMIN, and CAP_SETUID and CAP_SETGID to change its ids: {error}", file=sys.stderr
        )
        return NOT_HERE
    except OSError as error:
        print(f"sidecar: {error}", file=sys.stderr)
        return REFUSED
    try:
        asyncio.run(_run(Proxy(settings), listeners))
    finally:
        close_all(listeners)
    return 0


def _prepared(settings: Settings) -> list[Listener]:
    _allow_files(2 * settings.connections + SPARE_FILES)
    become(settings.uid, settings.gid, (CAP_NET_ADMIN, CAP_NET_BIND_SERVICE))
    die_with_parent()
    listeners = open_listeners(settings)
    keep_only((CAP_NET_ADMIN,))
    return listeners


def _allow_files(wanted: int) -> None:
    """Two descriptors a connection: the usual soft limit of 1024 is below what 512 connections need."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


async def _run(proxy: Proxy, listeners: list[Listener]) -> None:
    loop = asyncio.get_running_loop()
    serving = loop.create_task(proxy.serve(listeners))
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, serving.cancel)
    loop.add_signal_handler(signal.SIGUSR1, _print_stats, proxy)
    print("ready", flush=True)
    with contextlib.suppress(asyncio.CancelledError):
        await serving
    _print_stats(proxy)


def _print_stats(proxy: Proxy) -> None:
    print(json.dumps({"stats": proxy.ledger.stats()}), file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
