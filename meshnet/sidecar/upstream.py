"""The sidecar's own side of a connection: which address it binds, which mark it carries, whom it dials."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import sys
from collections.abc import AsyncIterator

from meshnet.model.value import value
from meshnet.sidecar.config import Settings
from meshnet.sidecar.ledger import Direction, Ledger
from meshnet.sidecar.origin import Endpoint, endpoint_of

IP_TRANSPARENT, IPV6_TRANSPARENT = 19, 75
"""linux/in.h and linux/in6.h; the socket module has neither before 3.14."""

IP_BIND_ADDRESS_NO_PORT = 24
"""linux/in.h, for both families: the port is chosen at connect, where only the whole flow must be unique."""

SAME_PORT_TRIES = 8


@value
class Dial:
    """How one upstream connection is made. ``source`` of None leaves the choice to the kernel."""

    direction: Direction
    destination: Endpoint
    source: Endpoint | None = None
    mark: int | None = None
    foreign: bool = False
    """The source is an address of another host (the client's)."""


def dial_for(settings: Settings, direction: Direction, client: Endpoint, destination: Endpoint) -> Dial:
    """What the settings say about a connection from ``client`` to ``destination``."""
    if direction == "outbound":
        return Dial(direction, destination, mark=settings.outbound_mark)
    loopback = settings.dials == "loopback"
    target = Endpoint("127.0.0.1" if client.family == 4 else "::1", destination.port) if loopback else destination
    if settings.original_source:
        source = Endpoint(client.host, 0, client.scope)
        return Dial(direction, target, source, settings.inbound_mark, foreign=True)
    if loopback:
        return Dial(direction, target)
    return Dial(direction, target, Endpoint(settings.passthrough(client.family), 0))


@contextlib.asynccontextmanager
async def dialled(dial: Dial, ledger: Ledger, seconds: float) -> AsyncIterator[socket.socket]:
    """An upstream connection, in the ledger from the moment of its first packet. Errors: OSError, TimeoutError."""
    made = _bound(dial, ledger)
    with made:
        made.setblocking(False)
        code = made.connect_ex(dial.destination.sockaddr)
        if code not in (0, errno.EINPROGRESS):
            raise OSError(code, os.strerror(code))
        # The source is known only now, and nothing was accepted since: a loop's connection finds it in the ledger.
        flow = (endpoint_of(made.getsockname()), dial.destination)
        with ledger.dialling(dial.direction, flow):
            if code:
                async with asyncio.timeout(seconds):
                    await asyncio.get_running_loop().sock_connect(made, dial.destination.sockaddr)
            yield made


def transparent(made: socket.socket) -> None:
    """Let a socket use addresses that are not the host's. Errors: PermissionError without CAP_NET_ADMIN."""
    if made.family == socket.AF_INET:
        made.setsockopt(socket.IPPROTO_IP, IP_TRANSPARENT, 1)
    else:
        made.setsockopt(socket.IPPROTO_IPV6, IPV6_TRANSPARENT, 1)


def _bound(dial: Dial, ledger: Ledger) -> socket.socket:
    """A socket with the dial's options and source.

    The kernel chooses the port of a kept client address without knowing which ports the client uses. The same one
    would make a second connection with the first one's addresses and ports: its packets would be taken for those
    of the client. Refused sockets stay open until the choice is made, so that their ports aren't chosen again.
    """
    with contextlib.ExitStack() as unfit:
        for _ in range(SAME_PORT_TRIES):
            made = _optioned(dial)
            if not dial.foreign or not ledger.in_use((endpoint_of(made.getsockname()), dial.destination)):
                return made
            unfit.enter_context(made)
    raise OSError(errno.EADDRNOTAVAIL, f"no free port of {dial.source}")


def _optioned(dial: Dial) -> socket.socket:
    made = socket.socket(socket.AF_INET if dial.destination.family == 4 else socket.AF_INET6, socket.SOCK_STREAM)
    try:
        if dial.mark is not None:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, dial.mark.to_bytes(4, sys.byteorder))
        if dial.foreign:
            transparent(made)
        elif dial.source is not None:
            made.setsockopt(socket.IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1)
        if dial.source is not None:
            made.bind(dial.source.sockaddr)
    except OSError:
        made.close()
        raise
    return made
