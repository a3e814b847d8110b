from __future__ import annotations

import pytest

from meshnet.doctor.finding import Where, where
from meshnet.parse.ruleset import read

TEXT = "*nat\n:A - [0:0]\n-A A -p tcp -m comment --comment x -j RETURN\n-A A -d {} -j DROP\nCOMMIT\n"


@pytest.mark.parametrize(("family", "block"), [(4, "10.0.0.0/8"), (6, "fd00::/8")])
def test_a_rule_by_its_place(family, block):
    held = read(TEXT.format(block), family)
    first, second = where(held, "nat", "A", 1), where(held, "nat", "A", 2)
    assert (str(first), first.words) == ("rule 1 of nat A", "-p tcp -j RETURN")
    assert (second.family, second.words) == (family, f"-d {block} -j DROP")


@pytest.mark.parametrize(("table", "chain"), [("raw", "A"), ("nat", "B")])
def test_a_place_that_is_not_there_is_a_mistake_of_ours(table, chain):
    with pytest.raises(AssertionError):
        where(read(TEXT.format("10.0.0.0/8"), 4), table, chain, 1)


def test_the_same_place_is_the_same():
    held = read(TEXT.format("10.0.0.0/8"), 4)
    assert where(held, "nat", "A", 2) == where(held, "nat", "A", 2)
    assert isinstance(where(held, "nat", "A", 2), Where)
