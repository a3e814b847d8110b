from __future__ import annotations

from xml.etree import ElementTree

from meshnet.lab.picture import picture
from meshnet.lab.story import MOST, STEP

PLAIN = {"kind": "data", "at": 1.0, "interface": "eth0", "from": "client", "to": "sidecar", "text": "SYN", "wrong": ""}


def drawn(*arrows, left_out=0, title="a title"):
    return ElementTree.fromstring(picture([PLAIN | arrow for arrow in arrows], left_out, title))


def texts(root):
    return ["".join(item.itertext()) for item in root.iter() if item.tag.endswith("text")]


def test_an_arrow_a_packet_with_its_words():
    root = drawn({}, {"from": "sidecar", "to": "client", "text": "SYN-ACK"})
    assert any("SYN" in text for text in texts(root)) and any("SYN-ACK" in text for text in texts(root))


def test_what_is_wrong_says_why():
    assert any("it met itself" in text for text in texts(drawn({"wrong": "it met itself"})))
    assert not any("wrong" in item.attrib.get("class", "") for item in drawn({}).iter())


def test_a_step_is_a_heading_between_packets():
    assert any("a second call" in text for text in texts(drawn({}, {"kind": STEP, "text": "a second call"}, {})))


def test_what_was_left_out_is_counted():
    assert any("77" in text for text in texts(drawn(*[{}] * (MOST + 1), left_out=77)))


def test_what_stands_in_a_packet_can_t_end_the_picture():
    evil = "</svg><script>"
    root = drawn({"text": evil, "wrong": evil}, title=evil)
    assert any(evil in text for text in texts(root))
