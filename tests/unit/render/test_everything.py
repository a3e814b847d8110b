from __future__ import annotations

import pytest

from meshnet.model.cidr import read_cidr
from meshnet.model.program import Destination, Source
from meshnet.render.iptables import _match


@pytest.mark.parametrize("block", ["0.0.0.0/0", "::/0"])
def test_a_block_of_all_addresses_is_no_words(block: str) -> None:
    """The tools print none for it, and a text that differs from theirs would be applied again and again."""
    assert list(_match(Destination((read_cidr(block),)), "tcp")) == [""]
    assert list(_match(Source((read_cidr(block),), True), "tcp")) == [f"! -s {block}"]
