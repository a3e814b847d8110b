from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from meshnet.model.cidr import read_cidr
from meshnet.model.ranges import merged, name_number, range_text

PAIRS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 8)).map(lambda pair: (pair[0], pair[0] + pair[1])))


@given(PAIRS)
def test_merging_keeps_the_numbers(pairs):
    found = merged(pairs)
    assert {n for first, last in found for n in range(first, last + 1)} == {
        n for first, last in pairs for n in range(first, last + 1)
    }
    assert all(one[1] + 1 < other[0] for one, other in pairwise(found))


@given(st.integers(0, 2**32 - 1), st.integers(0, 32))
def test_a_block_reads_as_itself(address, length):
    first = address >> (32 - length) << (32 - length)
    block = read_cidr(range_text("ipv4_addr", first, first | ((1 << (32 - length)) - 1)))
    assert (block.network, block.prefix) == (first, length)


def test_what_is_no_block_has_both_ends():
    assert range_text("ipv4_addr", 1, 2) == "0.0.0.1-0.0.0.2"
    assert range_text("ipv6_addr", 1, 4) == "::1-::4"
    assert range_text("inet_service", 80, 81) == "80-81"
    assert range_text("uid", 7, 7) == "7"


def test_names_of_interfaces_are_numbers_that_never_touch():
    """Two of full length that differ in the last letter alone are the nearest that there are."""
    names = ["a" * 14 + "b", "a" * 14 + "c", "e"]
    found = merged((number, number) for number in map(name_number, names))
    assert [range_text("ifname", *pair) for pair in found] == [f'"{name}"' for name in names]
