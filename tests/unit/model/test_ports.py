from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshnet.model.errors import Wrong
from meshnet.model.ports import PortRange, number, read_port, read_ports
from tests.strategies import port_ranges


@given(st.integers(1, 65535))
def test_a_port_is_a_number_or_its_decimal_text(port: int) -> None:
    assert read_port(port) == read_port(str(port)) == port
    assert read_ports(port) == read_ports(str(port)) == PortRange(port, port)


@given(port_ranges())
def test_a_range_comes_back_from_its_text(ports: PortRange) -> None:
    assert read_ports(str(ports)) == ports
    assert ports.single == (ports.first == ports.last)
    assert ports.covers(ports.first) and ports.covers(ports.last)
    assert not ports.covers(ports.first - 1) and not ports.covers(ports.last + 1)


@pytest.mark.parametrize(
    "word",
    [
        *("http", "0", "65536", "1000:", ":1000", "", " 80", "80 ", "+80", "-80", "080", "0x50", "1e3", "8_0", "80.0"),
        *(0, 65536, -1, True, False, None, 80.0, [80], "9" * 5000, "\u0668\u0660", "\u00b2"),
    ],
)
def test_what_is_no_port(word: object) -> None:
    with pytest.raises(Wrong):
        read_port(word)
    with pytest.raises(Wrong):
        read_ports(word)


@pytest.mark.parametrize("word", ["80-70", "0-5", "1-65536", "1-", "-", "1-2-3", "1 - 2", "01-2", "a-b", "1:2", "1,2"])
def test_what_is_no_range(word: str) -> None:
    with pytest.raises(Wrong):
        read_ports(word)


def test_a_range_turned_round_says_the_right_one() -> None:
    with pytest.raises(Wrong) as caught:
        read_ports("80-70")
    assert caught.value.right == "the lower end first, 70-80"


@pytest.mark.parametrize(("first", "last"), [(0, 1), (2, 1), (1, 65536), (-1, 5)])
def test_a_wrong_range_can_not_exist(first: int, last: int) -> None:
    with pytest.raises(Wrong):
        PortRange(first, last)


@given(st.text(max_size=8))
def test_a_number_is_plain_decimal_or_none(text: str) -> None:
    found = number(text)
    assert found is None or str(found) == text
