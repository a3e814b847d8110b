from __future__ import annotations

import pytest

from meshnet.model.ranges import name_number
from meshnet.parse.nft_values import Unclear, interface_name, numeral, spans_of

TEN = 10 << 24


@pytest.mark.parametrize(
    ("kind", "word", "span"),
    [
        ("ipv4_addr", "10.0.0.1", (TEN | 1, TEN | 1)),
        ("ipv4_addr", "10.1.2.3/8", (TEN, TEN | 0xFFFFFF)),
        ("ipv4_addr", "10.0.0.1-10.0.0.9", (TEN | 1, TEN | 9)),
        ("ipv6_addr", "fd00::/8", (0xFD << 120, (0xFE << 120) - 1)),
        ("inet_service", "80", (80, 80)),
        ("inet_service", "http", (80, 80)),
        ("inet_service", "1000-2000", (1000, 2000)),
        ("uid", '"root"', (0, 0)),
        ("gid", "4294967294", (0xFFFFFFFE, 0xFFFFFFFE)),
        ("ifname", '"eth0"', (name_number("eth0"), name_number("eth0"))),
    ],
)
def test_an_element_is_a_span(kind, word, span) -> None:
    assert spans_of(kind, word) == (span,)


@pytest.mark.parametrize(
    ("kind", "word"),
    [
        ("ipv4_addr", "fd00::1"),
        ("ipv6_addr", "10.0.0.1"),
        ("ipv4_addr", "10.0.0.0/33"),
        ("ipv4_addr", "somewhere"),
        ("inet_service", "65536"),
        ("inet_service", "80-"),
        ("uid", "somebody"),
        ("uid", "4294967295"),
        ("ifname", '"eth*"'),
    ],
)
def test_what_is_none(kind, word) -> None:
    with pytest.raises(Unclear):
        spans_of(kind, word)


@pytest.mark.parametrize("word", ['""', "eth+", "eth*", "@links", "a" * 16, "a\\b"])
def test_a_name_that_is_no_whole_one(word: str) -> None:
    with pytest.raises(Unclear):
        interface_name(word)


def test_numbers_with_zeros_in_front() -> None:
    assert numeral("0x00000539") == numeral("1337") == 1337
    with pytest.raises(Unclear):
        numeral("0x100", 255)
