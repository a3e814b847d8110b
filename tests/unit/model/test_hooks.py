from __future__ import annotations

import pytest

from meshnet.model.hooks import BUILT_IN, Base, built_in

RAW_OUT = Base("filter", "OUTPUT", -300)


@pytest.mark.parametrize(
    ("base", "stage"),
    [
        (RAW_OUT, "untracked"),
        (Base("filter", "OUTPUT", -200), "tracked"),
        (Base("filter", "INPUT", -300), "tracked"),
        (Base("route", "OUTPUT", -150), "tracked"),
        (Base("nat", "OUTPUT", -300), "nat"),
        (Base("filter", "OUTPUT", -99), "translated"),
        (Base("filter", "INPUT", 0), "tracked"),
        (Base("filter", "INPUT", 101), "translated"),
        (Base("filter", "FORWARD", 1000), "tracked"),
    ],
)
def test_how_far_conntrack_and_translation_are(base: Base, stage: str) -> None:
    assert base.stage == stage


@pytest.mark.parametrize(
    ("base", "tied"),
    [
        (Base("filter", "PREROUTING", -100), "translation"),
        (Base("nat", "PREROUTING", -100), ""),
        (Base("filter", "POSTROUTING", 100), "translation"),
        (Base("filter", "PREROUTING", -200), "conntrack"),
        (Base("filter", "INPUT", -200), ""),
        (Base("filter", "FORWARD", -100), ""),
    ],
)
def test_what_may_come_first_as_well(base: Base, tied: str) -> None:
    assert base.tied == tied


def test_only_mangle_s_output_routes_anew_and_a_chain_of_one_s_own_is_never_entered() -> None:
    places = {(table, hook): built_in(table, hook) for table, hooks in BUILT_IN.items() for hook in hooks}
    assert [place for place, base in places.items() if base and base.kind == "route"] == [("mangle", "OUTPUT")]
    assert built_in("raw", "OUTPUT") == RAW_OUT
    assert built_in("nat", "INPUT") == Base("nat", "INPUT", 100)
    assert built_in("nat", "FORWARD") is built_in("nat", "OUT") is built_in("inet mine", "OUTPUT") is None


def test_in_iptables_order_raw_mangle_nat_filter() -> None:
    made = [built_in(table, "OUTPUT") for table in ("raw", "mangle", "nat", "filter", "security")]
    assert [base.stage for base in made if base] == ["untracked", "tracked", "nat", "translated", "translated"]
