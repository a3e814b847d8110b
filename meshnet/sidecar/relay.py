"""Bytes from one socket to the other and back: half-close kept, nothing piled up, an error is an error at both."""

from __future__ import annotations

import asyncio
import socket
import struct

CHUNK = 65536
"""Bytes held per direction: the next read waits until these are in the other socket's send buffer."""


async def relay(client: socket.socket, upstream: socket.socket) -> bool:
    """Pass bytes both ways until both ends have ended; True when neither broke off.

    After an error both sides are reset, not closed: an orderly end would make half a transfer look whole.
    """
    for side in (client, upstream):
        _watch(side)
    whole = True
    try:
        async with asyncio.TaskGroup() as pumps:
            pumps.create_task(_pump(client, upstream))
            pumps.create_task(_pump(upstream, client))
    except* OSError:
        reset(client)
        reset(upstream)
        whole = False
    return whole


def reset(side: socket.socket) -> None:
    """Close with RST (socket(7), SO_LINGER of zero seconds), so that the peer doesn't wait for an answer."""
    if side.fileno() >= 0:
        side.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        side.close()


async def _pump(source: socket.socket, sink: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    while data := await loop.sock_recv(source, CHUNK):
        await loop.sock_sendall(sink, data)
    sink.shutdown(socket.SHUT_WR)


def _watch(side: socket.socket) -> None:
    """A peer that vanished without a packet would hold its place among the bounded connections for ever."""
    side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    side.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    side.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 60)
    side.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 10)
    side.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)
