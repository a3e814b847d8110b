from __future__ import annotations

import pytest

from meshnet.kernel import legacy_entry
from meshnet.kernel.legacy_entry import Head
from meshnet.model.errors import ToolError


def made(family, *options):
    head = Head(family)
    for option, word, *negated in options:
        head.set(option, word, bool(negated))
    return head.pack(16, 40)


def test_the_sizes_are_the_kernels():
    assert legacy_entry.SIZE == {4: 112, 6: 168}
    assert len(made(4)) == 112
    assert len(made(6)) == 168
    assert legacy_entry.STANDARD.size == 40


@pytest.mark.parametrize(
    ("family", "options", "text"),
    [
        (4, [], ""),
        (4, [("-s", "10.0.0.0/8"), ("-d", "127.0.0.1", "!")], " -s 10.0.0.0/8 ! -d 127.0.0.1/32"),
        (4, [("-d", "0.0.0.0/0")], ""),
        (4, [("-s", "10.1.2.3/8")], " -s 10.0.0.0/8"),
        (4, [("-s", "10.0.0.1/255.0.0.255")], " -s 10.0.0.1/255.0.0.255"),
        (6, [("-s", "fd00::/8", "!")], " ! -s fd00::/8"),
        (6, [("-d", "::1")], " -d ::1/128"),
        (4, [("-i", "eth0"), ("-o", "veth+", "!")], " -i eth0 ! -o veth+"),
        (6, [("-i", "abcdefghijklmno"), ("-p", "tcp", "!")], " -i abcdefghijklmno ! -p tcp"),
        (4, [("-p", "17")], " -p udp"),
        (4, [("-p", "99")], " -p 99"),
        (6, [("-p", "icmpv6")], " -p ipv6-icmp"),
        (4, [("-p", "all"), ("-i", "+")], ""),
    ],
)
def test_words_to_bytes_to_words(family, options, text):
    assert legacy_entry.head_text(family, made(family, *options)) == text


def test_ipv6_masks_whole_letters_and_looks_at_the_protocol():
    raw = made(6, ("-i", "eth0"), ("-p", "tcp", "!"))
    fields = legacy_entry.HEAD[6].unpack_from(raw)
    assert fields[6].startswith(b"\xff" * 5 + b"\0")
    assert fields[10] & legacy_entry.PROTOCOL_FLAG


def test_offsets_and_counters():
    raw = made(4)
    assert legacy_entry.target_offset(4, raw) == 112 + 16
    assert legacy_entry.counters_of(4, raw) == (0, 0)
    head = Head(6)
    head.goto = True
    assert legacy_entry.is_goto(6, head.pack())
    assert not legacy_entry.is_goto(4, raw)


@pytest.mark.parametrize(
    ("option", "word"),
    [("-p", "nosuch"), ("-p", "256"), ("-s", "::1"), ("-s", "10.0.0.0/33"), ("-d", "host"), ("-i", "x" * 16)],
)
def test_words_that_are_none(option, word):
    with pytest.raises(ToolError):
        made(4, (option, word))


def test_not_any_protocol_is_refused():
    with pytest.raises(ToolError, match="matches nothing"):
        made(4, ("-p", "all", "!"))
