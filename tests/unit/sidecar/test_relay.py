from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator

import pytest

from meshnet.sidecar.relay import CHUNK, relay, reset


def tcp_pair() -> tuple[socket.socket, socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        near = socket.create_connection(server.getsockname())
        far, _ = server.accept()
    for made in (near, far):
        made.setblocking(False)
    return near, far


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, ...]]:
    """client, sidecar's side of the client, sidecar's side of the application, application"""
    made = (*tcp_pair(), *tcp_pair())
    yield made
    for item in made:
        item.close()


def test_half_close_is_passed_on_and_the_other_half_goes_on(ends: tuple[socket.socket, ...]) -> None:
    client, left, right, application = ends

    async def run() -> None:
        loop = asyncio.get_running_loop()
        passing = loop.create_task(relay(left, right))
        await loop.sock_sendall(client, b"question")
        client.shutdown(socket.SHUT_WR)
        assert await loop.sock_recv(application, 100) == b"question"
        assert await loop.sock_recv(application, 100) == b""
        await loop.sock_sendall(application, b"answer")
        application.shutdown(socket.SHUT_WR)
        assert await loop.sock_recv(client, 100) == b"answer"
        assert await loop.sock_recv(client, 100) == b""
        assert await asyncio.wait_for(passing, 5)

    asyncio.run(run())


def test_a_reset_on_one_side_is_a_reset_on_the_other(ends: tuple[socket.socket, ...]) -> None:
    client, left, right, application = ends

    async def run() -> None:
        loop = asyncio.get_running_loop()
        passing = loop.create_task(relay(left, right))
        await asyncio.sleep(0)
        reset(application)
        assert not await asyncio.wait_for(passing, 5)
        with pytest.raises(ConnectionResetError):
            await loop.sock_recv(client, 100)

    asyncio.run(run())


def test_a_reader_that_waits_holds_the_writer_back(ends: tuple[socket.socket, ...]) -> None:
    client, left, right, _ = ends

    async def run() -> int:
        loop = asyncio.get_running_loop()
        passing = loop.create_task(relay(left, right))
        sent, idle = 0, 0
        while idle < 20 and sent < 1 << 27:
            try:
                sent += client.send(bytes(CHUNK))
                idle = 0
            except BlockingIOError:
                idle += 1
            await asyncio.sleep(0.01 if idle else 0)
        passing.cancel()
        return sent

    assert asyncio.run(run()) < 1 << 26
