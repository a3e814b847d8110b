"""A DNS server of the lab: whatever it is asked, it answers with its own name, so that one sees who was reached.

``python -m meshnet.lab.resolver '{"name": "resolver", "port": 53, "hosts": ["203.0.113.53"]}'``; UDP and TCP. Writes
``ready`` on stdout when it listens.
"""

from __future__ import annotations

import json
import selectors
import socket
import struct
import sys

from meshnet.model.errors import REFUSED, WRONG_USAGE
from meshnet.sidecar.privilege import CAP_NET_BIND_SERVICE, become, die_with_parent

IP_PKTINFO, IPV6_RECVPKTINFO, IPV6_PKTINFO = 8, 49, 50
"""linux/in.h, linux/in6.h."""

PEER_SECONDS = 2.0


def main(arguments: list[str]) -> int:
    """Answer until killed; the exit code is one of those in ``model.errors``."""
    try:
        told = json.loads(arguments[0])
        name, port, hosts = str(told["name"]), int(told["port"]), list(told["hosts"])
        uid = told.get("uid")
    except (IndexError, KeyError, TypeError, ValueError):
        print("resolver: name, port and hosts are needed, as JSON", file=sys.stderr)
        return WRONG_USAGE
    try:
        become(uid, uid, (CAP_NET_BIND_SERVICE,))
        die_with_parent()
        made = [_opened(host, port, kind) for host in hosts for kind in (socket.SOCK_DGRAM, socket.SOCK_STREAM)]
    except OSError as error:
        print(f"resolver: {error}", file=sys.stderr)
        return REFUSED
    print("ready", flush=True)
    _serve(made, name)
    return 0


def answer(question: bytes, name: str) -> bytes:
    """The answer to a query of one question: a TXT record that holds the name (RFC 1035 sections 4.1 and 3.3.14)."""
    text = name.encode()
    head = question[:2] + struct.pack("!5H", 0x8180, 1, 1, 0, 0)
    record = struct.pack("!3HIH", 0xC00C, 16, 1, 0, len(text) + 1) + bytes((len(text),)) + text
    return head + question[12:] + record


def _opened(host: str, port: int, kind: socket.SocketKind) -> socket.socket:
    six = ":" in host
    made = socket.socket(socket.AF_INET6 if six else socket.AF_INET, kind)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if six:
        made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.setsockopt(socket.IPPROTO_IPV6, IPV6_RECVPKTINFO, 1)
    else:
        made.setsockopt(socket.IPPROTO_IP, IP_PKTINFO, 1)
    made.bind((host, port))
    if kind == socket.SOCK_STREAM:
        made.listen(16)
    return made


def _serve(sockets: list[socket.socket], name: str) -> None:
    selector = selectors.DefaultSelector()
    for made in sockets:
        selector.register(made, selectors.EVENT_READ)
    while True:
        for key, _ in selector.select():
            ready = key.fileobj
            assert isinstance(ready, socket.socket)
            try:
                (_datagram if ready.type == socket.SOCK_DGRAM else _stream)(ready, name)
            except OSError:
                continue  # the caller went away: its trouble ends there


def _datagram(made: socket.socket, name: str) -> None:
    """The answer leaves from the address that was asked: connection tracking waits for that one."""
    question, said, _, caller = made.recvmsg(512, 256)
    here = [(level, IPV6_PKTINFO if level == socket.IPPROTO_IPV6 else kind, _source_only(kind, data))
            for level, kind, data in said]  # fmt: skip
    made.sendmsg([answer(question, name)], here, 0, caller)


def _source_only(kind: int, data: bytes) -> bytes:
    """in_pktinfo or in6_pktinfo for sending: the address, and no interface."""
    return struct.pack("I4s4s", 0, data[4:8], b"") if kind == IP_PKTINFO else data[:16] + bytes(4)


def _stream(made: socket.socket, name: str) -> None:
    accepted, _ = made.accept()
    with accepted:
        accepted.settimeout(PEER_SECONDS)
        question = accepted.recv(514)[2:]
        if len(question) > 12:
            whole = answer(question, name)
            accepted.sendall(struct.pack("!H", len(whole)) + whole)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
