from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from meshnet.apply.counters import counters, untouched
from meshnet.model.nft import NftTable
from meshnet.parse.nftables import Understood

if TYPE_CHECKING:
    from meshnet.model.cidr import Family

SAVED = """\
*nat
:OUTPUT ACCEPT [0:0]
:MESHNET_OUTBOUND - [0:0]
[7:420] -A OUTPUT -m comment --comment "meshnet:out.enter" -j MESHNET_OUTBOUND
[9:540] -A OUTPUT -m comment --comment "somebody else" -j ACCEPT
[3:180] -A OUTPUT -p tcp -j ACCEPT
[0:0] -A MESHNET_OUTBOUND -p tcp -m comment --comment "meshnet:out.capture" -j REDIRECT --to-ports 15001
COMMIT
"""
ENTER = '-m comment --comment "meshnet:out.enter" -j MESHNET_OUTBOUND'
CAPTURE = '-p tcp -m comment --comment "meshnet:out.capture" -j REDIRECT --to-ports 15001'
RETURNED = 'meta l4proto tcp return comment "meshnet:out.direct"'


class Texts:
    """A host of iptables as what its save prints; asked for without counters it would print none."""

    name = "iptables-nft"

    def __init__(self, **texts: str) -> None:
        self._texts = {int(family[1:]): text for family, text in texts.items()}

    def save(self, counters: bool = False) -> dict[Family, str]:
        assert counters
        return self._texts  # type: ignore[return-value]


class Tables:
    name = "nftables"

    def __init__(self, *packets: dict[tuple[str, str], int]) -> None:
        self._packets = packets

    def counted(self) -> tuple[Understood, ...]:
        return tuple(
            Understood(NftTable(f"meshnet{number}", (), ()), packets) for number, packets in enumerate(self._packets)
        )


def counted(host: Any) -> Any:
    return counters(host)


def test_rules_of_ours_alone_are_counted() -> None:
    assert counted(Texts(v4=SAVED)) == {
        (4, "nat", "OUTPUT", ENTER): 7,
        (4, "nat", "MESHNET_OUTBOUND", CAPTURE): 0,
    }


def test_families_and_tables_are_told_apart() -> None:
    other = SAVED.replace("*nat", "*mangle").replace("[7:420]", "[1:60]")
    found = counted(Texts(v4=SAVED, v6=SAVED + other))
    assert {key[:2]: packets for key, packets in found.items() if key[2] == "OUTPUT"} == {
        (4, "nat"): 7,
        (6, "nat"): 7,
        (6, "mangle"): 1,
    }


@pytest.mark.parametrize("texts", [{}, {"v4": ""}, {"v4": "*nat\n:OUTPUT ACCEPT [0:0]\nCOMMIT\n", "v6": ""}])
def test_nothing_there(texts: dict[str, str]) -> None:
    assert counted(Texts(**texts)) == {}


def test_tables_of_nftables() -> None:
    host = Tables({("outbound", RETURNED): 5, ("outbound", "accept"): 9}, {("outbound", RETURNED): 6})
    assert counted(host) == {
        ("inet", "meshnet0", "outbound", RETURNED): 5,
        ("inet", "meshnet1", "outbound", RETURNED): 6,
    }


def test_what_has_seen_no_packet_since() -> None:
    before = counted(Texts(v4=SAVED))
    now = counted(Texts(v4=SAVED.replace("[0:0] -A", "[1:60] -A")))
    (quiet,) = untouched(before, now)
    assert quiet == {"family": 4, "table": "nat", "id": "out.enter", "rule": f"-A OUTPUT {ENTER}"}


def test_a_rule_that_is_new_is_untouched_until_it_saw_one() -> None:
    now = counted(Texts(v4=SAVED))
    assert [item["id"] for item in untouched({}, now)] == ["out.capture"]


def test_a_rule_whose_table_was_written_anew_has_seen_packets_all_the_same() -> None:
    """A replacement sets counters back: three packets after seven are three that came since."""
    before = counted(Texts(v4=SAVED))
    now = counted(Texts(v4=SAVED.replace("[7:420]", "[3:180]")))
    assert [item["id"] for item in untouched(before, now)] == ["out.capture"]


def test_an_nft_rule_s_words_name_no_chain_by_a_flag() -> None:
    found = counted(Tables({("outbound", RETURNED): 0}))
    assert untouched(found, found) == (
        {"family": "inet", "table": "meshnet0", "id": "out.direct", "rule": f"outbound {RETURNED}"},
    )
