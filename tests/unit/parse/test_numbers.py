from __future__ import annotations

import pytest

from meshnet.parse.numbers import NotKnown, address, block, masked, number, ports, span

FULL = 0xFFFFFFFF


@pytest.mark.parametrize(("text", "found"), [("0", 0), ("7", 7), ("0x0", 0), ("0XfF", 255), ("4294967295", FULL)])
def test_numbers(text, found):
    assert number(text) == found


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "010",
        "00",
        "-1",
        "-0",
        "+1",
        " 1",
        "1 ",
        "1_0",
        "0x",
        "0x_1",
        "0xg",
        "\N{FULLWIDTH DIGIT ONE}",
        "4294967296",
    ],
)
def test_what_is_no_number_or_would_be_another_one_elsewhere(text):
    with pytest.raises(NotKnown):
        number(text)


def test_the_most_is_one_itself():
    assert number("32", 32) == 32
    with pytest.raises(NotKnown):
        number("33", 32)


def test_marks_with_and_without_a_mask():
    assert (masked("0x10/0xff"), masked("16"), masked("1/0")) == ((16, 255), (16, FULL), (1, 0))
    for text in ("/1", "1/", "1/2/3", "1/-1"):
        with pytest.raises(NotKnown):
            masked(text)


@pytest.mark.parametrize(
    ("text", "found"),
    [("80", (80, 80)), ("80:90", (80, 90)), (":90", (0, 90)), ("80:", (80, 65535)), (":", (0, 65535))],
)
def test_spans(text, found):
    assert span(text, ":", 65535) == found == ports(text)


def test_services_by_name():
    assert (ports("http"), ports("domain")) == ((80, 80), (53, 53))
    for text in ("gopher", "70000", "80:70000", "80-90", ""):
        with pytest.raises(NotKnown):
            ports(text)


@pytest.mark.parametrize(("text", "family"), [("10.0.0.1", 6), ("fd00::1", 4), ("10.0.0", 4), ("name", 4), ("", 6)])
def test_what_is_no_address_of_a_family(text, family):
    with pytest.raises(NotKnown):
        address(text, family)


@pytest.mark.parametrize(
    ("text", "family", "found"),
    [
        ("10.1.2.3", 4, (0x0A010203, FULL)),
        ("10.1.2.3/8", 4, (0x0A000000, 0xFF000000)),
        ("10.1.2.3/0", 4, (0, 0)),
        ("10.1.2.3/255.0.255.0", 4, (0x0A000200, 0xFF00FF00)),
        ("fd00::1/8", 6, (0xFD << 120, 0xFF << 120)),
        ("fd00::1/ffff::", 6, (0xFD00 << 112, 0xFFFF << 112)),
    ],
)
def test_blocks_lose_their_host_bits(text, family, found):
    assert block(text, family) == found


@pytest.mark.parametrize("text", ["10.0.0.0/33", "10.0.0.0/", "10.0.0.0/-1", "10.0.0.0/::", "/8", "10.0.0.0/8/8"])
def test_what_is_no_block(text):
    with pytest.raises(NotKnown):
        block(text, 4)
