from __future__ import annotations

from typing import Any

import pytest

from meshnet.cli.flow_options import CLIENT, POD, REMOTE, address_of, family_of, flow_of, number_of
from meshnet.model.cidr import read_address, read_cidr
from meshnet.model.errors import UsageError
from meshnet.model.host import LOOPBACK_LINK, Address, Host, Link, Route

PLAIN: dict[str, Any] = {
    "way": None,
    "src": None,
    "dst": None,
    "dport": 80,
    "sport": 40000,
    "proto": "tcp",
    "iface": "eth0",
    "uid": None,
    "gid": None,
    "groups": "",
    "mark": "0",
    "state": "NEW",
}
ETH0 = Link("eth0", (Address(4, 0x0A000005, 24), Address(6, 0xFD << 120 | 5, 64)))
HOST = Host((LOOPBACK_LINK, ETH0, Link("net1", (Address(4, 0x0B000005, 24),))))


def number(text: str) -> int:
    return read_address(text)[1]


def flow(**given: Any) -> Any:
    return flow_of(PLAIN | given, HOST)


@pytest.mark.parametrize(
    ("text", "found"),
    [("0", 0), ("1337", 1337), ("0x539", 1337), ("0X53a", 1338), ("4294967295", 0xFFFFFFFF)],
)
def test_numbers(text: str, found: int) -> None:
    assert number_of(text, "--mark") == found


@pytest.mark.parametrize(
    "text",
    [
        "",
        "007",
        "x",
        "-1",
        "+1",
        " 1",
        "1 ",
        "1_000",
        "0x",
        "0xg",
        "0x-1",
        "0x_1",
        "0x 1",
        "1.0",
        "1e3",
        "\N{FULLWIDTH DIGIT FOUR}",
        "²",
        "4294967296",
    ],
)
def test_no_numbers(text: str) -> None:
    with pytest.raises(UsageError, match="not a number for --mark"):
        number_of(text, "--mark")


def test_a_number_beyond_its_most() -> None:
    assert number_of("32", "--address", 32) == 32
    with pytest.raises(UsageError, match="--address"):
        number_of("33", "--address", 32)


def test_an_address_is_refused_with_its_flag() -> None:
    assert address_of("fd00::1", "--src")[0] == 6
    with pytest.raises(UsageError, match="--src: ") as refused:
        address_of("10.0.0.256", "--src")
    assert refused.value.hint


@pytest.mark.parametrize(
    ("src", "dst", "family"), [(None, None, 4), ("fd00::1", None, 6), (None, "fd00::1", 6), ("10.0.0.1", "10.0.0.2", 4)]
)
def test_the_family_is_that_of_the_addresses(src: str | None, dst: str | None, family: int) -> None:
    assert family_of({"src": src, "dst": dst}) == family


def test_one_family_at_a_time() -> None:
    with pytest.raises(UsageError, match="different families"):
        family_of({"src": "10.0.0.1", "dst": "fd00::1"})


def test_a_packet_comes_from_a_client_to_the_pod_s_address() -> None:
    found = flow()
    assert (found.way, found.source, found.destination) == ("in", number(CLIENT[4]), 0x0A000005)
    assert (found.interface, found.uid, found.gid) == ("eth0", None, None)
    assert flow(iface="net1").destination == 0x0B000005


def test_a_packet_goes_from_the_pod_s_address_to_a_remote_server() -> None:
    found = flow(way="out")
    assert (found.source, found.destination) == (0x0A000005, number(REMOTE[4]))
    assert (found.uid, found.gid) == (0, 0)


@pytest.mark.parametrize("way", ["in", "out"])
def test_the_other_end_is_of_the_family_that_was_named(way: str) -> None:
    named = {"src": "fd00::9"} if way == "in" else {"dst": "fd00::9"}
    found = flow(way=way, **named)
    assert found.family == 6
    assert (found.source if way == "out" else found.destination) == ETH0.first(6)


def test_what_is_named_stands() -> None:
    found = flow(way="out", src="10.0.0.77", dst="203.0.113.1", uid=7, gid=8, groups="1,,4294967294", mark="0x10")
    assert (found.source, found.destination) == (number("10.0.0.77"), number("203.0.113.1"))
    assert (found.uid, found.gid, found.groups, found.mark) == (7, 8, (1, 0xFFFFFFFE), 16)


def test_a_group_that_is_none() -> None:
    with pytest.raises(UsageError, match="--groups"):
        flow(way="out", groups="1,4294967295")


def test_an_interface_without_an_address_leaves_the_usual_one() -> None:
    assert flow(iface="eth9").destination == number(POD[4])
    assert flow(iface="net1", src="fd00::9").destination == number(POD[6])


def test_it_leaves_by_the_route_and_stays_on_lo_for_an_own_address() -> None:
    routed = Host((*HOST.links,), (Route(read_cidr("0.0.0.0/0"), "net1"),))
    assert flow_of(PLAIN | {"way": "out"}, routed).interface == "net1"
    assert flow_of(PLAIN | {"way": "out", "dst": "10.0.0.5"}, routed).interface == "lo"
    assert flow_of(PLAIN | {"way": "out", "dst": "127.0.0.1"}, routed).interface == "lo"
