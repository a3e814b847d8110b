"""What a namespace holds as one subject: rules of either variant, our tables, and what is only named."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from meshnet.cli.in_force import InForce, look, read
from meshnet.kernel import detect, netns, nft_read
from meshnet.kernel.detect import Evidence, Found
from meshnet.kernel.netns import where
from meshnet.model.errors import UsageError
from meshnet.model.nft import RawChain, RawRule, RawTable
from meshnet.probe import host as probing
from tests.unit.cli.places import FakePlace
from tests.unit.parse.expressions import cmp, meta, verdict
from tests.unit.simulate.pods import host, table

if TYPE_CHECKING:
    from meshnet.cli.simulated import Subject

HELD = table("nat", "-A OUTPUT -j ACCEPT")
PLAIN = {"address": (), "route_localnet": None, "src_valid_mark": False, "no_policy_route": False}
NFPROTO, IPV4, IPV6 = 15, b"\2", b"\12"


def ours(priority: int = -150, name: str = "meshnet") -> RawTable:
    """Three rules, the first of IPv6 alone, the second of IPv4."""
    chain = RawChain("out", "filter", 3, priority)
    rules = (
        RawRule("out", 7, "", (meta(NFPROTO), cmp(0, IPV6), verdict(0))),
        RawRule("out", 8, "", (meta(NFPROTO), cmp(0, IPV4), verdict(0))),
        RawRule("out", 9, "", (verdict(1),)),
    )
    return RawTable(name, "meshnet:1", 0, 1, (chain,), (), rules)


class Pod(FakePlace):
    def __init__(self) -> None:
        super().__init__()
        self.where = where("pod")
        self.found: dict[int, tuple[Found, ...]] = {4: (), 6: ()}
        self.tables: tuple[RawTable, ...] = ()

    def evidence(self) -> tuple[Evidence, ...]:
        assert self.inside
        return tuple(Evidence(family, self.found[family]) for family in (4, 6))

    def read(self) -> InForce:
        return read(self)  # type: ignore[arg-type]


@pytest.fixture
def pod(monkeypatch: pytest.MonkeyPatch) -> Pod:
    made = Pod()
    monkeypatch.setattr(netns, "require_capabilities", lambda *_: None)
    monkeypatch.setattr(netns, "open_namespace", made.open)
    monkeypatch.setattr(detect, "evidence", made.evidence)
    monkeypatch.setattr(nft_read, "tables", lambda: made.tables)
    monkeypatch.setattr(nft_read, "content", lambda table: table)
    monkeypatch.setattr(probing, "host_of", lambda _: host())
    return made


def names(subject: Subject, family: int) -> list[str]:
    return [held.name for rules in subject.rules if rules.family == family for held in rules.tables]


def test_nothing_at_all(pod: Pod) -> None:
    found = pod.read()
    assert [rules.family for rules in found.subject.rules] == [4, 6]
    assert (found.holders, found.unordered, found.tables, found.legacy) == ((), (), (), False)


def test_our_table_is_beside_iptables(pod: Pod) -> None:
    pod.found[4] = (Found("nft", True, ours=1, text=HELD),)
    pod.tables = (ours(),)
    found = pod.read()
    assert names(found.subject, 4) == ["nat", "inet meshnet"]
    assert names(found.subject, 6) == ["inet meshnet"]
    assert [(item.backend, item.family, item.ours) for item in found.holders] == [
        ("iptables-nft", 4, 1),
        ("nftables", 4, 1),
        ("nftables", 6, 1),
    ]


def test_a_rule_s_number_is_its_place_among_those_of_the_family(pod: Pod) -> None:
    pod.tables = (ours(),)
    found = pod.read()
    assert found.numbers(4) == {("inet meshnet", "out", 8): 1, ("inet meshnet", "out", 9): 2}
    assert found.numbers(6) == {("inet meshnet", "out", 7): 1, ("inet meshnet", "out", 9): 2}


def test_at_one_place_with_iptables_our_table_is_followed_alone(pod: Pod) -> None:
    pod.found[4] = (Found("nft", True, foreign=1, text=table("mangle", "-A OUTPUT -j ACCEPT")),)
    pod.tables = (ours(),)
    found = pod.read()
    assert names(found.subject, 4) == ["inet meshnet"]
    (told,) = found.unordered
    assert told.startswith("IPv4: ") and told.endswith("followed is inet meshnet")


def test_of_two_variants_the_one_with_rules_of_ours(pod: Pod) -> None:
    pod.found[6] = (
        Found("nft", True, foreign=9, text=HELD),
        Found("legacy", True, ours=1, text=table("raw", "-A OUTPUT -j ACCEPT")),
    )
    found = pod.read()
    assert names(found.subject, 6) == ["raw"]
    assert found.legacy
    (told,) = found.unordered
    assert "followed are those of iptables-legacy" in told


def test_what_couldn_t_be_read_and_others_tables_are_named(pod: Pod) -> None:
    pod.found[4] = (Found("legacy", False, problem="tables exist, but iptables-legacy-save is missing"),)
    pod.found[6] = (Found("legacy", False, problem="not installed"),)
    pod.tables = (RawTable("theirs", "", 0, 0),)
    assert pod.read().subject.notes == (
        "IPv4 with legacy: tables exist, but iptables-legacy-save is missing",
        "table inet theirs is somebody else's and isn't looked at",
    )


def test_a_look_has_the_namespace_too_and_says_what_isn_t_followed(pod: Pod) -> None:
    pod.found[4] = (Found("nft", True, text=HELD), Found("legacy", True, text=HELD))
    subject, holders = look("doctor", "pod", None, PLAIN)
    assert subject.host == host()
    assert len(subject.notes) == 1 and len(holders) == 2
    assert pod.opened == [where("pod")] and pod.closed == 1


@pytest.mark.parametrize("given", [{"address": ("10.0.0.1",)}, {"route_localnet": True}, {"no_policy_route": True}])
def test_a_namespace_says_itself_what_it_is(pod: Pod, given: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="the namespace says so itself"):
        look("explain", "pod", None, PLAIN | given)
    assert pod.opened == []
