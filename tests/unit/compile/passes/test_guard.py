from __future__ import annotations

from meshnet.model.program import CtState, Drop, InInterface, OutInterface
from tests.unit.compile.compiling import having, ids, program
from tests.unit.compile.passes.compare import added, rule

DNS = "dns: {capture: all}\n"
EXCLUDED = DNS + "interfaces: {exclude: [eth9, tun+]}\n"


def test_an_excluded_interface_is_first_in_every_table_both_ways():
    made = program(EXCLUDED)
    for entry in made.entries:
        way = "in" if entry.hook == "PREROUTING" else "out"
        assert ids(made, entry.table, entry.rule.target.chain)[0] == f"{way}.guard.interfaces"
    assert {entry.table for entry in made.entries} == {"raw", "mangle", "nat"}
    assert rule(EXCLUDED, "nat.out.guard.interfaces").matches == (OutInterface(("eth9", "tun+")),)
    assert rule(EXCLUDED, "mangle.in.guard.interfaces").matches == (InInterface(("eth9", "tun+")),)
    assert rule(EXCLUDED, "nat.out.guard.interfaces").origin == "interfaces.exclude"


def test_a_lone_excluded_interface_is_called_by_its_name():
    found = rule("interfaces: {exclude: [eth9]}\n", "nat.out.guard.eth9")
    assert (found.matches, found.origin) == ((OutInterface(("eth9",)),), "interfaces.exclude[0]")


def test_no_interface_excluded():
    assert not having(program(DNS), "guard.eth")


def test_invalid_segments_are_dropped_only_where_asked_for():
    assert added("", "dropInvalid: true\n") == ["mangle.in.guard.invalid"]
    found = rule("dropInvalid: true\n", "mangle.in.guard.invalid")
    assert (found.matches, found.target) == ((CtState(("INVALID",)),), Drop())


def test_mid_stream_segments_are_let_go_before_any_capture():
    names = ids(program(""), "nat", "MESHNET_OUT")
    assert names[0] == "out.guard.mid-stream"
