from __future__ import annotations

from meshnet.model.cidr import read_cidr
from meshnet.model.program import Destination, InInterface, Jump
from tests.unit.compile.compiling import having, ids, program
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
    assert (found.matches, found.target) == ((InInterface(("tap0",)),), Jump("MESHNET_GUEST"))
    assert found.origin == "interfaces.guest[0]"


def test_several_guests_are_one_match():
    made = program("interfaces: {guest: [tap0, vnet+]}\n")
    steps = ["in.guest.interfaces", "in.guest.interfaces-done"]
    assert [name for name in ids(made, "nat", "MESHNET_PRE") if "guest" in name] == steps
    found = [rule for rule in made.rules() if "in.guest" in rule.id]
    assert {rule.matches for rule in found} == {(InInterface(("tap0", "vnet+")),)}
    assert {rule.origin for rule in found} == {"interfaces.guest"}


def test_raw_is_only_asked_about_queries():
    assert not having(program(GUEST), "raw.")
    assert "raw.in.guest.tap0" in having(program(GUEST + "dns: {capture: all}\n"), "raw.")


NETWORK = "interfaces: {networks: [{interface: br0, cidrs: [172.17.0.0/16]}]}\n"


def test_what_goes_beyond_a_network_is_outbound_and_then_done():
    assert set(added("", NETWORK)) == {
        "mangle.in.network.br0-done",
        "nat.in.guard.mid-stream",
        "nat.guest.capture.all",
        "nat.in.network.br0",
        "nat.in.network.br0-done",
    }
    found = rule(NETWORK, "nat.in.network.br0")
    assert found.matches == (Destination((read_cidr("172.17.0.0/16"),), negated=True), InInterface(("br0",)))
    assert (found.family, found.origin) == (4, "interfaces.networks[0]")


def test_a_query_inside_the_network_is_asked_for_ahead_of_it():
    made = program(NETWORK + "dns: {capture: all}\n")
    steps = ["in.network.br0-dns", "in.network.br0", "in.network.br0-done"]
    assert [name for name in ids(made, "nat", "MESHNET_PRE") if "network" in name] == steps
    assert [name for name in ids(made, "raw", "MESHNET_PRE") if "network" in name] == steps
    assert [name for name in ids(made, "mangle", "MESHNET_PRE") if "network" in name] == steps[2:]
    assert not [name for name in ids(made, "nat", "MESHNET_PRE", family=6) if "network" in name]
