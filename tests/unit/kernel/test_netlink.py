from __future__ import annotations

import errno
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meshnet.kernel import netlink
from meshnet.kernel.netlink import Netlink, attribute, attributes, message, messages
from meshnet.model.errors import ToolError
from tests.unit.kernel.datagrams import done, play, refused, said

CHANGED = 2 | netlink.INTERRUPTED


def dump() -> list[bytes]:
    with Netlink(netlink.ROUTE, "routes") as channel:
        return channel.dump(26, b"question")


def test_a_list_may_come_in_many_pieces(monkeypatch):
    pieces = (said(24, b"one1", b"two"), said(24, b"three333"), done())
    script = play(monkeypatch, *pieces, *pieces)
    assert dump() == [b"one1", b"two", b"three333"]
    assert script.asked == [(26, b"question")] * 2
    assert script.closed


def test_a_list_in_one_piece_is_asked_for_once(monkeypatch):
    script = play(monkeypatch, said(24, b"one1", b"two"), done())
    assert dump() == [b"one1", b"two"]
    assert script.asked == [(26, b"question")]


def test_a_list_in_pieces_counts_when_it_came_twice_alike(monkeypatch):
    """Between two pieces an earlier rule went away, and the one at the seam was left out, unsaid."""
    whole = (said(24, b"one1", b"two2"), said(24, b"thr3"), done())
    script = play(monkeypatch, said(24, b"one1", b"two2"), said(24, b"four"), done(), *whole, *whole)
    assert dump() == [b"one1", b"two2", b"thr3"]
    assert len(script.asked) == 3


@pytest.mark.parametrize("where", ["in a piece", "at the end"])
def test_a_list_that_changed_meanwhile_is_asked_for_anew(monkeypatch, where):
    first = (said(24, b"old1", flags=CHANGED), done()) if where == "in a piece" else (said(24, b"old1"), done(CHANGED))
    script = play(monkeypatch, *first, said(24, b"new1"), done())
    assert dump() == [b"new1"]
    assert len(script.asked) == 2


def test_a_list_that_never_stands_still_is_an_error(monkeypatch):
    script = play(monkeypatch, *[done(CHANGED)] * netlink.TRIES)
    with pytest.raises(ToolError, match="routes change faster"):
        dump()
    assert not script.answers


def test_answers_to_somebody_else_s_question_are_passed_over(monkeypatch):
    play(monkeypatch, lambda number: said(24, b"theirs00")(number + 7), said(24, b"ours"), done())
    assert dump() == [b"ours"]


@pytest.mark.parametrize("answer", [refused(errno.EPERM), done(code=errno.EPERM)], ids=["at once", "at the end"])
def test_a_refusal_bears_the_kernel_s_number(monkeypatch, answer):
    play(monkeypatch, answer)
    with pytest.raises(PermissionError):
        dump()


def test_no_answer_is_an_error(monkeypatch):
    play(monkeypatch)
    with pytest.raises(ToolError, match="routes: no answer"):
        dump()


def test_an_answer_longer_than_the_buffer_is_an_error(monkeypatch):
    play(monkeypatch, said(24, b"half"), flags=netlink.MSG_TRUNC)
    with pytest.raises(ToolError, match="longer than"):
        dump()


@pytest.mark.parametrize("length", [1, 15, 16, 19])
def test_half_a_message_is_an_error(length):
    with pytest.raises(ToolError, match="half an answer"):
        messages(message(24, 2, 1, b"four")[:length], "routes")


def test_a_message_shorter_than_its_own_header_is_an_error():
    with pytest.raises(ToolError, match="half an answer"):
        messages(struct.pack("=IHHII", 8, 24, 2, 1, 0), "routes")


@pytest.mark.parametrize(("answer", "code"), [(refused(0), 0), (refused(errno.EBUSY), errno.EBUSY)])
def test_the_verdict_on_a_batch(monkeypatch, answer, code):
    play(monkeypatch, answer)
    with Netlink(netlink.NETFILTER, "table nat") as channel:
        assert channel.carry_out(message(1, 5, 0, b"")) == code


def test_an_answer_that_is_no_verdict_is_an_error(monkeypatch):
    play(monkeypatch, said(24, b"four"))
    with Netlink(netlink.NETFILTER, "table nat") as channel, pytest.raises(ToolError, match="kind 24"):
        channel.carry_out(message(1, 5, 0, b""))


@given(st.dictionaries(st.integers(1, netlink.KIND), st.binary(max_size=40), max_size=6), st.binary(max_size=12))
def test_attributes_come_back(items, header):
    body = header + b"".join(attribute(kind, item) for kind, item in items.items())
    assert attributes(body, len(header)) == items


def test_an_attribute_s_flags_are_no_part_of_its_type():
    assert attributes(attribute(0x8000 | 12, b"nest"), 0) == {12: b"nest"}


@given(st.binary(max_size=60))
def test_no_bytes_upset_the_reader_of_attributes(body):
    assert sum(map(len, attributes(body, 0).values())) <= len(body)
