"""How far a statement goes, and of which family it makes a rule; test_nft_phrases has what becomes of whole rules."""

from __future__ import annotations

import pytest

from meshnet.model.rule import Note, PutMark, RestoreConnectionMark, SaveConnectionMark, ToSocket, Track, Translate
from meshnet.parse.nft_statements import statement
from meshnet.parse.nft_values import Unclear
from meshnet.parse.nft_words import Words


def done(text: str):
    """The action, the words that are left, and the families that it named."""
    words, families = Words(text.split(), {}), []
    return statement(words, families.append), words.left, families


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("notrack accept", (Track(notrack=True), 1, [])),
        ("log prefix a group 3 drop", (Note(("log",)), 1, [])),
        ("meta nftrace set 1 accept", (Note(("nftrace",)), 1, [])),
        ("meta mark set 0x539 accept", (PutMark(0x539), 1, [])),
        ("meta mark set meta mark & 0xff | 0x100", (PutMark(0x100, 0xFFFFFF00), 0, [])),
        ("meta mark set ct mark", (RestoreConnectionMark(), 0, [])),
        ("ct mark set meta mark & 0xff", (SaveConnectionMark(0xFF, 0xFFFFFFFF), 0, [])),
        ("tproxy ip to :15006 accept", (ToSocket(15006, goes_on=True), 1, [4])),
        ("tproxy ip6 to [::1]:15006 accept", (ToSocket(15006, 1, goes_on=True), 1, [6, 6])),
        ("redirect to :1-9 random", (Translate("REDIRECT", ports=(1, 9), flags=("--random",)), 0, [])),
        ("dnat ip to 127.0.0.1:53", (Translate("DNAT", 0x7F000001, 0x7F000001, (53, 53)), 0, [4, 4])),
        ("snat to fd00::1", (Translate("SNAT", 0xFD << 120 | 1, 0xFD << 120 | 1), 0, [6])),
        ("tcp dport 80", (None, 3, [])),
        ("meta mark 1", (None, 3, [])),
    ],
)
def test_a_statement(text, expected) -> None:
    assert done(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "meta mark set meta mark | 1 & 2",
        "meta mark set ct mark | 1",
        "log flags all",
        "reject with nothing",
        "tproxy to :1-9",
        "dnat",
        "redirect to 127.0.0.1",
        "dnat to 10.0.0.1-10.0.0.9",
    ],
)
def test_what_it_does_is_not_known(text) -> None:
    with pytest.raises(Unclear):
        done(text)
