"""The readers against ``ipaddress``, which they replace for the sake of the start-up time."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshnet.model.cidr import BITS, LOOPBACK, Cidr, address_text, collapse, network_of, read_address, read_cidr
from meshnet.model.errors import Wrong
from tests.strategies import cidrs

ADDRESSES = st.one_of(st.ip_addresses(v=4), st.ip_addresses(v=6))
NEARLY = st.one_of(
    st.text("0123456789.", max_size=16),
    st.text("0123456789abcdefABCDEF:.", max_size=40),
    st.lists(st.sampled_from(("0", "1", "ff", "::", ":", "1.2.3.4", "00001", "g", "%1", ".")), max_size=10).map(
        "".join
    ),
    st.builds(":".join, st.lists(st.text("0123456789abcdef", max_size=5), max_size=9)),
    st.builds(".".join, st.lists(st.integers(0, 300).map(str), max_size=5)),
)


def _stdlib(text: str) -> tuple[int, int] | None:
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return None
    if isinstance(found, ipaddress.IPv6Address) and found.scope_id is not None:
        return None
    return found.version, int(found)


@given(ADDRESSES)
def test_every_address_is_read(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    for text in (str(address), address.exploded, address.exploded.upper()):
        assert read_address(text) == (address.version, int(address))


@given(NEARLY)
def test_what_is_an_address_is_what_the_library_says(text: str) -> None:
    expected = _stdlib(text)
    if expected is None:
        with pytest.raises(Wrong):
            read_address(text)
    else:
        assert read_address(text) == expected


@given(st.integers(0, (1 << 128) - 1), st.integers(0, (1 << 128) - 1))
def test_the_text_of_an_address_is_canonical(number: int, mask: int) -> None:
    for bits in (number, number & mask, number & mask & 0xFFFF0000FFFF00000000FFFF00000000):
        text = address_text(6, bits)
        assert read_address(text) == (6, bits)
        if bits >> 32 != 0xFFFF:  # the library writes mapped addresses with dots from 3.13 on
            assert text == str(ipaddress.IPv6Address(bits))
    assert address_text(4, number & 0xFFFFFFFF) == str(ipaddress.IPv4Address(number & 0xFFFFFFFF))


@given(cidrs())
def test_a_block_comes_back_from_its_text(block: Cidr) -> None:
    network = ipaddress.ip_network(str(block))
    assert read_cidr(str(block)) == block
    assert (network.version, int(network.network_address), network.prefixlen) == (
        block.family, block.network, block.prefix,
    )  # fmt: skip
    assert int(network.broadcast_address) == block.last
    assert block.address == address_text(block.family, block.network)
    assert block.single == (network.num_addresses == 1)
    assert block.everything == (block.prefix == 0)


@given(cidrs(), cidrs())
def test_what_covers_what(one: Cidr, other: Cidr) -> None:
    first, second = ipaddress.ip_network(str(one)), ipaddress.ip_network(str(other))
    assert one.covers(other) == (first.version == second.version and second.subnet_of(first))  # type: ignore[arg-type]
    assert one.holds(other.family, other.network) == (second.network_address in first)


@given(st.lists(cidrs(), max_size=12))
def test_collapsed_blocks_are_those_of_the_library(blocks: list[Cidr]) -> None:
    expected: list[str] = []
    for version in (4, 6):
        networks = [ipaddress.ip_network(str(block)) for block in blocks if block.family == version]
        expected += [str(network) for network in ipaddress.collapse_addresses(networks)]  # type: ignore[type-var]
    assert [str(block) for block in collapse(blocks)] == [str(read_cidr(text)) for text in expected]


@pytest.mark.parametrize(
    "word",
    [
        *("", "10.0.0", "010.0.0.1", "10.0.0.1.", "256.0.0.1", "10.0.0.0/", "10.0.0.0/33", "10.0.0.0/08"),
        *("10.0.0.0/-1", "10.0.0.0/255.0.0.0", "10.0.0.5/24", "10.0.0.0 /8", " 10.0.0.1", "\u0660.0.0.1"),
        *("::/129", "::/", ":::", "1::2::3", "fe80::1%eth0", "2001:db8::1/64", " ::", "1:2:3:4:5:6:7"),
        *("1:2:3:4:5:6:7::8:9", "::1.2.3", "1.2.3.4::", 10, None, True),
    ],
)
def test_what_is_no_block(word: object) -> None:
    with pytest.raises(Wrong):
        read_cidr(word)


@pytest.mark.parametrize("word", [None, 1, 1.5, b"::"])
def test_an_address_is_text(word: object) -> None:
    with pytest.raises(Wrong, match="not an address"):
        read_address(word)


def test_host_bits_are_named_with_the_right_network() -> None:
    with pytest.raises(Wrong) as caught:
        read_cidr("10.0.0.5/24")
    assert (caught.value.what, caught.value.right) == (
        "host bits are set (10.0.0.5/24)", "the network, 10.0.0.0/24",
    )  # fmt: skip


def test_a_prefix_has_its_bounds() -> None:
    for family in (4, 6):
        for prefix in (-1, BITS[family] + 1):
            with pytest.raises(Wrong, match="a prefix of"):
                Cidr(family, 0, prefix)  # type: ignore[arg-type]


def test_the_block_around_an_address() -> None:
    assert str(network_of(4, 0x0A010203, 8)) == "10.0.0.0/8"
    assert str(network_of(6, 1, 0)) == "::/0"
    assert [str(block) for block in LOOPBACK.values()] == ["127.0.0.0/8", "::1/128"]
