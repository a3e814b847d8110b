from __future__ import annotations

import socket

import pytest

from meshnet.model.errors import BusyError
from meshnet.probe.listen import BY_SIZE, SEGMENT_SIZES, Listeners, Post, posts
from tests.unit.probe.scenes import spec


def places(text: str, application: tuple[tuple[str, int], ...] = ()) -> set[tuple[str, str, int, bool]]:
    return {(post.name, post.transport, post.port, post.transparent) for post in posts(spec(text), 4, application)}


def test_posts_of_a_tproxy_spec() -> None:
    assert places("dns: {capture: all}\ninbound: {mode: tproxy}\n", (("tcp", 80),)) == {
        ("inbound-proxy", "tcp", 15006, True),
        ("outbound-proxy", "tcp", 15001, False),
        ("dns-proxy", "tcp", 15053, False),
        ("dns-proxy", "udp", 15053, False),
        ("direct", "tcp", 80, False),
    }


def test_a_range_of_redirect_ports() -> None:
    found = places('inbound: {mode: redirect, port: "15006-15008", tunnelPort: 15020}\noutbound: {mode: none}\n')
    assert {port for _, _, port, _ in found} == {15006, 15007, 15008}


def test_the_application_does_not_take_the_proxy_s_port() -> None:
    assert ("direct", "tcp", 15001, False) not in places("inbound: {mode: none}\n", (("tcp", 15001),))


def test_each_listener_is_told_by_its_segment_size() -> None:
    assert len(set(SEGMENT_SIZES.values())) == len(SEGMENT_SIZES) == len(BY_SIZE)


def test_a_port_in_use_is_named_and_nothing_stays_open() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(BusyError, match=f"port {port}/tcp is in use"):
            Listeners([Post("direct", 4, "udp", port), Post("direct", 4, "tcp", port)])
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
            free.bind(("127.0.0.1", port))
