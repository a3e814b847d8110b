from __future__ import annotations

import pytest

from meshnet.apply.reconcile import fresh_steps, reconcile
from meshnet.model.errors import ToolError
from meshnet.model.nft import NftChain, NftSet, NftTable
from meshnet.model.plan import Observed, Plan, RouteText, SetText

HEAD = "type nat hook output priority -100; policy accept;"
SET = NftSet("ports", "inet_service", ((80, 80), (90, 95)))
CHAIN = NftChain("nat_output", HEAD, ("tcp dport @ports accept", "drop"))
TABLE = NftTable("meshnet", (SET,), (CHAIN,))
ADDED = RouteText(4, "route", "local default dev lo table 133 proto 109")
GOING = RouteText(6, "route", "local default dev lo table 200 proto 109")


def changes(wanted, own=(), taken=(), *, anew=False, routing=((), ())):
    plan = Plan((), routing[0], tuple(wanted))
    seen = Observed(own=Plan((), routing[1], tuple(own)), taken=frozenset(taken))
    return reconcile(plan, seen, disposable=False, anew=anew)


def test_the_same_is_in_sync():
    assert changes([TABLE], [TABLE]).empty
    assert changes([TABLE], [TABLE], anew=True).steps != ()


def test_one_step_between_what_comes_and_what_goes():
    found = changes([TABLE], routing=((ADDED,), (GOING,)))
    assert [(step.tool, step.family) for step in found.steps] == [("ip", 4), ("nft", "inet"), ("ip", 6)]
    with pytest.raises(ValueError, match="both families"):
        _ = found.steps[1].one_family
    assert fresh_steps(Plan(nft=(TABLE,)))[0].text == found.steps[1].text


@pytest.mark.parametrize(
    ("there", "lines"),
    [
        (
            NftTable("meshnet", (SET,), (NftChain("nat_output", HEAD, ("drop",)),)),
            ("+ nft inet meshnet rule nat_output tcp dport @ports accept",),
        ),
        (
            NftTable("meshnet", (SET,), (NftChain("nat_output", HEAD, (*CHAIN.rules, "accept")),)),
            ("- nft inet meshnet rule nat_output accept",),
        ),
        (NftTable("meshnet", (SET,), (CHAIN, NftChain("old", "", ()))), ("- nft inet meshnet chain old",)),
        (
            NftTable("meshnet", (SET,), (NftChain("nat_output", HEAD.replace("accept", "drop"), CHAIN.rules),)),
            (
                f"- nft inet meshnet chain nat_output {HEAD.replace('accept', 'drop')}",
                f"+ nft inet meshnet chain nat_output {HEAD}",
            ),
        ),
        (
            NftTable("meshnet", (NftSet("ports", "inet_service", ((80, 80),)),), (CHAIN,)),
            ("+ nft inet meshnet set ports { 90-95 }",),
        ),
        (
            NftTable("meshnet", (SET, NftSet("more", "uid", ((1, 1),))), (CHAIN,)),
            ("- nft inet meshnet set more { 1 }",),
        ),
        (NftTable("meshnet", (SET,), (CHAIN,), ("flags 0x1",)), ("- nft inet meshnet flags 0x1",)),
    ],
)
def test_differences(there, lines):
    found = changes([TABLE], [there])
    assert found.differences == lines
    anew = "add table inet meshnet\ndelete table inet meshnet\n"
    assert found.steps[0].text.startswith(anew if there.more else "flush table inet meshnet\n")
    assert len(found.steps) == 1 and found.steps[0].text.count("table inet meshnet {") == 1


def test_base_chains_stay_with_other_rules():
    """A hook that is taken away and put back leaves an instant between the two."""
    other = NftTable("meshnet", (SET,), (NftChain("nat_output", HEAD, ("drop",)), NftChain("nat_old", "", ("drop",))))
    text = changes([TABLE], [other]).steps[0].text
    assert text.splitlines()[:3] == [
        "flush table inet meshnet",
        "delete chain inet meshnet nat_old",
        "delete set inet meshnet ports",
    ]
    assert "delete chain inet meshnet nat_output" not in text


def test_mangle_takes_over_from_nat_in_two_steps():
    """In between both stand: a packet on its way from mangle's hook to nat's meets one of them."""
    pre = "type {} hook prerouting priority {}; policy accept;"
    old = NftTable(
        "meshnet", (SET,), (NftChain("nat_prerouting", pre.format("nat", -100), ("dport @ports redirect",)),)
    )
    other = NftSet("ports", "inet_service", ((1, 1), (3, 3)))
    new = NftTable(
        "meshnet", (other,), (NftChain("mangle_prerouting", pre.format("filter", -150), ("dport @ports tproxy",)),)
    )
    first, last = (step.text for step in changes([new], [old]).steps)
    assert "dport @ports_before redirect" in first and "dport @ports tproxy" in first
    assert "delete chain" not in first
    assert "redirect" not in last and "delete chain inet meshnet nat_prerouting" in last
    assert "delete set inet meshnet ports_before" in last
    assert len(changes([old], [new]).steps) == 1, "the other way round one is enough"


def test_another_name_goes_in_the_same_transaction():
    found = changes([TABLE], [NftTable("old", (), (CHAIN,))])
    assert len(found.steps) == 1
    assert "delete table inet old\nadd table inet meshnet" in found.steps[0].text
    assert "- nft inet old table" in found.differences and "+ nft inet meshnet table" in found.differences


def test_removal():
    found = changes([], [TABLE])
    assert found.steps[0].text == "add table inet meshnet\ndelete table inet meshnet\n"


def test_somebody_else_s_table():
    with pytest.raises(ToolError, match="isn't meshnet's"):
        changes([TABLE], taken=["meshnet"])
    assert changes([], taken=["meshnet"]).empty


def test_what_we_have_no_words_for_is_written_as_nft_said_it():
    strange = NftTable("meshnet", (), (), ("flags 0x1",), "table inet meshnet {\n\tflags dormant\n}\n")
    assert strange.text.strip() in changes([strange], [TABLE]).steps[0].text


NET = SetText("MESHNET_4_1", "hash:net", 4, ((1, 32), (2, 32)))


def sets(wanted, there):
    plan, seen = Plan(sets=tuple(wanted)), Observed(own=Plan(sets=tuple(there)))
    return reconcile(plan, seen, disposable=False)


def test_sets_come_first_and_go_last():
    old = SetText("MESHNET_4_2", "hash:net", 4, ())
    plan, seen = Plan((), (ADDED,), (), (NET,)), Observed(own=Plan((), (GOING,), (), (old,)))
    found = reconcile(plan, seen, disposable=False)
    assert [step.tool for step in found.steps] == ["ip", "ipset", "ip", "ipset destroy"]
    assert found.steps[-1].text == "destroy MESHNET_4_2\n"
    assert "+ ipset MESHNET_4_1 hash:net, 2 members" in found.differences
    assert "- ipset MESHNET_4_2" in found.differences


def test_a_changed_set_is_exchanged():
    found = sets([NET], [SetText("MESHNET_4_1", "hash:net", 4, ((1, 32), (7, 32), (8, 32)))])
    assert "swap MESHNET_BESIDE MESHNET_4_1" in found.steps[0].text
    assert found.differences == (
        "+ ipset MESHNET_4_1: 1 members missing",
        "- ipset MESHNET_4_1: 2 members too many",
    )
    assert sets([NET], [NET]).empty


def test_what_a_killed_exchange_left():
    found = sets([NET], [NET, SetText("MESHNET_BESIDE", "hash:net", 4, ())])
    assert [step.text for step in found.steps] == ["destroy MESHNET_BESIDE\n"]
