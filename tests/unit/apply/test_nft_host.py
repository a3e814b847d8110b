from __future__ import annotations

from typing import Any

import pytest

from meshnet.apply import host, nft_host
from meshnet.apply.nft_host import NftHost, own_tables
from meshnet.kernel.rtnetlink import SeenRouting
from meshnet.model.errors import UnsupportedError
from meshnet.model.names import NFT_MARK, ROUTE_PROTOCOL
from meshnet.model.nft import RawChain, RawExpression, RawRule, RawTable
from meshnet.model.plan import Step
from meshnet.model.value import replace

OURS = RawTable("meshnet", NFT_MARK, 0, 0)
RENAMED = RawTable("pod", NFT_MARK, 0, 0)
OTHERS = RawTable("filter", "", 0, 1)
LOOKALIKE = RawTable("meshnet2", "a meshnet:table of somebody's", 0, 0)


class Kernel:
    """Tables and what was done; ``version`` may be what asking for nft's version raises."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.tables: tuple[RawTable, ...] = ()
        self.done: list[tuple[Any, ...]] = []
        self.version: Exception | None = None
        monkeypatch.setattr(nft_host.nft_read, "tables", lambda: self.tables)
        monkeypatch.setattr(nft_host.nft_read, "content", lambda table: table)
        monkeypatch.setattr(nft_host.nft, "listed", lambda name: f"listed {name}")
        monkeypatch.setattr(nft_host.nft, "begin_version", lambda: self._work("version"))
        monkeypatch.setattr(nft_host.nft, "begin", lambda text: self._work("nft", text))
        monkeypatch.setattr(nft_host.routes, "begin", lambda family, text: self._work("ip", family, text))
        monkeypatch.setattr(nft_host, "begin_ipset", lambda step: self._work(step.tool, step.text))
        monkeypatch.setattr(host.rtnetlink, "read", self._routing)

    def _work(self, *words: Any) -> Kernel:
        self.done.append(words)
        if words == ("version",) and self.version is not None:
            raise self.version
        return self

    def finish(self) -> None:
        pass

    def _routing(self, family: int, protocol: int) -> SeenRouting:
        self.done.append(("routing", family, protocol))
        return SeenRouting((), (), ())


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    return Kernel(monkeypatch)


def test_a_table_is_ours_by_its_comment_and_not_by_its_name() -> None:
    assert own_tables((OTHERS, OURS, LOOKALIKE, RENAMED)) == (OURS, RENAMED)
    assert own_tables(()) == ()


def test_our_tables_and_the_names_of_the_others(kernel: Kernel) -> None:
    kernel.tables = (OTHERS, OURS, RENAMED, LOOKALIKE)
    tables, taken = NftHost((4, 6)).read_tables()
    assert [table.name for table in tables] == ["meshnet", "pod"]
    assert taken == {"filter", "meshnet2"}


def test_a_table_with_what_we_have_no_words_for_is_kept_as_nft_prints_it(kernel: Kernel) -> None:
    strange = RawRule("c", 1, "", (RawExpression("quota", {}),))
    kernel.tables = (OURS, replace(RENAMED, use=1, chains=(RawChain("c"),), rules=(strange,)))
    plain, odd = NftHost((4, 6)).read_tables()[0]
    assert (plain.text, odd.text) == ("", "listed pod")
    assert odd.strange


def test_only_our_tables_are_counted(kernel: Kernel) -> None:
    kernel.tables = (OTHERS, OURS)
    assert [item.table.name for item in NftHost((4, 6)).counted()] == ["meshnet"]


def test_no_table_of_iptables_is_this_backend_s() -> None:
    assert NftHost((4, 6)).save() == NftHost((4, 6)).save(counters=True) == {}


@pytest.mark.parametrize(("adopting", "protocol"), [(False, ROUTE_PROTOCOL), (True, 0)])
def test_routing_of_others_is_read_only_when_it_may_be_adopted(kernel: Kernel, adopting: bool, protocol: int) -> None:
    NftHost((4, 6), adopting=adopting).read_routing(6)
    assert kernel.done == [("routing", 6, protocol)]


def test_each_step_goes_to_its_tool(kernel: Kernel) -> None:
    made = NftHost((4, 6))
    for step in (
        Step("ip", 6, "rule add x"),
        Step("nft", "inet", "table"),
        Step("ipset", "inet", "create"),
        Step("ipset destroy", "inet", "destroy"),
    ):
        made.begin(step).finish()
    assert kernel.done == [
        ("version",),
        ("ip", 6, "rule add x"),
        ("nft", "table"),
        ("ipset", "create"),
        ("ipset destroy", "destroy"),
    ]


def test_an_nft_that_is_too_old_is_refused_before_routing_changes(kernel: Kernel) -> None:
    kernel.version = UnsupportedError(["nft 0.9.0 has no tproxy"])
    made = NftHost((4, 6))
    for _ in range(2):
        with pytest.raises(UnsupportedError):
            made.begin(Step("ip", 4, "rule add x"))
    assert kernel.done == [("version",)] * 2


@pytest.mark.parametrize("tool", ["restore", "drop"])
def test_steps_of_iptables_are_a_mistake_of_ours(kernel: Kernel, tool: Any) -> None:
    with pytest.raises(AssertionError, match=tool):
        NftHost((4, 6)).begin(Step(tool, 4, "nat"))
