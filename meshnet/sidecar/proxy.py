"""The transparent proxy: takes captured connections, finds where they were going, and passes them on."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Sequence

from meshnet.sidecar.config import Settings
from meshnet.sidecar.ledger import Flow, Ledger
from meshnet.sidecar.listener import Listener
from meshnet.sidecar.origin import Endpoint, destination_of, endpoint_of, original_destination
from meshnet.sidecar.relay import relay, reset
from meshnet.sidecar.upstream import dial_for, dialled

SHORTAGES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
"""accept(2) errors that leave the connection in the queue: trying again at once would only turn the processor."""

PAUSE_SECONDS = 0.1
CLOSE_SECONDS = 2.0


class Proxy:
    """Serves a set of listeners until it is cancelled; ``ledger`` has the counters."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.ledger = Ledger()
        self._open: set[asyncio.Task[None]] = set()

    async def serve(self, listeners: Sequence[Listener]) -> None:
        """Accept until cancelled; then end every connection, within ``CLOSE_SECONDS``."""
        try:
            async with asyncio.TaskGroup() as accepting:
                for listener in listeners:
                    accepting.create_task(self._accept(listener))
        finally:
            for task in self._open:
                task.cancel()
            if self._open:
                await asyncio.wait(self._open, timeout=CLOSE_SECONDS)

    async def _accept(self, listener: Listener) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, sender = await loop.sock_accept(listener.socket)
            except OSError as error:
                if error.errno in SHORTAGES:
                    await asyncio.sleep(PAUSE_SECONDS)
                continue  # accept(2): an error of the network belongs to that connection, not to the listener
            self.ledger.accepted[listener.direction] += 1
            flow = self._admit(listener, accepted, endpoint_of(sender))
            if flow is None:
                reset(accepted)
                continue
            task = loop.create_task(self._serve(listener, accepted, flow))
            self._open.add(task)
            task.add_done_callback(self._open.discard)

    def _admit(self, listener: Listener, accepted: socket.socket, client: Endpoint) -> Flow | None:
        """The flow of an accepted connection, or None, counted, for one that must not be passed on."""
        local = endpoint_of(accepted.getsockname())
        destination = destination_of(
            original_destination(accepted),
            local,
            listener.port,
            self.settings.own_ports,
            inbound=listener.direction == "inbound",
        )
        if destination is None:
            self.ledger.direct_refused += 1
            return None
        flow = (client, destination)
        if self.ledger.is_loop(listener.direction, flow):
            self.ledger.loops_refused += 1
            return None
        if len(self._open) >= self.settings.connections:
            self.ledger.full_refused += 1
            return None
        return flow

    async def _serve(self, listener: Listener, accepted: socket.socket, flow: Flow) -> None:
        client, destination = flow
        dial = dial_for(self.settings, listener.direction, client, destination)
        reached = False
        with accepted, self.ledger.serving(flow):
            try:
                async with dialled(dial, self.ledger, self.settings.connect_seconds) as upstream:
                    reached = True
                    if not await relay(accepted, upstream):
                        self.ledger.broken += 1
            except (OSError, TimeoutError) as error:
                # The client learns of a refusal by a reset, as it would have without a proxy in between.
                reset(accepted)
                if reached:
                    self.ledger.broken += 1
                else:
                    self.ledger.failed(f"{dial.source or 'any'} -> {dial.destination}: {error or 'no answer'}")
