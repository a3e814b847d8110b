from __future__ import annotations

from tests.unit.compile.istio.written import chains, plan, rules

RESOLVERS = ("10.96.0.10/32", "fd00::a/128", "10.96.0.11/32")
TO = "-j REDIRECT --to-ports 15053"


def test_several_resolvers_stand_in_their_order_transport_by_transport() -> None:
    made = plan(resolvers=RESOLVERS, redirect_dns="true")
    assert rules(made, "nat", "ISTIO_OUTPUT_DNS") == [
        f"-d {address}/32 -p {transport} -m {transport} --dport 53 {TO}"
        for transport in ("tcp", "udp")
        for address in ("10.96.0.10", "10.96.0.11")
    ]
    assert rules(made, "nat", "ISTIO_OUTPUT_DNS", 6) == [
        f"-d fd00::a/128 -p {transport} -m {transport} --dport 53 {TO}" for transport in ("tcp", "udp")
    ]


def test_all_resolvers_need_no_address() -> None:
    made = plan(redirect_dns="true", capture_all_dns="true", resolvers=RESOLVERS)
    for family in (4, 6):
        assert rules(made, "nat", "ISTIO_OUTPUT_DNS", family) == [
            f"-p tcp -m tcp --dport 53 {TO}",
            f"-p udp -m udp --dport 53 {TO}",
        ]
        assert rules(made, "raw", "PREROUTING", family) == ["-j ISTIO_INBOUND"]
        assert rules(made, "raw", "ISTIO_INBOUND", family) == ["-p udp -m udp --sport 53 -j CT --zone 1"]


def test_zones_for_each_identity_and_then_for_each_resolver() -> None:
    made = plan(resolvers=RESOLVERS, redirect_dns="true", u="1,2", g="3")
    own = [
        f"-p udp -m udp {match} -m owner --{kind}-owner {number} -j CT --zone {zone}"
        for kind, number in (("uid", 1), ("uid", 2), ("gid", 3))
        for match, zone in (("--dport 53", 1), ("--sport 15053", 2))
    ]
    queries = [f"-d {address}/32 -p udp -m udp --dport 53 -j CT --zone 2" for address in ("10.96.0.10", "10.96.0.11")]
    assert rules(made, "raw", "ISTIO_OUTPUT_DNS") == own + queries
    assert rules(made, "raw", "ISTIO_INBOUND") == [
        f"-s {address}/32 -p udp -m udp --sport 53 -j CT --zone 1" for address in ("10.96.0.10", "10.96.0.11")
    ]


def test_a_family_without_a_resolver_has_the_sidecar_s_zones_alone() -> None:
    made = plan(resolvers=("10.96.0.10/32",), redirect_dns="true")
    assert rules(made, "raw", "OUTPUT", 6) == ["-j ISTIO_OUTPUT_DNS"]
    assert len(rules(made, "raw", "ISTIO_OUTPUT_DNS", 6)) == 4
    assert rules(made, "raw", "PREROUTING", 6) == []
    assert "-j ISTIO_OUTPUT_DNS" not in rules(made, "nat", "ISTIO_OUTPUT", 6)
    assert "ISTIO_OUTPUT_DNS" not in chains(made, "nat", 6)


def test_an_ipv4_pod_with_an_ipv6_resolver_too() -> None:
    made = plan((4,), RESOLVERS, redirect_dns="true")
    assert len(rules(made, "nat", "ISTIO_OUTPUT_DNS")) == 4
    assert {table.family for table in made.tables} == {4}


def test_dns_comes_behind_the_groups_and_ahead_of_loopback() -> None:
    made = plan(redirect_dns="true", capture_all_dns="true", istio_outbound_owner_groups_exclude="7")
    output = rules(made, "nat", "ISTIO_OUTPUT")
    place = output.index("-j ISTIO_OUTPUT_DNS")
    assert output[place - 1] == "-m owner --gid-owner 7 -j RETURN"
    assert output[place + 1] == "-d 127.0.0.1/32 -j RETURN"


def test_without_dns_there_is_no_raw_table() -> None:
    for made in (plan(), plan(redirect_dns="true"), plan(capture_all_dns="true", resolvers=RESOLVERS)):
        assert chains(made, "raw") == set()
        assert not any("53" in rule and "1505" in rule for rule in rules(made, "nat", "ISTIO_OUTPUT"))
