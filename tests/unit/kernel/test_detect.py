from __future__ import annotations

import pytest

from meshnet.kernel import detect
from meshnet.kernel.detect import Evidence, Found
from meshnet.model.errors import NOT_HERE, UnsupportedError


def seen(nft=None, legacy=None, system="nft", family=4):
    """Counts are (ours, foreign); a text is a problem; None is not installed."""

    def found(variant, what):
        if isinstance(what, tuple):
            return Found(variant, True, *what)
        return Found(variant, False, problem=what or f"{variant} is missing")

    version = f"iptables v1.8.9 ({'nf_tables' if system == 'nft' else system})" if system else ""
    return Evidence(family, (found("nft", nft), found("legacy", legacy)), system, version)


@pytest.mark.parametrize(
    ("evidence", "backend", "why"),
    [
        (seen((0, 0), (3, 0)), "iptables-legacy", "holds 3 rules of ours"),
        (seen((1, 0), (0, 50), "legacy"), "iptables-nft", "holds 1 rules of ours"),
        (seen((5, 0), (2, 0)), "iptables-nft", "iptables-legacy holds 2 too"),
        (seen((0, 2), (0, 7)), "iptables-legacy", "holds 7 foreign rules (iptables-nft holds 2 too"),
        (seen((0, 2), (0, 0), "legacy"), "iptables-nft", "2 foreign rules"),
        (seen((0, 0), (0, 0)), "iptables-nft", "iptables is iptables v1.8.9 (nf_tables)"),
        (seen((0, 0), (0, 0), "legacy"), "iptables-legacy", "(legacy)"),
        (seen((0, 0), (0, 0), ""), "iptables-nft", "iptables-nft is there"),
        (seen(None, (0, 0), ""), "iptables-legacy", "iptables-legacy is there"),
        (seen(None, (0, 0), "nft"), "iptables-legacy", "iptables-legacy is there"),
        (seen((0, 0), "tables exist, but iptables-legacy-save is missing"), "iptables-nft", "tables exist"),
    ],
)
def test_the_choice_follows_the_evidence_and_names_it(evidence, backend, why):
    choice = detect.choose([evidence])
    assert choice.backend == backend
    assert why in choice.reason


def test_both_families_count_together():
    choice = detect.choose([seen((0, 1), (0, 2)), seen((0, 5), (0, 0), family=6)])
    assert choice.backend == "iptables-nft"
    assert "holds 6 foreign" in choice.reason


def test_a_variant_must_be_there_for_every_family():
    assert detect.choose([seen((0, 0), (0, 0)), seen(None, (0, 0), family=6)]).backend == "iptables-legacy"


def test_without_ipv6_tools_the_family_is_named():
    four, six = seen((0, 0), (0, 0)), seen(None, None, "", family=6)
    assert (four.usable, six.usable) == (True, False)
    assert detect.choose([four]).backend == "iptables-nft"
    with pytest.raises(UnsupportedError) as caught:
        detect.choose([four, six])
    assert caught.value.exit_code == NOT_HERE
    assert all(reason.startswith("IPv6") for reason in caught.value.reasons)


def test_our_rules_where_a_tool_is_missing_are_no_case_for_the_other_variant():
    with pytest.raises(UnsupportedError, match="iptables-legacy holds rules of ours"):
        detect.choose([seen((0, 0), (3, 0)), seen((0, 0), None, family=6)])


@pytest.mark.parametrize(
    ("line", "mine"),
    [
        ("-A MESHNET_IN -j RETURN", True),
        ("-A OUTPUT -j MESHNET_OUT", True),
        ('-A OUTPUT -m comment --comment "meshnet:out.jump" -j ACCEPT', True),
        ('-A OUTPUT -m comment --comment "not meshnet:x" -j ACCEPT', False),
        ('-A OUTPUT -m comment --comment "-j MESHNET_OUT" -j ACCEPT', False),
        ("-A OUTPUT -j MY_MESHNET_OUT", False),
    ],
)
def test_whose_rule_it_is(line, mine):
    assert detect.ours(line) is mine
