"""The open connections of the sidecar, both sides: what tells a loop, and what is counted."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Literal

from meshnet.sidecar.origin import Endpoint

Direction = Literal["inbound", "outbound"]
Flow = tuple[Endpoint, Endpoint]
"""A connection as its first packet names it: source, destination."""


class Ledger:
    """Every accepted and every dialled connection by source and destination, and the counters."""

    def __init__(self) -> None:
        self._accepted: dict[Flow, int] = {}
        self._dialled: dict[Flow, Direction] = {}
        self.accepted: dict[Direction, int] = {"inbound": 0, "outbound": 0}
        self.loops_refused = 0
        self.direct_refused = 0
        self.full_refused = 0
        self.upstream_failures = 0
        self.broken = 0
        self.last_failure = ""

    def is_loop(self, direction: Direction, flow: Flow) -> bool:
        """Whether an accepted connection is one that the sidecar dialled itself and must not serve.

        One case is right: an application calls a service that leads back to its own pod. The outbound side dials
        the pod's address, and the rules bring that to the inbound side, once. Both ends are compared, because with
        the client's address kept, a true client may use the source port of a dialled connection for another port.
        """
        by = self._dialled.get(flow)
        return by == "inbound" or (by == "outbound" and direction == "outbound")

    def in_use(self, flow: Flow) -> bool:
        """Whether a dial from this source would have the same packets as a connection that is already open."""
        return flow in self._accepted or flow in self._dialled

    @contextlib.contextmanager
    def serving(self, flow: Flow) -> Iterator[None]:
        """Hold an accepted connection in the books. Counted, since a source port may be reused while one closes."""
        self._accepted[flow] = self._accepted.get(flow, 0) + 1
        try:
            yield
        finally:
            self._accepted[flow] -= 1
            if not self._accepted[flow]:
                del self._accepted[flow]

    @contextlib.contextmanager
    def dialling(self, direction: Direction, flow: Flow) -> Iterator[None]:
        """Hold a dialled connection in the books."""
        self._dialled[flow] = direction
        try:
            yield
        finally:
            self._dialled.pop(flow, None)

    def failed(self, why: str) -> None:
        """Count a dial that came to nothing; the last reason is kept for a person."""
        self.upstream_failures += 1
        self.last_failure = why

    def stats(self) -> dict[str, int | str]:
        """The counters since the start, as they are printed."""
        return {
            "accepted_inbound": self.accepted["inbound"],
            "accepted_outbound": self.accepted["outbound"],
            "loops_refused": self.loops_refused,
            "direct_refused": self.direct_refused,
            "full_refused": self.full_refused,
            "upstream_failures": self.upstream_failures,
            "broken": self.broken,
            "open": sum(self._accepted.values()),
            "last_failure": self.last_failure,
        }
