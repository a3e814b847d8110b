from __future__ import annotations

import json

import pytest

from meshnet.lab.application import Told, read_told, response
from meshnet.model.errors import Wrong

PEER, LOCAL = ("10.0.0.20", 4000), "10.0.0.10:80"


def body(raw: bytes) -> bytes:
    return raw.partition(b"\r\n\r\n")[2]


def test_the_addresses_are_the_answer() -> None:
    raw, keep = response(b"GET / HTTP/1.1\r\nHost: pod", PEER, LOCAL)
    assert keep and json.loads(body(raw)) == {"peer": "10.0.0.20", "peer_port": 4000, "local": LOCAL}
    assert body(response(b"GET /peer HTTP/1.1", PEER, LOCAL)[0]) == b"10.0.0.20"
    assert body(response(b"HEAD /peer HTTP/1.1", PEER, LOCAL)[0]) == b""


@pytest.mark.parametrize(
    ("head", "keep"),
    [
        (b"GET / HTTP/1.1", True),
        (b"GET / HTTP/1.1\r\nConnection: Close", False),
        (b"GET / HTTP/1.0", False),
        (b"GET / HTTP/1.0\r\nconnection: keep-alive", True),
        (b"POST / HTTP/1.1", False),
        (b"hello", False),
        (b"GET / HTTP/2", False),
    ],
)
def test_who_keeps_the_connection(head: bytes, keep: bool) -> None:
    raw, kept = response(head, PEER, LOCAL)
    assert kept is keep
    assert (b"Connection: keep-alive" in raw) is keep


def test_what_it_is_told() -> None:
    assert read_told('{"port": 8080, "uid": 5, "families": [6]}') == Told(8080, 5, None, (6,))
    for text in ("", "[]", '{"port": 0}', '{"colour": 1}', '{"families": 4}'):
        with pytest.raises(Wrong):
            read_told(text)
