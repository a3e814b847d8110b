from __future__ import annotations

import pytest

from meshnet.model.cidr import read_cidr
from meshnet.model.ports import PortRange
from meshnet.model.program import Destination, Protocol, Redirect
from tests.unit.compile.compiling import having, ids, program
from tests.unit.compile.passes.compare import rule


def last(outbound: str, family: int = 4) -> list[str]:
    names = ids(program(f"outbound: {{{outbound}}}\n"), "nat", "MESHNET_OUT", family)
    return [name for name in names if name.startswith(("out.loopback", "out.capture"))]


@pytest.mark.parametrize(
    ("outbound", "names"),
    [
        ("cidrs: '*'", ["out.loopback.direct", "out.capture.all"]),
        ("cidrs: [10.0.0.0/8]", ["out.loopback.direct", "out.capture.cidrs"]),
        ("cidrs: [], ports: [80]", ["out.loopback.direct", "out.capture.ports"]),
        ("cidrs: []", []),
        ("mode: none", []),
        ("cidrs: [127.1.0.0/16]", ["out.loopback.application", "out.loopback.capture", "out.loopback.direct"]),
    ],
)
def test_what_is_captured(outbound, names):
    assert last(outbound) == names


def test_a_loopback_block_of_one_family_is_nothing_to_the_other():
    assert last("cidrs: [127.1.0.0/16]", family=6) == ["out.loopback.direct"]


def test_blocks_lead_to_the_listener():
    found = rule("outbound: {cidrs: [10.0.0.0/8], port: 4000}\n", "nat.out.capture.cidrs")
    assert found.matches == (Destination((read_cidr("10.0.0.0/8"),)), Protocol("tcp"))
    assert found.target == Redirect(PortRange(4000, 4000))


def test_guests_have_no_loopback():
    made = program("outbound: {cidrs: [127.1.0.0/16, 10.0.0.0/8], ports: [80]}\ninterfaces: {guest: [tap0]}\n")
    assert having(made, "nat.guest") == ["nat.guest.capture.ports", "nat.guest.capture.cidrs"]
