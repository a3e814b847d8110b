from __future__ import annotations

import pytest

from meshnet.model.errors import UnsupportedError
from meshnet.model.marks import Mark
from meshnet.model.ports import PortRange
from meshnet.model.program import (
    Accept,
    Chain,
    ConnmarkIs,
    CtDirection,
    CtState,
    DestinationPorts,
    Entry,
    InInterface,
    Jump,
    OutInterface,
    Owner,
    OwnerWithin,
    Program,
    Protocol,
    Redirect,
    RestoreMark,
    Rule,
    SaveMark,
    SetMark,
    SocketIs,
    Syn,
    Tproxy,
    Zone,
)
from meshnet.model.spec import IdRange
from meshnet.render.nft_support import check

MARK = Mark(1, 1)
PORTS = DestinationPorts((PortRange(1, 1),))


def program(table, hook, matches, target=None, rule_id="x.y"):
    """The rule behind two jumps from the hook."""
    rule = Rule(rule_id, tuple(matches), target or Accept(), "")
    chains = (Chain(table, "A", (Rule("x.a", (), Jump("B"), ""),)), Chain(table, "B", (rule,)))
    return Program("p", (4, 6), chains, (Entry(table, hook, Rule("x.e", (), Jump("A"), "")),))


REFUSED = [
    ("mangle", "PREROUTING", [Owner("uid", (1,))], None, "no packet has an owner in prerouting"),
    ("nat", "PREROUTING", [OwnerWithin((IdRange(1, 2),))], None, "no packet has an owner in prerouting"),
    ("nat", "PREROUTING", [OutInterface(("lo",))], None, "no packet has an output interface in prerouting"),
    ("nat", "OUTPUT", [InInterface(("lo",))], None, "no packet has an input interface in output"),
    ("mangle", "OUTPUT", [SocketIs()], None, "a socket is looked up in prerouting alone"),
    ("raw", "OUTPUT", [ConnmarkIs(MARK)], None, "conntrack hasn't seen the packet yet"),
    ("raw", "PREROUTING", [CtState(("NEW",))], None, "conntrack hasn't seen the packet yet"),
    ("raw", "OUTPUT", [CtDirection("REPLY")], None, "conntrack hasn't seen the packet yet"),
    ("nat", "OUTPUT", [CtState(("DNAT", "NEW"))], None, "in two matches"),
    ("nat", "OUTPUT", [PORTS], None, "need a protocol in front of them"),
    ("nat", "OUTPUT", [Syn()], None, "need a protocol in front of them"),
    ("mangle", "OUTPUT", [], Zone(1), "a conntrack zone counts at raw's priority alone"),
    ("mangle", "OUTPUT", [], Redirect(PortRange(1, 1)), "a redirection counts in nat alone"),
    ("mangle", "OUTPUT", [], Tproxy(1, MARK), "TPROXY works at mangle's place in prerouting alone"),
    ("nat", "PREROUTING", [], Tproxy(1, MARK), "TPROXY works at mangle's place in prerouting alone"),
    ("nat", "OUTPUT", [], SetMark(MARK), "in a chain of type route alone"),
    ("raw", "OUTPUT", [ConnmarkIs(MARK)], RestoreMark(1), "in a chain of type route alone"),
    ("raw", "OUTPUT", [], SaveMark(1), "conntrack hasn't seen the packet yet"),
    ("mangle", "OUTPUT", [], SaveMark(1), "can't merge the bits of two"),
]


@pytest.mark.parametrize(("table", "hook", "matches", "target", "why"), REFUSED)
def test_what_never_matches_is_refused(table, hook, matches, target, why):
    with pytest.raises(UnsupportedError) as caught:
        check(program(table, hook, matches, target))
    assert any(reason.startswith("rule x.y: ") and why in reason for reason in caught.value.reasons)


def test_all_reasons_at_once():
    with pytest.raises(UnsupportedError) as caught:
        check(program("raw", "PREROUTING", [Owner("uid", (1,)), CtState(("NEW",)), PORTS]))
    assert len(caught.value.reasons) == 3


@pytest.mark.parametrize(
    ("table", "hook", "matches", "target"),
    [
        ("nat", "OUTPUT", [Owner("uid", (1,)), OutInterface(("lo",))], Redirect(PortRange(1, 1))),
        ("mangle", "PREROUTING", [Protocol("tcp"), PORTS, SocketIs(), CtState(("DNAT",))], Tproxy(1, MARK)),
        ("mangle", "OUTPUT", [ConnmarkIs(MARK)], RestoreMark(1)),
        ("mangle", "PREROUTING", [InInterface(("eth0",))], SetMark(MARK)),
        ("raw", "OUTPUT", [Protocol("udp"), PORTS], Zone(2)),
    ],
)
def test_what_works_is_not(table, hook, matches, target):
    check(program(table, hook, matches, target))


def test_an_id_that_no_comment_holds():
    check(program("nat", "OUTPUT", [], rule_id="x." + "y" * 100))
    with pytest.raises(UnsupportedError, match="its id is longer"):
        check(program("nat", "OUTPUT", [], rule_id="x." + "y" * 110))


def test_a_chain_that_nobody_reaches_does_no_harm():
    check(Program("p", (4,), (Chain("mangle", "A", (Rule("x.a", (Owner("uid", (1,)),), Zone(1), ""),)),)))
