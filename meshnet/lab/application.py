"""The application of the lab: an HTTP server that answers with the addresses it sees.

``python -m meshnet.lab.application '{"port": 80, "uid": 1000}'``. ``GET /peer`` gives the peer's address alone, any
other path ``{"peer": …, "peer_port": …, "local": "address:port"}``. Writes ``ready`` on stdout when it listens.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import socket
import sys
from typing import TYPE_CHECKING

from meshnet.model.errors import REFUSED, WRONG_USAGE, Wrong
from meshnet.model.ports import read_port
from meshnet.model.value import value
from meshnet.sidecar.listener import listening
from meshnet.sidecar.origin import endpoint_of
from meshnet.sidecar.privilege import CAP_NET_BIND_SERVICE, become, die_with_parent, keep_only

if TYPE_CHECKING:
    from meshnet.model.cidr import Family

HEAD_BYTES = 16384
IDLE_SECONDS = 30.0
CONNECTIONS = 256


@value
class Told:
    """What the application is told: its port, its ids (None: as started), its families, one address or all."""

    port: int = 80
    uid: int | None = None
    gid: int | None = None
    families: tuple[Family, ...] = (4, 6)
    hosts: tuple[str, ...] = ()
    """An address for each family, in their order; none for all addresses."""


def read_told(text: str) -> Told:
    """From JSON. Errors: ``Wrong``."""
    try:
        found = json.loads(text)
        tuples = {"families": tuple(found.get("families", (4, 6))), "hosts": tuple(found.get("hosts", ()))}
        told = Told(**{**found, **tuples})
    except (ValueError, TypeError, AttributeError) as error:
        raise Wrong(f"not what an application is told ({text})", '{"port": 80, "uid": 1000}') from error
    read_port(told.port)
    return told


def answer(path: str, peer: str, peer_port: int, local: str) -> tuple[str, bytes]:
    """Content type and body of the answer to a GET."""
    if path == "/peer":
        return "text/plain", peer.encode()
    return "application/json", json.dumps({"peer": peer, "peer_port": peer_port, "local": local}).encode()


def response(head: bytes, peer: tuple[str, int], local: str) -> tuple[bytes, bool]:
    """The bytes that answer a request's head, and whether the connection stays open (RFC 9112 section 9.3)."""
    first, *fields = head.decode("latin-1").split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        return _framed("400 Bad Request", "text/plain", b"not HTTP/1", keep=False), False
    method, path, version = words
    wishes = {
        word.strip().lower()
        for name, _, line in (field.partition(":") for field in fields)
        if name.strip().lower() == "connection"
        for word in line.split(",")
    }
    keep = "close" not in wishes and (version != "HTTP/1.0" or "keep-alive" in wishes)
    if method not in ("GET", "HEAD"):  # a body may follow, which would be read as the next request
        return _framed("405 Method Not Allowed", "text/plain", b"GET or HEAD", keep=False), False
    kind, body = answer(path, *peer, local)
    framed = _framed("200 OK", kind, body, keep=keep)
    return (framed if method == "GET" else framed[: len(framed) - len(body)]), keep


def _framed(status: str, kind: str, body: bytes, *, keep: bool) -> bytes:
    connection = "keep-alive" if keep else "close"
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\nConnection: {connection}\r\n\r\n"
    )
    return head.encode() + body


async def _converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    peer = endpoint_of(writer.get_extra_info("peername"))
    local = str(endpoint_of(writer.get_extra_info("sockname")))
    keep = True
    while keep:
        async with asyncio.timeout(IDLE_SECONDS):
            head = await reader.readuntil(b"\r\n\r\n")
        bytes_out, keep = response(head[:-4], (peer.host, peer.port), local)
        writer.write(bytes_out)
        await writer.drain()


async def _run(sockets: list[socket.socket]) -> None:
    open_now = 0

    async def served(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal open_now
        open_now += 1
        try:
            if open_now <= CONNECTIONS:
                await _converse(reader, writer)
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            return  # the client left, said nothing for too long, or too much: the connection ends, the server doesn't
        finally:
            open_now -= 1
            writer.close()

    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    servers = [await asyncio.start_server(served, sock=made, limit=HEAD_BYTES) for made in sockets]
    print("ready", flush=True)
    await ended.wait()
    for server in servers:
        server.close()


def main(arguments: list[str]) -> int:
    """Serve until SIGTERM; the exit code is one of those in ``model.errors``."""
    sockets: list[socket.socket] = []
    try:
        told = read_told(arguments[0] if len(arguments) == 1 else "{}")
        become(told.uid, told.gid, (CAP_NET_BIND_SERVICE,))
        die_with_parent()
        hosts = told.hosts or ("",) * len(told.families)
        sockets += [listening(family, told.port, host) for family, host in zip(told.families, hosts, strict=True)]
        keep_only(())
    except Wrong as error:
        print(f"application: {error}", file=sys.stderr)
        return WRONG_USAGE
    except OSError as error:
        print(f"application: {error}", file=sys.stderr)
        return REFUSED
    with contextlib.ExitStack() as stack:
        for made in sockets:
            stack.enter_context(made)
        asyncio.run(_run(sockets))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
