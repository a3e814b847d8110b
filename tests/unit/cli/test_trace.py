"""The real path beside the predicted one, with both accounts given; the kernel's own is tests/netns/test_trace.py."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from meshnet.cli import trace as module
from meshnet.cli.trace import _in_force, _rows
from meshnet.kernel import detect, netns, nft_read
from meshnet.kernel.detect import Evidence, Found
from meshnet.kernel.netns import where
from meshnet.model.errors import UnsupportedError
from meshnet.model.nft import RawTable
from meshnet.probe import host as probing
from meshnet.probe import trace as tracing
from meshnet.probe.trace import Met
from tests.unit.cli.commands import data
from tests.unit.cli.places import FakePlace
from tests.unit.simulate.pods import CLIENT, POD, host, table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meshnet.kernel.xtables import Variant
    from meshnet.model.cidr import Family


VARIANTS: tuple[Variant, ...] = ("nft", "legacy")
FAMILIES: tuple[Family, ...] = (4, 6)
RULES = {4: table("nat", "-A PREROUTING -p tcp -j REDIRECT --to-ports 15006"), 6: ""}
CAPTURED = Met("nat", "PREROUTING", 1, "redirect", 0)
OTHER = Met("filter", "INPUT", 1, "drop", None)


class Pod(FakePlace):
    """A namespace with these rules, and what the kernel is to tell of the packet."""

    def __init__(self) -> None:
        super().__init__()
        self.where = where("pod")
        self.saved: dict[str, dict[int, str]] = {"nft": RULES, "legacy": {4: "", 6: ""}}
        self.real: tuple[Met, ...] = (CAPTURED,)
        self.tables: tuple[RawTable, ...] = ()
        self.followed: list[Any] = []

    def evidence(self) -> tuple[Evidence, ...]:
        assert self.inside
        return tuple(
            Evidence(family, tuple(Found(name, True, text=self.saved[name][family]) for name in VARIANTS))
            for family in FAMILIES
        )

    def live(self, _: object, family: int, wanted: str, numbers: object) -> Iterator[tuple[Any, ...]]:
        assert numbers == {}
        self.followed += [family, wanted]
        yield from ((CAPTURED,), ())


@pytest.fixture
def pod(monkeypatch: pytest.MonkeyPatch) -> Pod:
    made = Pod()
    monkeypatch.setattr(netns, "require_capabilities", lambda *_: None)
    monkeypatch.setattr(netns, "open_namespace", made.open)
    monkeypatch.setattr(detect, "evidence", made.evidence)
    monkeypatch.setattr(nft_read, "tables", lambda: made.tables)
    monkeypatch.setattr(nft_read, "content", lambda table: table)
    monkeypatch.setattr(probing, "host_of", lambda _: host())
    monkeypatch.setattr(tracing, "follow", lambda *_: made.real)
    monkeypatch.setattr(tracing, "seen", lambda events, _: events)
    monkeypatch.setattr(tracing, "live", made.live)
    return made


WORDS = ("trace", "--netns", "pod", "--in", "--src", CLIENT, "--dst", POD)


def test_both_accounts_agree(called: Any, pod: Pod) -> None:
    code, out, _ = called(*WORDS)
    (line,) = (line for line in out.splitlines() if "REDIRECT" in line)
    assert code == 0
    assert line.split()[:6] == ["nat", "PREROUTING:1", "0x0", "nat", "PREROUTING:1", "0x0"]
    assert out.splitlines()[-1] == "the kernel did what was predicted"
    assert "predicted inbound-proxy" in out


@pytest.mark.parametrize("real", [(), (OTHER,), (CAPTURED, OTHER)])
def test_they_differ(called: Any, pod: Pod, real: tuple[Met, ...]) -> None:
    pod.real = real
    code, out, _ = called(*WORDS)
    assert (code, out.splitlines()[-1]) == (1, "THE KERNEL DID SOMETHING ELSE")
    found = data(called(*WORDS, "-o", "json")[1])
    assert (found["agree"], len(found["predicted"]), len(found["real"])) == (False, 1, len(real))


def test_a_mark_that_nobody_knows_is_a_question_and_a_rule_that_is_gone_has_no_words(called: Any, pod: Pod) -> None:
    pod.real = (CAPTURED, OTHER)
    (line,) = (line for line in called(*WORDS)[1].splitlines() if "INPUT:1" in line)
    assert line.split() == ["-", "filter", "INPUT:1", "?"]


def test_no_rule_at_all(called: Any, pod: Pod) -> None:
    pod.saved, pod.real = {"nft": {4: "", 6: ""}, "legacy": {4: "", 6: ""}}, ()
    code, out, _ = called(*WORDS)
    assert code == 0
    assert "no rule was met" in out


def test_what_one_has_and_the_other_has_not_stands_alone() -> None:
    one, two, three = (Met("nat", "A", number, "", 0) for number in (1, 2, 3))
    assert _rows((one, two), (one, two)) == [(one, one), (two, two)]
    assert _rows((one, two), (one, three)) == [(one, one), (two, None), (None, three)]
    assert _rows((one, three), (one, two, three)) == [(one, one), (None, two), (three, three)]
    assert _rows((), (one,)) == [(None, one)]
    assert _rows((), ()) == []


def test_the_peer_is_opened_and_closed_again(called: Any, pod: Pod) -> None:
    called(*WORDS, "--peer", "client")
    assert pod.opened == [where("pod"), where("client")]
    assert pod.closed == 2


@pytest.mark.parametrize("family", [4, 6])
def test_rules_of_both_variants_have_an_order_that_no_text_tells(pod: Pod, family: int) -> None:
    full = table("nat", "-A OUTPUT -j ACCEPT")
    pod.saved = {name: {4: "", 6: "", family: full} for name in ("nft", "legacy")}
    with pytest.raises(UnsupportedError, match=f"IPv{family} rules are in iptables-nft and in iptables-legacy"):
        _in_force(pod)  # type: ignore[arg-type]


def test_tables_without_rules_are_nobody_s(pod: Pod) -> None:
    pod.saved = {"nft": {4: table("filter", ":INPUT ACCEPT [0:0]"), 6: ""}, "legacy": {4: RULES[4], 6: RULES[4]}}
    found = _in_force(pod).subject  # type: ignore[arg-type]
    assert [held.family for held in found.rules] == [4, 6]
    assert all(held.table("nat") is not None for held in found.rules)


def test_a_table_of_ours_beside_the_legacy_log_has_an_order_that_nobody_tells(pod: Pod) -> None:
    pod.tables = (RawTable("meshnet", "meshnet:1", 0, 0),)
    _in_force(pod)  # type: ignore[arg-type]
    pod.saved = {"nft": {4: "", 6: ""}, "legacy": RULES}
    with pytest.raises(UnsupportedError, match="iptables-legacy and in our table"):
        _in_force(pod)  # type: ignore[arg-type]


def test_somebody_else_s_table_is_named(called: Any, pod: Pod) -> None:
    pod.tables = (RawTable("theirs", "", 0, 0),)
    assert "note: table inet theirs is somebody else's" in called(*WORDS)[2]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--filter", "tcp dport 80"), "--filter is for --follow"),
        (("--follow", "--filter", "tcp dport 80; flush ruleset"), "matches only"),
        (("--follow", "--filter", "tcp dport { 80 }"), "matches only"),
        (("--follow", "--filter", 'iifname "a"'), "matches only"),
        (("--follow", "--filter", "a\nb"), "matches only"),
        (("--proto", "icmp"), "meshnet explain"),
        (("--state", "ESTABLISHED"), "meshnet explain"),
        (("--family", "5"), "5"),
        (("--src", "10.0.0.1", "--dst", "fd00::1"), "different families"),
    ],
)
def test_what_can_t_be_traced(called: Any, pod: Pod, words: tuple[str, ...], said: str) -> None:
    code, out, err = called("trace", "--netns", "pod", *words)
    assert (code, out) == (2, "")
    assert said in err
    assert pod.followed == []


def test_following_shows_each_packet(called: Any, pod: Pod) -> None:
    code, out, err = called("trace", "--netns", "pod", "--follow", "--filter", "tcp dport 80")
    assert (code, pod.followed, err) == (0, [4, "tcp dport 80"], "showing packets until Ctrl-C\n")
    assert out.count("rule") == 2
    assert "nat PREROUTING:1  0x0   -p tcp -j REDIRECT --to-ports 15006" in out
    assert "-o" not in out


def test_following_in_the_other_family_and_as_data(called: Any, pod: Pod) -> None:
    _, out, _ = called("trace", "--netns", "pod", "--follow", "--family", "6", "-o", "json")
    assert pod.followed == [6, ""]
    assert '"chain": "PREROUTING"' in out


def test_the_filter_can_t_leave_its_rule() -> None:
    assert set("{};\n\"'\\#") <= module.FORBIDDEN
