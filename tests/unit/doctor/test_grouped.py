from __future__ import annotations

from meshnet.doctor.finding import Where
from meshnet.doctor.grouped import Group, grouped
from meshnet.model.rule import Drop
from meshnet.model.ruleset import HeldRule
from meshnet.model.story import Conduct
from meshnet.model.value import replace
from tests.unit.simulate.pods import inward

HERE = Where(4, "nat", "A", 1, HeldRule((), Drop()))
ONE = Group(inward(port=80), Conduct(), "route_localnet=0", HERE, "it meets itself", ())


def test_calls_that_end_alike_are_one_told_by_the_first():
    (found,) = grouped([ONE, replace(ONE, flow=inward(port=81)), None, replace(ONE, flow=inward(port=82))], 1)
    assert (found.flow, found.others, found.only) == (ONE.flow, 2, "")


def test_another_place_or_identity_is_another_finding():
    others = [
        replace(ONE, where=None),
        replace(ONE, where=replace(HERE, number=2)),
        replace(ONE, where=replace(HERE, table="mangle")),
        replace(ONE, sidecar=Conduct(7)),
        replace(ONE, sidecar=Conduct(gid=7)),
    ]
    assert len(grouped([ONE, *others], 1)) == 6


def test_a_setting_is_told_where_it_decides():
    assert grouped([ONE], 2)[0].only == "route_localnet=0"
    assert grouped([ONE, replace(ONE, setting="route_localnet=1")], 2)[0].only == ""
    assert grouped([ONE], 1)[0].only == ""


def test_the_same_call_under_two_settings_is_one_call():
    assert grouped([ONE, replace(ONE, setting="route_localnet=1")], 2)[0].others == 0


def test_what_is_said_beside():
    assert ONE.more() == (f"the call: {ONE.flow}",)
    assert replace(ONE, others=1).more()[1] == "1 other kind of call ends the same way"
    assert replace(ONE, others=2, only="x").more()[1:] == ("2 other kinds of calls end the same way", "only with x")


def test_nothing_went_wrong():
    assert grouped([None, None], 2) == []
