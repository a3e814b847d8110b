from __future__ import annotations

from meshnet.model.program import InInterface, Jump
from tests.unit.compile.compiling import having, program
from tests.unit.compile.passes.compare import added, rule

GUEST = "interfaces: {guest: [tap0]}\n"


def test_a_guest_s_packets_are_outbound_and_then_done():
    assert set(added("", GUEST)) == {
        "mangle.in.guest.tap0-done",
        "nat.in.guard.mid-stream",
        "nat.guest.capture.all",
        "nat.in.guest.tap0",
        "nat.in.guest.tap0-done",
    }


def test_they_are_known_by_the_interface():
    found = rule(GUEST, "nat.in.guest.tap0")
    assert (found.matches, found.target) == ((InInterface("tap0"),), Jump("MESHNET_GUEST"))
    assert found.origin == "interfaces.guest[0]"


def test_raw_is_only_asked_about_queries():
    assert not having(program(GUEST), "raw.")
    assert "raw.in.guest.tap0" in having(program(GUEST + "dns: {capture: all}\n"), "raw.")
