"""From packets to pictures, with conversations that were written by hand."""

from __future__ import annotations

import struct
from xml.etree import ElementTree

from meshnet.lab.capture import Frame
from meshnet.lab.packets import ACK, PSH, RST, SYN, tcp_packet
from meshnet.lab.page import page
from meshnet.lab.picture import picture
from meshnet.lab.story import Arrow, Told, story
from meshnet.lab.topology import ADDRESSES

CLIENT, POD = ADDRESSES["client"][4], ADDRESSES["pod"][4]
TOLD = Told((1386, 1387))


def packet(
    at: int,
    interface: str,
    source: tuple[str, int],
    target: tuple[str, int],
    flags: int,
    *,
    out: bool = False,
    mss: int = 0,
) -> Frame:
    data = b"x" if flags & PSH else b""
    made = bytearray(tcp_packet(source[0], target[0], (source[1], target[1]), (at, 0), data))
    made[33] = flags
    if mss:
        made[32] = 6 << 4
        made += struct.pack("!2BH", 2, 4, mss)
        made[2:4] = struct.pack("!H", len(made))
    return Frame(interface, at * 1_000_000, out, bytes(12) + b"\x08\x00" + bytes(made))


def ends(arrows: list[Arrow]) -> list[tuple[str, str, str, str]]:
    return [(arrow.kind, arrow.source, arrow.target, arrow.interface) for arrow in arrows]


CALL = [
    packet(1, "eth0", (CLIENT, 4000), (POD, 80), SYN),
    packet(2, "eth0", (POD, 80), (CLIENT, 4000), SYN | ACK, out=True, mss=1386),
]


def test_a_captured_call_with_the_source_kept() -> None:
    frames = [
        *CALL,
        packet(3, "lo", (CLIENT, 4002), (POD, 80), SYN),
        packet(4, "lo", (POD, 80), (CLIENT, 4002), SYN | ACK, mss=1460),
        packet(5, "lo", (CLIENT, 4002), (POD, 80), ACK | PSH),
        packet(6, "eth0", (POD, 80), (CLIENT, 4000), ACK | PSH, out=True),
    ]
    arrows, left_out = story(frames, TOLD)
    assert left_out == 0
    assert ends(arrows) == [
        ("SYN", "client", "sidecar", "eth0"),
        ("SYN-ACK", "sidecar", "client", "eth0"),
        ("SYN", "sidecar", "application", "lo"),
        ("SYN-ACK", "application", "sidecar", "lo"),
        ("data", "sidecar", "application", "lo"),
        ("data", "sidecar", "client", "eth0"),
    ]
    assert not any(arrow.wrong for arrow in arrows)


def test_an_answer_that_leaves_by_eth0_is_seen() -> None:
    frames = [
        *CALL,
        packet(3, "lo", (CLIENT, 4002), (POD, 80), SYN),
        packet(4, "eth0", (POD, 80), (CLIENT, 4002), SYN | ACK, out=True, mss=1460),
        packet(5, "eth0", (CLIENT, 4002), (POD, 80), RST),
    ]
    arrows, _ = story(frames, TOLD)
    assert [arrow.wrong for arrow in arrows[:3]] == ["", "", ""]
    assert "leaves by eth0" in arrows[3].wrong and arrows[3].source == "application"
    assert "knows nothing" in arrows[4].wrong


def test_a_loop_is_seen_and_told_short() -> None:
    frames = list(CALL)
    for number in range(200):
        frames.append(packet(10 + 2 * number, "lo", (CLIENT, 5000 + number), (POD, 80), SYN))
        frames.append(packet(11 + 2 * number, "lo", (POD, 80), (CLIENT, 5000 + number), SYN | ACK, mss=1386))
    arrows, left_out = story(frames, TOLD)
    assert left_out == 402 - len(arrows) > 300
    assert arrows[2].wrong == "the sidecar calls itself"
    assert (arrows[2].source, arrows[2].target) == ("sidecar", "sidecar")


def test_a_call_that_nobody_answers_is_said() -> None:
    arrows, _ = story([*CALL, packet(3, "lo", (CLIENT, 4002), ("127.0.0.1", 15006), SYN)], TOLD)
    assert arrows[2].wrong == "the sidecar calls itself, and no answer comes"


def test_the_pods_own_call_is_the_applications() -> None:
    frames = [
        packet(1, "lo", (POD, 4000), (POD, 80), SYN),
        packet(2, "lo", (POD, 80), (POD, 4000), SYN | ACK, mss=1460),
    ]
    assert ends(story(frames, TOLD)[0]) == [
        ("SYN", "application", "application", "lo"),
        ("SYN-ACK", "application", "application", "lo"),
    ]


def test_without_packets_there_is_no_story() -> None:
    assert story([], TOLD) == ([], 0)


def data(arrows: list[Arrow]) -> list[dict[str, object]]:
    return [
        {
            "at": a.at,
            "from": a.source,
            "to": a.target,
            "interface": a.interface,
            "kind": a.kind,
            "text": a.text,
            "wrong": a.wrong,
        }
        for a in arrows
    ]


def test_a_picture_is_well_formed_and_has_each_packet() -> None:
    arrows, _ = story([*CALL, packet(3, "lo", (CLIENT, 4002), ("127.0.0.1", 15006), SYN)], TOLD)
    drawn = ElementTree.fromstring(picture(data(arrows), 7, "a <title> & more"))
    words = ["".join(item.itertext()) for item in drawn.iter("text")]
    assert sum("SYN" in word for word in words) == 3
    assert any("the sidecar calls itself" in word for word in words)


def test_a_page_escapes_what_it_shows_and_asks_for_nothing() -> None:
    arrows, _ = story(CALL, TOLD)
    record = {
        "name": "<way>", "expected": {"a": "x"}, "predicted": {}, "measured": {"a": "<y>"}, "ok": False, "trouble": "",
        "exit_code": 0, "seconds": 1.0, "packets": 2, "arrows": data(arrows), "left_out": 0, "sockets": ["<s>"],
        "tracked": [], "counters": [], "logs": {}, "sidecar": {"kind": "none"},
    }  # fmt: skip
    item = {
        "name": "n", "about": "<b>", "symptom": "s", "cure": "", "ok": False, "expected": {}, "predicted": {},
        "measured": {}, "rows": [record],
    }  # fmt: skip
    text = page({"ok": False, "scenarios": [item]})
    for word in ("<way>", "<y>", "<s>", "<b>bold", "http://", "https://", "<script"):
        assert word not in text
    assert "&lt;y&gt;" in text and "not as expected" in text
