"""One contract, four packet filters: what the fake takes, refuses and prints is what the kernel does."""

from __future__ import annotations

import pytest

from meshnet.kernel.fake import FakeXtables
from meshnet.kernel.savetext import sections
from meshnet.kernel.xtables import Xtables
from meshnet.kernel.xtables_legacy import LegacyLibrary
from meshnet.model.errors import ToolError
from tests.netns import vocabulary

MAKERS = {
    "fake": FakeXtables,
    "nft": lambda: Xtables("nft"),
    "legacy": lambda: Xtables("legacy"),
    "libiptc": LegacyLibrary,
}


@pytest.fixture(params=sorted(MAKERS))
def filter_(request, inside):
    return MAKERS[request.param]()


@pytest.fixture(params=[4, 6])
def family(request):
    return request.param


def chains(filter_, family, table):
    return next((section.chains for section in sections(filter_.save(family)) if section.table == table), {})


def lines(filter_, family, table):
    return vocabulary.rules(filter_.save(family)).get(table, [])


def test_looking_creates_nothing(filter_, family):
    assert sections(filter_.save(family)) == []
    assert sections(filter_.save(family)) == []


def test_every_word_comes_back_as_it_was_fed(filter_, family):
    text = vocabulary.text(family)
    filter_.restore(family, text)
    assert vocabulary.rules(filter_.save(family)) == vocabulary.rules(text)
    other = 6 if family == 4 else 4
    assert sections(filter_.save(other)) == []


def test_what_it_prints_can_be_fed_again(filter_, family):
    filter_.restore(family, vocabulary.text(family))
    before = filter_.save(family)
    again = "".join(f"{line}\n" for line in before.splitlines() if not line.startswith(("-A PREROUTING", "-A OUTPUT")))
    filter_.restore(family, again)
    assert vocabulary.plain(filter_.save(family)) == vocabulary.plain(before)


def test_every_rule_can_be_deleted_by_its_words(filter_, family):
    filter_.restore(family, vocabulary.text(family))
    undo = []
    for section in sections(filter_.save(family)):
        undo += [f"*{section.table}", *(f"-D{line[2:]}" for line in section.lines)]
        undo += [f"-X {chain}" for chain, policy in section.chains.items() if policy == "-"]
        undo.append("COMMIT")
    filter_.restore(family, "\n".join(undo) + "\n")
    assert all(section.empty for section in sections(filter_.save(family)))


def test_a_declaration_creates_and_empties(filter_, family):
    filter_.restore(family, "*nat\n:MESHNET_A - [0:0]\n-A MESHNET_A -j RETURN\nCOMMIT\n")
    filter_.restore(family, "*nat\n:MESHNET_A - [0:0]\n-A MESHNET_A -j ACCEPT\nCOMMIT\n")
    assert lines(filter_, family, "nat") == ["-A MESHNET_A -j ACCEPT"]


def test_insert_puts_a_rule_at_its_place(filter_, family):
    filter_.restore(family, "*nat\n-A OUTPUT -o a -j ACCEPT\n-A OUTPUT -o b -j ACCEPT\nCOMMIT\n")
    filter_.restore(family, "*nat\n-I OUTPUT 2 -o c -j ACCEPT\n-I OUTPUT 1 -o d -j ACCEPT\nCOMMIT\n")
    order = [line.split()[3] for line in lines(filter_, family, "nat")]
    assert order == ["d", "a", "c", "b"]


def test_a_policy_can_be_set(filter_, family):
    filter_.restore(family, "*filter\n:FORWARD DROP [0:0]\nCOMMIT\n")
    assert chains(filter_, family, "filter")["FORWARD"] == "DROP"


def test_counters_stand_in_front(filter_, family):
    filter_.restore(family, "*nat\n-A OUTPUT -o none0 -j ACCEPT\nCOMMIT\n")
    assert "[0:0] -A OUTPUT -o none0 -j ACCEPT" in filter_.save(family, counters=True)


