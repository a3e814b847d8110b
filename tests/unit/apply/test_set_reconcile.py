from __future__ import annotations

import pytest

from meshnet.apply.set_reconcile import reconcile_sets
from meshnet.model.plan import SetText
from meshnet.model.value import replace
from meshnet.render.ipset_text import BESIDE

ONE = SetText("MESHNET_A", "hash:net", 4, ((0x0A000000, 8), (0xC0A80000, 16)))
SIX = SetText("MESHNET_B", "hash:net", 6, ((0x20010DB8 << 96, 32),))
PORTS = SetText("MESHNET_C", "bitmap:port", 0, ((80, 80), (8000, 8100)))
HALF = SetText(BESIDE, "hash:net", 4, ())


def test_in_sync_there_is_nothing_to_do() -> None:
    assert reconcile_sets((), ()) == ([], (), [])
    assert reconcile_sets((ONE, PORTS), (PORTS, ONE)) == ([], (), [])


def test_what_is_missing_is_made_in_one_call_ahead_of_the_tables() -> None:
    fresh, stale, lines = reconcile_sets((ONE, SIX, PORTS), (ONE,))
    (step,) = fresh
    assert (step.tool, step.family, stale) == ("ipset", "inet", ())
    assert "create -exist MESHNET_B hash:net family inet6" in step.text
    assert "add MESHNET_B 2001:db8::/32\n" in step.text
    assert "add MESHNET_C 8000-8100\n" in step.text
    assert "MESHNET_A" not in step.text
    assert lines == ["+ ipset MESHNET_B hash:net, 1 members", "+ ipset MESHNET_C bitmap:port, 2 members"]


def test_what_nobody_wants_goes_behind_everything() -> None:
    fresh, stale, lines = reconcile_sets((SIX,), (ONE, SIX, PORTS))
    assert fresh == []
    assert [(step.tool, step.text) for step in stale] == [("ipset destroy", "destroy MESHNET_A\ndestroy MESHNET_C\n")]
    assert lines == ["- ipset MESHNET_A", "- ipset MESHNET_C"]


def test_a_set_that_lost_and_gained_members_is_exchanged_in_one_instant() -> None:
    fresh, stale, lines = reconcile_sets((ONE,), (replace(ONE, members=((0x0A000000, 8), (1, 32), (2, 32))),))
    assert stale == ()
    assert fresh[0].text.endswith(f"swap {BESIDE} MESHNET_A\ndestroy {BESIDE}\n")
    assert f"add {BESIDE} 10.0.0.0/8" in fresh[0].text
    assert lines == ["+ ipset MESHNET_A: 1 members missing", "- ipset MESHNET_A: 2 members too many"]


@pytest.mark.parametrize(
    ("wanted", "there", "words"),
    [
        (ONE, replace(ONE, type="hash:ip"), "hash:net of IPv4 in place of hash:ip of IPv4"),
        (ONE, replace(ONE, family=6), "hash:net of IPv4 in place of hash:net of IPv6"),
        (ONE, replace(PORTS, name="MESHNET_A"), "hash:net of IPv4 in place of bitmap:port"),
    ],
)
def test_a_set_of_another_kind_is_made_anew_since_the_kernel_swaps_like_with_like(
    wanted: SetText, there: SetText, words: str
) -> None:
    fresh, stale, lines = reconcile_sets((wanted,), (there,))
    assert fresh[0].text.startswith("destroy MESHNET_A\ncreate -exist MESHNET_A hash:net family inet ")
    assert "swap" not in fresh[0].text
    assert (stale, lines) == ((), [f"+ ipset MESHNET_A {words}"])


def test_what_a_killed_exchange_left_goes_first_where_another_one_follows() -> None:
    changed = replace(ONE, members=((1, 32),))
    fresh, stale, lines = reconcile_sets((ONE,), (changed, HALF))
    assert fresh[0].text.startswith(f"destroy {BESIDE}\ncreate -exist {BESIDE} ")
    assert stale == ()
    assert lines[0] == f"- ipset {BESIDE}"


def test_what_a_killed_exchange_left_goes_behind_everything_else() -> None:
    fresh, stale, lines = reconcile_sets((ONE,), (HALF,))
    assert fresh[0].text.startswith("create -exist MESHNET_A ")
    assert [(step.tool, step.text) for step in stale] == [("ipset destroy", f"destroy {BESIDE}\n")]
    assert lines == ["+ ipset MESHNET_A hash:net, 2 members", f"- ipset {BESIDE}"]
    assert reconcile_sets((), (HALF,))[:2] == ([], stale)
