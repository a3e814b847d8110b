from __future__ import annotations

import pytest

from meshnet.model.nft import UNKNOWN, NftChain, NftSet, NftTable
from meshnet.model.value import replace
from meshnet.render.nft_text import set_differences, table_text, transaction

HEAD = "type nat hook output priority -100; policy accept;"
BASE, PLAIN = NftChain("out", HEAD, ("jump a",)), NftChain("a", "", ("accept",))
PORTS = NftSet("ports", "inet_service", ((80, 80), (90, 95)))
TABLE = NftTable("meshnet", (PORTS,), (BASE, PLAIN))


def lines(*tables, gone=(), there=()):
    return [line.strip() for line in transaction(tables, gone, there).splitlines()]


def test_a_table_that_is_not_there_is_made_anew():
    assert lines(TABLE)[:3] == ["add table inet meshnet", "delete table inet meshnet", "table inet meshnet {"]


def test_of_one_that_is_there_the_base_chains_stay():
    assert lines(TABLE, there=(TABLE,))[:4] == [
        "flush table inet meshnet",
        "delete chain inet meshnet a",
        "delete set inet meshnet ports",
        "table inet meshnet {",
    ]


def test_a_base_chain_of_another_head_goes():
    other = replace(BASE, head=HEAD.replace("-100", "-90"))
    assert "delete chain inet meshnet out" in lines(TABLE, there=(replace(TABLE, chains=(other, PLAIN)),))
    assert "delete chain inet meshnet out" in lines(replace(TABLE, chains=(PLAIN,)), there=(TABLE,))


@pytest.mark.parametrize(
    "old", [replace(TABLE, more=("flags 0x1",)), replace(TABLE, chains=(replace(PLAIN, rules=(f"{UNKNOWN} x)",)),))]
)
def test_a_strange_one_is_made_anew_altogether(old):
    assert lines(TABLE, there=(old,))[0] == "add table inet meshnet"


def test_what_nobody_wants_is_deleted_also_where_it_is_gone_already():
    assert transaction((), ("a", "b"), ()).splitlines() == [
        "add table inet a", "delete table inet a", "add table inet b", "delete table inet b",
    ]  # fmt: skip


def test_a_table_in_nft_s_own_words_is_put_back_as_it_was():
    assert table_text(replace(TABLE, text="table inet x {\n}\n\n")) == "table inet x {\n}"
    assert lines(replace(TABLE, text="table inet meshnet { }"), there=(TABLE,))[0] == "add table inet meshnet"


def test_a_long_set_has_several_lines_and_an_empty_one_no_elements():
    long = NftSet("s", "ipv4_addr", tuple((n * 2, n * 2) for n in range(17)))
    text = table_text(NftTable("t", (long,), ()))
    assert text.count(",\n") == 2
    assert "elements" not in table_text(NftTable("t", (NftSet("s", "ipv6_addr", ()),), ()))


def test_how_sets_differ():
    other = NftSet("ports", "inet_service", ((80, 80), (90, 96)))
    assert set_differences(PORTS, other) == ["- set ports { 90-96 }", "+ set ports { 90-95 }"]
    assert set_differences(PORTS, PORTS) == []
    assert set_differences(PORTS, None) == ["+ set ports { 80, 90-95 }"]
    assert set_differences(None, PORTS) == ["- set ports { 80, 90-95 }"]
    kind = replace(PORTS, type="uid")
    assert set_differences(kind, PORTS)[:2] == ["- set ports type inet_service", "+ set ports type uid"]


def test_of_a_long_set_the_first_values_are_told():
    long = NftSet("s", "uid", tuple((n * 2, n * 2) for n in range(10)))
    assert set_differences(long, None)[0].endswith("14, and 2 more }")
