from __future__ import annotations

import pytest

from meshnet.model.rule import (
    Call,
    Note,
    Nothing,
    PutConnectionMark,
    PutMark,
    Reject,
    RestoreConnectionMark,
    SaveConnectionMark,
    ToSocket,
    Track,
    Translate,
    UnknownTarget,
)
from meshnet.model.ruleset import HeldRule
from tests.unit.parse.rules import rule

TARGETS = [
    ("-j B", Call("B")),
    ("-g B", Call("B", goto=True)),
    ("-j MISSING", Call("MISSING")),
    ("", Nothing()),
    ("-j REJECT --reject-with tcp-reset", Reject("tcp-reset")),
    ("-j MARK --set-mark 0x10/0x1", PutMark(0x10, 0x11)),
    ("-j MARK --set-xmark 0x539/0xfff", PutMark(0x539, 0xFFF)),
    ("-j MARK --and-mark 0xff", PutMark(0, 0xFFFFFF00)),
    ("-j MARK --or-mark 0x4", PutMark(4, 4)),
    ("-j MARK --xor-mark 0x4", PutMark(4, 0)),
    ("-j CONNMARK --save-mark", SaveConnectionMark()),
    ("-j CONNMARK --save-mark --mask 0xff", SaveConnectionMark(255, 255)),
    ("-j CONNMARK --restore-mark --nfmask 0xf --ctmask 0xff", RestoreConnectionMark(15, 255)),
    ("-j CONNMARK --set-xmark 0x1/0x1", PutConnectionMark(1, 1)),
    ("-j CT --zone 2", Track(original_zone=2, reply_zone=2)),
    ("-j CT --zone-reply 3", Track(reply_zone=3)),
    ("-j CT --notrack", Track(notrack=True)),
    ("-j NOTRACK", Track(notrack=True)),
    ("-j REDIRECT --to-port 15053", Translate("REDIRECT", ports=(15053, 15053))),
    ("-j REDIRECT", Translate("REDIRECT")),
    ("-j DNAT --to-destination 10.0.0.1:80-90", Translate("DNAT", 10 << 24 | 1, 10 << 24 | 1, (80, 90))),
    ("-j DNAT --to-destination :8080", Translate("DNAT", ports=(8080, 8080))),
    ("-j SNAT --to-source 10.0.0.1-10.0.0.9", Translate("SNAT", 10 << 24 | 1, 10 << 24 | 9)),
    ("-j MASQUERADE --random", Translate("MASQUERADE", flags=("--random",))),
    ("-j TPROXY --tproxy-mark 1337/0xffffffff --on-port 15006", ToSocket(15006, 0, 1337, 0xFFFFFFFF)),
    ('-j LOG --log-prefix "-> "', Note(("LOG", "--log-prefix", "-> "))),
    ("-j NFLOG --nflog-group 5", Note(("NFLOG", "--nflog-group", "5"))),
    ("-j NFQUEUE --queue-num 1", UnknownTarget(("NFQUEUE", "--queue-num", "1"))),
    ("-j MARK --set-mark 1 --set-xmark 2", UnknownTarget(("MARK", "--set-mark", "1", "--set-xmark", "2"))),
]


@pytest.mark.parametrize(("words", "expected"), TARGETS, ids=lambda item: item if isinstance(item, str) else "")
def test_targets(words, expected) -> None:
    assert rule(words) == HeldRule((), expected)


def test_dnat_writes_ipv6_in_brackets() -> None:
    made = rule("-j DNAT --to-destination [fd00::1]:80", 6)
    assert made == HeldRule((), Translate("DNAT", 0xFD << 120 | 1, 0xFD << 120 | 1, (80, 80)))
