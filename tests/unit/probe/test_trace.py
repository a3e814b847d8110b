from __future__ import annotations

from meshnet.kernel.tracing import Event
from meshnet.model.cidr import read_address
from meshnet.model.flow import Flow
from meshnet.parse.ruleset import read
from meshnet.probe.trace import expression, predicted, seen
from tests.unit.simulate.pods import inward, table, walk

RULES = table("mangle", "-A PREROUTING -j MARK --set-mark 7", "-A PREROUTING -p tcp -j ACCEPT")


def event(number: int, mark: int, *, before: bool, chain: str = "PREROUTING") -> Event:
    return Event(0, "mangle", chain, number, "", mark, before)


def test_the_legacy_log_has_each_mark_one_line_late_and_chains_one_rule_more() -> None:
    told = [
        event(1, 0, before=True),
        event(2, 7, before=True),
        event(3, 7, before=True),
        event(1, 7, before=True, chain="INPUT"),
    ]
    assert [(met.number, met.mark) for met in seen(told, read(RULES, 4))] == [(1, 7), (2, 7)]
    assert [(met.number, met.mark) for met in seen(told[:2], read(RULES, 4))] == [(1, 7), (2, None)]


def test_nft_has_the_mark_from_after_the_rule_and_policies_without_a_number() -> None:
    told = [event(1, 7, before=False), event(0, 7, before=False), event(-1, 7, before=False)]
    assert [(met.number, met.mark) for met in seen(told, read(RULES, 4))] == [(1, 7)]


def test_a_prediction_has_the_same_form() -> None:
    assert [met.place for met in predicted(walk(RULES, inward()))] == [
        ("mangle", "PREROUTING", 1),
        ("mangle", "PREROUTING", 2),
    ]


def test_one_packet_in_nft_s_words() -> None:
    ends = [read_address(text)[1] for text in ("fd00::1", "fd00::2")]
    flow = Flow("in", 6, "udp", *ends, 53, "eth0", source_port=4000)
    assert expression(flow) == "ip6 saddr fd00::1 ip6 daddr fd00::2 udp sport 4000 udp dport 53"
    assert "tcp flags & (syn | ack) == syn" in expression(Flow("in", 6, "tcp", *ends, 53, "eth0"))
