"""The sidecar's listening sockets: one per family, port and direction, on the wildcard address."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import TYPE_CHECKING

from meshnet.model.value import value
from meshnet.sidecar.config import Settings
from meshnet.sidecar.ledger import Direction
from meshnet.sidecar.upstream import transparent

if TYPE_CHECKING:
    from meshnet.model.cidr import Family

BACKLOG = 1024


@value
class Listener:
    """A listening socket and what a connection on it means."""

    direction: Direction
    port: int
    socket: socket.socket


def open_listeners(settings: Settings) -> list[Listener]:
    """Every listener of the settings, or none. Errors: OSError (port taken, family not available)."""
    wanted: list[tuple[Direction, int]] = []
    if settings.listens_inbound:
        first, last = settings.inbound_ports.first, settings.inbound_ports.last
        wanted += [("inbound", number) for number in range(first, last + 1)]
    if settings.listens_outbound:
        wanted.append(("outbound", settings.outbound_port))
    opened: list[Listener] = []
    try:
        for family in settings.families:
            for direction, number in wanted:
                place = 0 if direction == "inbound" else 1
                segment = settings.segment_sizes[place] if settings.segment_sizes else None
                made = listening(family, number, through=settings.transparent, segment=segment)
                opened.append(Listener(direction, number, made))
    except OSError:
        close_all(opened)
        raise
    return opened


def close_all(listeners: Sequence[Listener]) -> None:
    for listener in listeners:
        listener.socket.close()


def listening(
    family: Family, number: int, host: str = "", *, through: bool = False, segment: int | None = None
) -> socket.socket:
    """A listening socket of one family, on the wildcard address if no other is given.

    One socket a family, V6ONLY: a client of IPv4 on a socket of both has a mapped IPv6 address, which is neither
    the address to show nor one that an IPv4 socket can bind. Both directions take ``through``: what a guest sends
    may come to the outbound port by TPROXY. ``segment`` is the maximum segment size that it announces.
    """
    made = socket.socket(socket.AF_INET if family == 4 else socket.AF_INET6, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == 6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        if through:
            transparent(made)
        if segment is not None:
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, segment)
        made.bind((host or ("0.0.0.0" if family == 4 else "::"), number))  # noqa: S104  the rules bring what is for any address
        made.listen(BACKLOG)
        made.setblocking(False)
    except OSError:
        made.close()
        raise
    return made