REFUSED = {
    "unknown table": "*nope\nCOMMIT\n",
    "jump to a missing chain": "*filter\n-A OUTPUT -j MESHNET_NOT_THERE\nCOMMIT\n",
    "rule in a missing chain": "*filter\n-A MESHNET_NOT_THERE -j ACCEPT\nCOMMIT\n",
    "deleting a missing rule": "*filter\n-D OUTPUT -p tcp -j DROP\nCOMMIT\n",
    "deleting a missing chain": "*filter\n-X MESHNET_NOT_THERE\nCOMMIT\n",
    "deleting a chain with rules": "*filter\n:MESHNET_A - [0:0]\n-A MESHNET_A -j DROP\n-X MESHNET_A\nCOMMIT\n",
    "deleting a chain in use": "*filter\n:MESHNET_A - [0:0]\n-A OUTPUT -j MESHNET_A\n-X MESHNET_A\nCOMMIT\n",
    "29 bytes of chain name": f"*filter\n:{'M' * 29} - [0:0]\nCOMMIT\n",
    "TPROXY in nat": "*nat\n-A PREROUTING -p tcp -j TPROXY --on-port 1 --tproxy-mark 0x1/0x1\nCOMMIT\n",
    "TPROXY in OUTPUT": "*mangle\n-A OUTPUT -p tcp -j TPROXY --on-port 1 --tproxy-mark 0x1/0x1\nCOMMIT\n",
    "REDIRECT in mangle": "*mangle\n-A OUTPUT -p tcp -j REDIRECT --to-ports 1\nCOMMIT\n",
    "CT in mangle": "*mangle\n-A OUTPUT -j CT --zone 1\nCOMMIT\n",
    "owner in PREROUTING": "*nat\n-A PREROUTING -m owner --uid-owner 1 -j ACCEPT\nCOMMIT\n",
    "owner reached from PREROUTING": "*nat\n:MESHNET_A - [0:0]\n-A MESHNET_A -m owner --uid-owner 1 -j ACCEPT\n"
    "-A PREROUTING -j MESHNET_A\nCOMMIT\n",
    "ports without a protocol": "*filter\n-A OUTPUT -m multiport --dports 1,2 -j DROP\nCOMMIT\n",
    "a loop": "*filter\n:MESHNET_A - [0:0]\n-A MESHNET_A -j MESHNET_A\n-A OUTPUT -j MESHNET_A\nCOMMIT\n",
    "an unknown word": "*filter\n-Q OUTPUT -j ACCEPT\nCOMMIT\n",
    "an insert behind the end": "*filter\n-I OUTPUT 7 -j ACCEPT\nCOMMIT\n",
}


@pytest.mark.parametrize("why", sorted(REFUSED))
def test_it_refuses(filter_, family, why):
    with pytest.raises(ToolError) as caught:
        filter_.restore(family, REFUSED[why])
    assert caught.value.lines()
    assert all(section.empty for section in sections(filter_.save(family)))


def test_28_bytes_of_chain_name_are_taken(filter_, family):
    filter_.restore(family, f"*filter\n:{'M' * 28} - [0:0]\nCOMMIT\n")
    assert "M" * 28 in chains(filter_, family, "filter")


def test_owner_in_a_chain_that_nobody_reaches_is_taken(filter_, family):
    filter_.restore(family, "*nat\n:MESHNET_A - [0:0]\n-A MESHNET_A -m owner --uid-owner 1 -j ACCEPT\nCOMMIT\n")
    assert len(lines(filter_, family, "nat")) == 1


def test_a_table_is_all_or_nothing_and_the_ones_before_it_stay(filter_, family):
    with pytest.raises(ToolError):
        filter_.restore(
            family,
            "*mangle\n:MESHNET_M - [0:0]\n-A OUTPUT -j MESHNET_M\nCOMMIT\n"
            "*filter\n:MESHNET_F - [0:0]\n-A OUTPUT -j MESHNET_F\n-A OUTPUT -j MESHNET_NOT_THERE\nCOMMIT\n",
        )
    assert lines(filter_, family, "mangle") == ["-A OUTPUT -j MESHNET_M"]
    assert lines(filter_, family, "filter") == []
    assert "MESHNET_F" not in chains(filter_, family, "filter")


def test_a_test_changes_nothing(filter_, family):
    filter_.restore(family, vocabulary.text(family), test=True)
    assert all(section.empty for section in sections(filter_.save(family)))


def test_two_families_side_by_side(filter_):
    under_way = [filter_.begin(family, vocabulary.text(family)) for family in (4, 6)]
    for restoring in under_way:
        restoring.finish()
    for family in (4, 6):
        assert vocabulary.rules(filter_.save(family)) == vocabulary.rules(vocabulary.text(family))


def test_a_table_with_something_in_it_is_kept(filter_, family):
    for text in (
        "*nat\n-A OUTPUT -j ACCEPT\nCOMMIT\n",
        "*nat\n-D OUTPUT -j ACCEPT\n:MESHNET_A - [0:0]\nCOMMIT\n",
    ):
        filter_.restore(family, text)
        before = vocabulary.plain(filter_.save(family))
        assert not filter_.delete_empty_table(family, "nat")
        assert vocabulary.plain(filter_.save(family)) == before


@pytest.mark.parametrize("maker", ["fake", "nft"])
def test_an_empty_table_is_taken_away(maker, family, inside):
    filter_ = MAKERS[maker]()
    filter_.restore(family, "*nat\n:MESHNET_A - [0:0]\n-A OUTPUT -j MESHNET_A\nCOMMIT\n")
    filter_.restore(family, "*nat\n-D OUTPUT -j MESHNET_A\n-X MESHNET_A\nCOMMIT\n")
    assert filter_.delete_empty_table(family, "nat")
    assert sections(filter_.save(family)) == []
    assert not filter_.delete_empty_table(family, "nat")
