from __future__ import annotations

import pytest

from meshnet.model.marks import Mark
from meshnet.model.program import CtDirection, MarkIs, Protocol, SaveMark
from tests.unit.compile.compiling import having, program
from tests.unit.compile.passes.compare import added, rule


@pytest.mark.parametrize("mode", ["redirect", "tproxy"])
def test_rules_in_both_modes(mode):
    inbound = f"inbound: {{mode: {mode}, originalSource: %s}}\n"
    assert added(inbound % "false", inbound % "true") == [
        "mangle.out.original-source.save",
        "mangle.out.original-source.done",
        "mangle.out.original-source.restore",
        "nat.out.original-source.done",
    ]


def test_only_replies_get_the_mark_back():
    found = rule("", "mangle.out.original-source.restore")
    assert CtDirection("REPLY") in found.matches


def test_the_user_s_mark_is_saved_under_its_mask():
    body = "marks: {inbound: 0x10, outbound: 0x20, mask: 0xff}\n"
    found = rule(body, "mangle.out.original-source.save")
    assert found.matches == (Protocol("tcp"), MarkIs(Mark(0x10, 0xFF)))
    assert found.target == SaveMark(0xFF)


def test_without_inbound_no_source_is_kept():
    assert not having(program("inbound: {mode: none}\n"), "original-source")
