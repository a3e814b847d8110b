from __future__ import annotations

import pytest

from tests.unit.compile.istio.written import plan, rules


def output(family: int = 4, **options: str) -> list[str]:
    return rules(plan(**options), "nat", "ISTIO_OUTPUT", family)


def test_the_whole_order() -> None:
    found = output(
        u="1", g="2", i="10.0.0.0/8,fd00::/8", x="10.9.0.0/16,fd09::/16", q="3306", o="443,8000:9000",
        istio_outbound_owner_groups_exclude="7,8",
    )  # fmt: skip
    assert found == [
        "-p tcp -m tcp --dport 443 -j RETURN",
        "-p udp -m udp --dport 443 -j RETURN",
        "-p tcp -m tcp --dport 8000:9000 -j RETURN",
        "-p udp -m udp --dport 8000:9000 -j RETURN",
        "-s 127.0.0.6/32 -o lo -j RETURN",
        "! -d 127.0.0.1/32 -o lo -p tcp -m tcp ! --dport 15008 -m owner --uid-owner 1 -j ISTIO_IN_REDIRECT",
        "-o lo -m owner ! --uid-owner 1 -j RETURN",
        "-m owner --uid-owner 1 -j RETURN",
        "! -d 127.0.0.1/32 -o lo -p tcp -m tcp ! --dport 15008 -m owner --gid-owner 2 -j ISTIO_IN_REDIRECT",
        "-o lo -m owner ! --gid-owner 2 -j RETURN",
        "-m owner --gid-owner 2 -j RETURN",
        "-m owner --gid-owner 7 -j RETURN",
        "-m owner --gid-owner 8 -j RETURN",
        "-d 127.0.0.1/32 -j RETURN",
        "-d 10.9.0.0/16 -j RETURN",
        "-p tcp -m tcp --dport 3306 -j ISTIO_REDIRECT",
        "-d 10.0.0.0/8 -j ISTIO_REDIRECT",
    ]


def test_ipv6_has_its_own_addresses() -> None:
    found = output(6, i="10.0.0.0/8,fd00::/8", x="10.9.0.0/16,fd09::/16")
    assert found[0] == "-s ::6/128 -o lo -j RETURN"
    assert found[-3:] == ["-d ::1/128 -j RETURN", "-d fd09::/16 -j RETURN", "-d fd00::/8 -j ISTIO_REDIRECT"]


def test_an_ipv4_pod_leaves_blocks_of_ipv6_out() -> None:
    made = plan((4,), i="10.0.0.0/8,fd00::/8", x="fd09::/16")
    assert not [rule for rule in rules(made, "nat", "ISTIO_OUTPUT") if "fd0" in rule]


def test_dns_has_an_exception_for_uids_and_not_for_gids() -> None:
    found = output(u="1", g="2", redirect_dns="true", capture_all_dns="true")
    assert [rule for rule in found if "-o lo" in rule][1:] == [
        "! -d 127.0.0.1/32 -o lo -p tcp -m multiport ! --dports 53,15008 -m owner --uid-owner 1 -j ISTIO_IN_REDIRECT",
        "-o lo -p tcp -m tcp ! --dport 53 -m owner ! --uid-owner 1 -j RETURN",
        "! -d 127.0.0.1/32 -o lo -p tcp -m tcp ! --dport 15008 -m owner --gid-owner 2 -j ISTIO_IN_REDIRECT",
        "-o lo -p tcp -m tcp ! --dport 53 -m owner ! --gid-owner 2 -j RETURN",
    ]


@pytest.mark.parametrize("blocks", ["127.0.0.1/32", "::1/128"])
def test_with_a_block_in_loopback_calls_on_lo_are_looked_at(blocks: str) -> None:
    for family in (4, 6):
        assert not [rule for rule in output(family, i=blocks) if rule.startswith("-o lo")]


def test_a_loopback_block_of_one_s_own_is_for_ipv4() -> None:
    found = output(istio_outbound_ipv4_loopback_cidr="127.0.0.1/16")
    assert "-d 127.0.0.0/16 -j RETURN" in found
    assert [rule for rule in found if rule.startswith("! -d 127.0.0.0/16 ")]
    assert "-d ::1/128 -j RETURN" in output(6, istio_outbound_ipv4_loopback_cidr="127.0.0.1/16")


@pytest.mark.parametrize(
    ("include", "exclude", "found"),
    [
        ("*", "7", ["-m owner --gid-owner 7 -j RETURN"]),
        ("7,8", "9", ["-m owner ! --gid-owner 7 -m owner ! --gid-owner 8 -j RETURN"]),
        ("", "9", ["-j RETURN"]),
        ("*", "", []),
    ],
)
def test_groups_are_a_list_of_one_kind_or_the_other(include: str, exclude: str, found: list[str]) -> None:
    options = {"istio_outbound_owner_groups": include, "istio_outbound_owner_groups_exclude": exclude}
    made = output(i="*", **options)
    place = made.index("-d 127.0.0.1/32 -j RETURN")
    assert made[made.index("-m owner --gid-owner 1337 -j RETURN") + 1 : place] == found
    assert made[place + 1 :] == ["-j ISTIO_REDIRECT"]


def test_the_sidecar_s_own_address_is_made_for_ipv6_alone() -> None:
    made = plan()
    assert [item.words for item in made.routing if item.object == "addr"] == ["::6/128 dev lo"]
    assert not [item for item in plan((4,)).routing if item.object == "addr"]
