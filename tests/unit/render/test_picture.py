from __future__ import annotations

from xml.etree import ElementTree

import pytest

from meshnet.model.rule import Comment, Drop, ProtocolIs, UnknownMatch
from meshnet.model.ruleset import HeldRule
from meshnet.model.trace import Hop, Trace
from meshnet.model.value import replace
from meshnet.render.picture import MOST_LETTERS, _wrapped, picture

SVG = "{http://www.w3.org/2000/svg}"
TRACE = Trace(4, (), "delivered", "goes to the application", "direct", 0, 1, 0, 80, 0)


def drawn(*hops, end="direct: it is delivered", steps=1, **more):
    trace = replace(TRACE, hops=hops, **more)
    return ElementTree.fromstring(
        picture("a > b", [(f"step {n}" if steps > 1 else "", trace) for n in range(steps)], end)
    )


def texts(root):
    return [item.text for item in root.iter(f"{SVG}text")]


def hop(hook="PREROUTING", rule=None, **more):
    return replace(Hop(hook, "nat", "A", 3, rule, "drop", 0), **more)


def test_a_hook_is_a_card_and_the_end_another():
    root = drawn(hop(), hop(), hop("INPUT"))
    assert len(list(root.iter(f"{SVG}rect"))) == 1 + 3
    assert len([item for item in root.iter(f"{SVG}path") if "marker-end" in item.attrib]) == 2


def test_without_a_hop_there_is_the_end():
    root = drawn()
    assert texts(root)[0] == "a > b" and texts(root)[-1] == "direct: it is delivered"
    assert len(list(root.iter(f"{SVG}rect"))) == 2


def test_a_rule_has_its_place_its_mark_and_its_words_without_the_comment():
    rule = HeldRule((ProtocolIs(6), Comment("meshnet:x")), Drop())
    found = texts(drawn(hop(rule=rule, mark=0x539)))
    assert "nat A:3  mark 0x539" in found and "  -p tcp -j DROP" in found
    assert not any("meshnet:x" in text for text in found)


def test_what_stands_in_a_rule_can_t_end_the_picture():
    rule = HeldRule((UnknownMatch(("-m", "x", '<&">', "\x1b[1m")),), Drop())
    found = texts(drawn(hop(rule=rule)))
    assert any('<&">' in text.replace("\\", "") for text in found), found


def test_a_conversation_s_packets_are_numbered():
    assert [text for text in texts(drawn(steps=2)) if text.endswith(("step 0", "step 1"))] == ["1. step 0", "2. step 1"]


@pytest.mark.parametrize(("end", "bad"), [("direct: x", False), ("loop: x", True), ("inbound-proxy: x", False)])
def test_a_bad_end_is_red(end, bad):
    colour = list(drawn(end=end).iter(f"{SVG}text"))[-1].attrib["fill"]
    assert (colour == "#c53030") is bad


def test_long_texts_are_broken_between_words():
    lines = _wrapped("word " * 30)
    assert all(len(line) <= MOST_LETTERS for line in lines)
    assert _wrapped("x" * 99) == ["x" * 99]
    assert _wrapped("") == [""]


def test_a_long_end_makes_the_picture_wider():
    assert float(drawn(end="x" * 300).attrib["width"]) > float(drawn().attrib["width"])
