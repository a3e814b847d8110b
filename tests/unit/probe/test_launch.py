from __future__ import annotations

import os
import select
import socket

from meshnet.model.cidr import read_address
from meshnet.model.flow import Flow
from meshnet.probe.launch import Launched

HERE = read_address("127.0.0.1")[1]


def flow(port: int, **more: int) -> Flow:
    return Flow("out", 4, "tcp", HERE, HERE, port, "lo", **more)


def test_what_a_listener_says_is_heard() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        launched = Launched(flow(server.getsockname()[1]), 0)
        assert launched.problem == "" and launched.heard() == ""
        accepted, _ = server.accept()
        with accepted:
            accepted.send(b"direct")
            select.select([launched.socket], [], [], 10)
            assert launched.heard() == "direct"
            launched.close()


def test_nobody_there() -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    launched = Launched(flow(port), 0)
    select.select([launched.socket], [], [], 10)
    assert launched.heard() == "refused"
    launched.close()


def test_a_source_that_is_not_ours_is_a_problem() -> None:
    launched = Launched(Flow("out", 4, "tcp", read_address("192.0.2.1")[1], HERE, 80, "lo"), 0)
    assert "assign" in launched.problem
    launched.close()


def test_the_process_stays_who_it_is() -> None:
    before = os.geteuid(), os.getegid()
    Launched(flow(9, uid=1337, gid=1338), 0).close()
    assert (os.geteuid(), os.getegid()) == before


def test_a_source_port_is_free_again_at_once() -> None:
    """Two runs of verify in a row use the same ports: a closed connection doesn't linger."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        source = 0
        for _ in range(2):
            launched = Launched(flow(port), source)
            assert launched.problem == ""
            source = launched.socket.getsockname()[1]
            server.accept()[0].close()
            launched.close()


def test_a_mark_of_all_32_bits() -> None:
    launched = Launched(flow(9, mark=0xFFFFFFFF), 0)
    assert launched.socket.getsockopt(socket.SOL_SOCKET, socket.SO_MARK, 4) == b"\xff" * 4
    launched.close()
