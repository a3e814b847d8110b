from __future__ import annotations

import pytest

from meshnet.compile import phrases
from meshnet.model.cidr import read_cidr
from meshnet.model.marks import Mark
from meshnet.model.program import MarkIs, Owner
from tests.unit.spec.writing import spec_of


def test_the_mark_comes_first_and_bears_the_mask():
    found = phrases.identities(spec_of("sidecar: {uids: [5], gids: [6, 7], mark: 0x77}\n"))
    assert found == (
        ("mark", "sidecar.mark", MarkIs(Mark(0x77, 0xFFF))),
        ("uid-5", "sidecar.uids[0]", Owner("uid", (5,))),
        ("gid-6", "sidecar.gids[0]", Owner("gid", (6,))),
        ("gid-7", "sidecar.gids[1]", Owner("gid", (7,))),
    )


def test_off_loopback_is_everything_but_the_family_s_loopback():
    assert phrases.off_loopback(4).negated
    assert phrases.off_loopback(4).cidrs == (read_cidr("127.0.0.0/8"),)
    assert phrases.off_loopback(6).cidrs == (read_cidr("::1"),)


@pytest.mark.parametrize(
    ("outbound", "found"),
    [
        ("cidrs: '*'", []),
        ("cidrs: [127.1.0.0/16, 10.0.0.0/8]", ["127.1.0.0/16"]),
        ("cidrs: [0.0.0.0/0]", []),  # more than loopback: a user who lists it doesn't speak of loopback
        ("cidrs: [127.1.0.0/16], mode: none", []),
    ],
)
def test_loopback_inclusions(outbound, found):
    spec = spec_of(f"outbound: {{{outbound}}}\n")
    assert [str(block) for block in phrases.loopback_inclusions(spec)] == found


@pytest.mark.parametrize(
    ("body", "on"),
    [
        ("dns: {capture: off}", False),
        ("dns: {capture: all}", True),
        ("dns: {capture: all}\noutbound: {excludePorts: [50-60]}", False),
        ("dns: {capture: all}\noutbound: {excludePorts: [54]}", True),
    ],
)
def test_an_excluded_port_53_undoes_dns_capture(body, on):
    assert phrases.dns_captured(spec_of(f"{body}\n")) is on


def test_the_source_is_kept_only_where_inbound_is_captured():
    assert phrases.keeps_source(spec_of("inbound: {originalSource: true}\n"))
    assert not phrases.keeps_source(spec_of("inbound: {originalSource: false}\n"))
    assert not phrases.keeps_source(spec_of("inbound: {mode: none}\n"))
