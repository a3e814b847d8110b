from __future__ import annotations

import pytest

from tests.unit.compile.istio.written import plan, rules

TPROXY = {"m": "TPROXY", "b": "*"}


def test_the_head_of_the_inbound_chain() -> None:
    for family, passed in ((4, "127.0.0.6/32"), (6, "::6/128")):
        assert rules(plan(**TPROXY), "mangle", "ISTIO_INBOUND", family)[:3] == [
            "-p tcp -m mark --mark 0x539 -j RETURN",
            f"-s {passed} -i lo -p tcp -j RETURN",
            "-i lo -p tcp -m mark ! --mark 0x53a -j RETURN",
        ]


def test_marks_in_built_in_chains() -> None:
    made = plan(**TPROXY, u="0,7", g="9", t="2000", c="eth8")
    whole = "--nfmask 0xffffffff --ctmask 0xffffffff"
    assert rules(made, "mangle", "PREROUTING") == [
        "-i eth8 -j RETURN",
        "-p tcp -j ISTIO_INBOUND",
        f"-p tcp -m mark --mark 0x7d0 -j CONNMARK --save-mark {whole}",
    ]
    for family, loopback in ((4, "127.0.0.1/32"), (6, "::1/128")):
        assert rules(made, "mangle", "OUTPUT", family) == [
            "-o eth8 -j RETURN",
            "-o lo -p tcp -m mark --mark 0x7d0 -j RETURN",
            *(
                f"! -d {loopback} -o lo -p tcp -m owner --{who} -j MARK --set-xmark 0x53a/0xffffffff"
                for who in ("uid-owner 0", "uid-owner 7", "gid-owner 9")
            ),
            f"-p tcp -m connmark --mark 0x7d0 -j CONNMARK --restore-mark {whole}",
        ]


def test_routes_of_each_family() -> None:
    made = plan(**TPROXY, t="2000", r="200")
    found = {(item.family, item.object): item.words for item in made.routing if "::6" not in item.words}
    for family in (4, 6):
        assert found[(family, "rule")].startswith("fwmark 0x7d0/0xffffffff lookup 200 ")
        assert found[(family, "route")].startswith("local default dev lo table 200 ")


def test_without_a_captured_port_marks_are_written_and_lead_nowhere() -> None:
    """As the original's rules and its routes are written by two programs that ask two questions."""
    made = plan(m="TPROXY")
    assert len(rules(made, "mangle", "ISTIO_INBOUND")) == 3
    assert len(rules(made, "mangle", "OUTPUT")) == 4
    assert rules(made, "mangle", "PREROUTING") == [
        "-p tcp -m mark --mark 0x539 -j CONNMARK --save-mark --nfmask 0xffffffff --ctmask 0xffffffff"
    ]
    assert not [item for item in made.routing if item.object == "rule" or "default" in item.words]


@pytest.mark.parametrize("mode", ["REDIRECT", "NONE"])
def test_the_other_modes_have_none_of_it(mode: str) -> None:
    made = plan(m=mode, b="*")
    assert {table.table for table in made.tables} == {"nat"}
    assert not [item for item in made.routing if item.object == "rule"]
