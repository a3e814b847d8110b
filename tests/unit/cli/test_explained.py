from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from meshnet.cli import explained
from meshnet.cli.explained import (
    SENTENCES,
    flow_data,
    rule_words,
    sentence,
    story_data,
    story_text,
    trace_data,
    trace_lines,
    trace_text,
)
from meshnet.cli.simulated import Subject, of_document, of_text
from meshnet.model import flow
from meshnet.model.flow import Flow
from meshnet.model.story import Step, Story
from meshnet.model.trace import Hop, Trace
from meshnet.model.value import replace
from meshnet.simulate.walk import Pod
from meshnet.spec.load import load_text
from tests.unit.cli.commands import HEAD
from tests.unit.simulate.pods import CLIENT, CLIENT6, POD, POD6, host, inward, number, table, walk

CAPTURE = table(
    "nat",
    ":IN - [0:0]",
    "-A PREROUTING -p tcp -m comment --comment somebody -j IN",
    "-A IN -p tcp --dport 81 -j DROP",
    "-A IN -p tcp -j REDIRECT --to-ports 15006",
)
NOBODY = Subject("saved", ())


def trace(family: int = 4, **more: Any) -> Trace:
    found = Trace(family, (), "delivered", "goes to the application", "direct", 0, 1, 0, 80, 0)  # type: ignore[arg-type]
    return replace(found, **more)


def subject(rules: str, family: int = 4) -> Subject:
    return of_text(rules, "saved", family)  # type: ignore[arg-type]


def test_there_is_a_sentence_for_every_end() -> None:
    """The ends are a type for the checker alone, so that they are taken from its text."""
    text = Path(flow.__file__ or "").read_text()
    words = text.partition("Disposition = Literal[")[2].partition("]")[0]
    assert set(re.findall('"(.+?)"', words)) == set(SENTENCES)


def test_a_rule_s_words_have_no_comment_in_them() -> None:
    (held,) = subject(CAPTURE).rules
    first, *_ = held.table("nat").chain("PREROUTING").rules  # type: ignore[union-attr]
    assert rule_words(first, 4) == "-p tcp -j IN"
    assert rule_words(None, 4) == ""


def test_a_line_for_each_hop() -> None:
    found = walk(CAPTURE, inward())
    head, *lines = trace_lines(found, subject(CAPTURE))
    assert head.split() == ["hook", "table", "rule", "words", "verdict", "mark", "from"]
    assert any("PREROUTING:1" in line and "-p tcp -j IN" in line for line in lines)
    assert any("IN:2" in line and "--to-ports 15006" in line for line in lines)
    assert not any("--dport 81" in line for line in lines)


def test_no_hop_is_said_too() -> None:
    assert trace_lines(trace(), NOBODY) == ["no rule fits"]


def test_a_long_rule_is_cut() -> None:
    ports = ",".join(str(20000 + number) for number in range(15))
    rules = table(
        "nat", f"-A PREROUTING -p tcp -m multiport ! --dports {ports} -m mark ! --mark 0x1234/0xffff -j ACCEPT"
    )
    (line,) = (line for line in trace_lines(walk(rules, inward()), subject(rules)) if "PREROUTING:1" in line)
    assert "…" in line
    assert "--mark" not in line


def test_a_rule_of_a_spec_leads_to_its_line() -> None:
    document = load_text(f"{HEAD}families: [ipv4]\ninbound:\n  mode: redirect\n  excludePorts: [22]\n", "pod.yaml")
    found = of_document(document, (4,))
    excluded = walk_of(found, inward(port=22))
    data = trace_data(excluded, found)
    origins = {(hop["origin"], hop["place"]) for hop in data["hops"] if "origin" in hop}
    assert any(place == "pod.yaml:6" for _, place in origins), origins
    assert all("comment" in hop for hop in data["hops"] if "origin" in hop)
    assert any("pod.yaml:6" in line for line in trace_lines(excluded, found))


def walk_of(found: Subject, sent: Flow) -> Trace:
    return Pod(found.rules, host()).walk(sent)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"captured": True, "port": 15006, "disposition": "inbound-proxy"}, "the inbound proxy gets it (port 15006);"),
        ({"captured": False}, "nobody takes it;"),
        ({"captured": True, "end": "dropped", "disposition": "dropped"}, "it is dropped;"),
    ],
)
def test_the_port_is_said_where_somebody_was_led_to_it(more: dict[str, Any], said: str) -> None:
    assert said in sentence(trace(**more))


@pytest.mark.parametrize(("family", "source", "shown"), [(4, CLIENT, CLIENT), (6, CLIENT6, CLIENT6)])
def test_the_application_sees_the_source_of_what_reaches_it_directly(family: int, source: str, shown: str) -> None:
    direct = trace(family, source=number(source))
    assert trace_data(direct, NOBODY)["app_sees"] == shown
    assert trace_data(replace(direct, captured=True), NOBODY)["app_sees"] is None
    assert trace_data(replace(direct, end="dropped"), NOBODY)["app_sees"] is None


def test_a_hop_of_the_kernel_s_own_has_no_rule() -> None:
    hop = Hop("PREROUTING", "", "routing", 0, None, "local", 0x539)
    found = trace(hops=(hop,))
    (data,) = trace_data(found, NOBODY)["hops"]
    assert (data["rule"], data["number"], data["mark"]) == ("", 0, 0x539)
    assert "comment" not in data and "origin" not in data
    assert trace_lines(found, NOBODY)[1].split() == ["PREROUTING", "routing", "local", "0x539"]


def test_a_story_s_steps_are_numbered_and_its_end_stands_last() -> None:
    steps = (Step("the client's SYN", trace()), Step("the answer", trace(reason="leaves by eth0")))
    story = Story(steps, "direct", "the application answers", number(CLIENT), 80)
    text = story_text(story, NOBODY)
    assert text.startswith("1. the client's SYN\n   no rule fits\n   => goes to the application\n\n2. the answer\n")
    assert text.endswith("direct: the application answers")
    data = story_data(story, NOBODY)
    assert (data["app_sees"], [step["title"] for step in data["steps"]]) == (
        CLIENT,
        ["the client's SYN", "the answer"],
    )


def test_a_story_in_which_the_application_gets_nothing() -> None:
    story = Story((Step("x", trace(6)),), "dropped", "lost")
    assert story_data(story, NOBODY)["app_sees"] is None


def test_a_trace_s_text_begins_with_the_packet() -> None:
    sent = inward(POD6, source=CLIENT6)
    lines = trace_text(sent, walk("", sent), NOBODY).splitlines()
    assert lines[0] == str(sent)
    assert lines[-1].startswith("direct: ")


def test_a_flow_in_the_words_of_the_flags() -> None:
    data = flow_data(Flow("out", 6, "udp", number(POD6), number(CLIENT6), 53, "eth0", 7, 8, 1, 5, (9,)))
    assert (data["src"], data["dst"], data["proto"], data["groups"]) == (POD6, CLIENT6, "udp", [9])
    assert (data["uid"], data["gid"], data["sender_mark"], data["sport"], data["dport"]) == (7, 8, 1, 5, 53)
    assert flow_data(inward(POD))["uid"] is None


def test_rules_are_cut_at_a_width_that_a_terminal_has() -> None:
    assert explained.WIDEST_RULE <= 120
