from __future__ import annotations

import pytest

from tests.unit.compile.istio.written import chains, plan, rules


def test_all_ports_but_those_that_are_excluded() -> None:
    made = plan(b="*", d="15090,9000:9100")
    for family in (4, 6):
        assert rules(made, "nat", "PREROUTING", family) == ["-p tcp -j ISTIO_INBOUND"]
        assert rules(made, "nat", "ISTIO_INBOUND", family) == [
            "-p tcp -m tcp --dport 15008 -j RETURN",
            "-p tcp -m tcp --dport 15090 -j RETURN",
            "-p tcp -m tcp --dport 9000:9100 -j RETURN",
            "-p tcp -j ISTIO_IN_REDIRECT",
        ]


def test_beside_a_list_of_ports_exclusion_counts_for_nothing() -> None:
    assert rules(plan(b="80,81", d="81"), "nat", "ISTIO_INBOUND")[1:] == [
        "-p tcp -m tcp --dport 80 -j ISTIO_IN_REDIRECT",
        "-p tcp -m tcp --dport 81 -j ISTIO_IN_REDIRECT",
    ]


@pytest.mark.parametrize("options", [{}, {"b": ""}, {"b": "*", "m": "NONE"}], ids=str)
def test_the_listeners_chains_are_there_though_nothing_leads_to_them(options: dict[str, str]) -> None:
    made = plan(p="1", z="2", e="3", **options)
    assert rules(made, "nat", "PREROUTING") == []
    assert rules(made, "nat", "ISTIO_INBOUND") == ["-p tcp -m tcp --dport 3 -j RETURN"]
    assert rules(made, "nat", "ISTIO_REDIRECT") == ["-p tcp -j REDIRECT --to-ports 1"]
    assert rules(made, "nat", "ISTIO_IN_REDIRECT") == ["-p tcp -j REDIRECT --to-ports 2"]


def test_tproxy_has_inbound_traffic_in_mangle() -> None:
    made = plan(b="*", d="22", m="TPROXY", t="2000", istio_outbound_ipv4_loopback_cidr="127.0.0.0/8")
    assert rules(made, "nat", "PREROUTING") == []
    assert rules(made, "nat", "ISTIO_INBOUND") == ["-p tcp -m tcp --dport 15008 -j RETURN"]
    assert rules(made, "mangle", "PREROUTING")[0] == "-p tcp -j ISTIO_INBOUND"
    assert rules(made, "mangle", "ISTIO_INBOUND")[3:] == [
        "-p tcp -m tcp --dport 22 -j RETURN",
        "-p tcp -m conntrack --ctstate RELATED,ESTABLISHED -j ISTIO_DIVERT",
        "-p tcp -j ISTIO_TPROXY",
    ]
    assert rules(made, "mangle", "ISTIO_DIVERT") == ["-j MARK --set-xmark 0x7d0/0xffffffff", "-j ACCEPT"]
    for family, loopback, nowhere in ((4, "127.0.0.0/8", "0.0.0.0"), (6, "::1/128", "::")):
        assert rules(made, "mangle", "ISTIO_TPROXY", family) == [
            f"! -d {loopback} -p tcp -j TPROXY --on-port 15006 --on-ip {nowhere} --tproxy-mark 0x7d0/0xffffffff"
        ]


def test_tproxy_with_a_list_of_ports_has_a_pair_for_each() -> None:
    assert rules(plan(b="80,81", m="TPROXY"), "mangle", "ISTIO_INBOUND")[3:] == [
        rule
        for port in (80, 81)
        for rule in (
            f"-p tcp -m tcp --dport {port} -m conntrack --ctstate RELATED,ESTABLISHED -j ISTIO_DIVERT",
            f"-p tcp -m tcp --dport {port} -j ISTIO_TPROXY",
        )
    ]


@pytest.mark.parametrize("mode", ["REDIRECT", "TPROXY"])
def test_invalid_packets_are_dropped_ahead_of_capture(mode: str) -> None:
    made = plan(b="*", m=mode, drop_invalid="true")
    assert rules(made, "mangle", "PREROUTING")[0] == "-m conntrack --ctstate INVALID -j ISTIO_DROP"
    assert rules(made, "mangle", "ISTIO_DROP") == ["-j DROP"]
    assert "ISTIO_DROP" not in chains(plan(b="*", m=mode), "mangle")
