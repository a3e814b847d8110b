from __future__ import annotations

import errno
import socket
import threading
from contextlib import contextmanager

import pytest

from meshnet.lab import calls
from meshnet.lab.calls import Call, Where, _complete, _peer, _word, asked_name, query, read_text_record, settled
from meshnet.lab.resolver import answer


class Here:
    """The namespace that the test is in."""

    @contextmanager
    def entered(self):
        yield


def server(*pieces, family=socket.AF_INET):
    """Answers one connection with these pieces, and closes it."""
    made = socket.create_server(("127.0.0.1" if family == socket.AF_INET else "::1", 0), family=family)

    def serve():
        accepted, _ = made.accept()
        with accepted, made:
            accepted.recv(4096)
            for piece in pieces:
                accepted.sendall(piece)

    threading.Thread(target=serve, daemon=True).start()
    return made.getsockname()[1]


def asked(*pieces):
    with Call(Where(Here(), 4, "127.0.0.1", server(*pieces))) as call:
        assert call.connect() == ""
        return call.ask(last=True)


@pytest.mark.parametrize(
    ("pieces", "word"),
    [
        ((b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n10.0.0.1",), "10.0.0.1"),
        ((b"HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\n10.", b"0.0.1"), "10.0.0.1"),
        ((b"HTTP/1.1 200 OK\r\n\r\n10.0.0.1\n",), "10.0.0.1"),
        ((b"HTTP/1.1 503 no\r\nContent-Length: 0\r\n\r\n",), "status 503"),
        ((b"garbage\r\n\r\n",), "status ?"),
        ((), "reset"),
    ],
)
def test_whom_the_application_names_or_how_it_ended(pieces, word):
    assert asked(*pieces) == word


def test_nobody_listens():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        with Call(Where(Here(), 4, "127.0.0.1", taken.getsockname()[1])) as call:
            assert call.connect() == "refused"


def test_who_never_answers_is_looked_at_meanwhile(monkeypatch):
    monkeypatch.setattr(calls, "FIRST_LOOK", 0.01)
    monkeypatch.setattr(calls, "PATIENCE", 0.02)
    looks = []
    with socket.create_server(("127.0.0.1", 0)) as silent:
        where = Where(Here(), 4, "127.0.0.1", silent.getsockname()[1])
        with Call(where, lambda: looks.append(1)) as call:
            assert (call.connect(), call.ask()) == ("", "timeout")
    assert len(looks) == 2


@pytest.mark.parametrize(
    ("whole", "complete"),
    [
        (b"", False),
        (b"HTTP/1.1 200 OK\r\n\r\n", False),
        (b"H\r\nContent-Length: 2\r\n\r\na", False),
        (b"H\r\nContent-Length: 2\r\n\r\nab", True),
        (b"H\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n", True),
    ],
)
def test_when_an_answer_is_whole(whole, complete):
    assert _complete(whole) is complete


def test_an_empty_answer_names_nobody():
    assert _peer(b"HTTP/1.1 200 OK\r\n\r\n \n") == "reset"


@pytest.mark.parametrize(
    ("code", "word"), [(errno.ECONNRESET, "reset"), (errno.EPIPE, "reset"), (errno.ENETUNREACH, "unreachable")]
)
def test_words_for_ends(code, word):
    assert _word(code) == word
    assert _word(errno.EACCES) == "Permission denied"


def test_a_name_server_is_asked_who_it_is():
    made = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    made.bind(("127.0.0.1", 0))

    def serve():
        with made:
            question, caller = made.recvfrom(512)
            made.sendto(answer(question, "resolver"), caller)

    threading.Thread(target=serve, daemon=True).start()
    assert asked_name(Where(Here(), 4, "127.0.0.1", made.getsockname()[1]), "udp", 5.0) == "resolver"


@pytest.mark.parametrize("text", [b"", query(), bytes(12)])
def test_an_answer_without_a_record_is_garbage(text):
    assert read_text_record(text) == "garbage"


def test_something_becomes_true_or_it_does_not():
    turns = iter([False, False, True])
    assert settled(lambda: next(turns), 5.0)
    assert not settled(lambda: False, 0.0)
