from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshnet.model.errors import Wrong
from meshnet.model.marks import FULL, Mark

BITS = st.integers(0, FULL)


@given(BITS, BITS, BITS)
def test_a_mark_that_was_put_matches_and_leaves_other_bits(number: int, mask: int, packet: int) -> None:
    mark = Mark(number & mask, mask)
    put = mark.put(packet)
    assert mark.matches(put)
    assert put & ~mask == packet & ~mask
    assert mark.put(put) == put
    assert mark.matches(packet) == (packet & mask == number & mask)


def test_without_a_mask_all_bits_count() -> None:
    assert Mark(1).matches(1) and not Mark(1).matches(3)
    assert str(Mark(0x539, 0xFFF)) == "0x539/0xfff"


@pytest.mark.parametrize(("number", "mask"), [(2, 1), (1 << 32, FULL), (0, 1 << 32), (-1, FULL), (0, -1)])
def test_a_wrong_mark_can_not_exist(number: int, mask: int) -> None:
    with pytest.raises(Wrong):
        Mark(number, mask)
