"""Events as the kernel tells them, and what is changed and taken back; real packets are tests/netns/test_trace.py."""

from __future__ import annotations

import errno
import struct

import pytest

from meshnet.kernel import tracing
from meshnet.kernel.netlink import ERROR, attribute, message, text_attribute
from meshnet.kernel.run import Ran
from meshnet.kernel.tracing import LOG_PACKET, POLICY, RETURN, RULE, TRACE, Event, Tracing
from meshnet.model.errors import ToolError
from tests.unit.kernel.datagrams import done, play, refused, said


def number(kind, value, size=4):
    return attribute(kind, value.to_bytes(size, "big"))


def traced(sort=RULE, table="nat", chain="OUTPUT", handle=7, verdict=1, jump="", mark=0x539, packet=3, policy=1):
    inner = number(1, verdict) + (text_attribute(2, jump) if jump else b"")
    parts = text_attribute(1, table) + text_attribute(2, chain) + number(3, handle, 8) + number(4, sort)
    parts += attribute(5, inner) + number(6, packet) + number(14, mark) + number(16, policy)
    return bytes(4) + parts


def made(family=4, numbers=None):
    found = Tracing(family, "in", "out")
    found._numbers = numbers or {("nat", "OUTPUT", 7): 2}
    return found


@pytest.mark.parametrize(
    ("verdict", "jump", "name"),
    [
        (0, "", "DROP"),
        (1, "", "ACCEPT"),
        (0xFFFFFFFD, "A", "to A"),
        (0xFFFFFFFC, "A", "goto A"),
        (0xFFFFFFFB, "", "RETURN"),
        (0xFFFFFFFF, "", ""),
        (9, "", "9"),
    ],
)
def test_a_rule_that_a_packet_met(verdict, jump, name):
    found = made()._traced(TRACE, traced(verdict=verdict, jump=jump))
    assert found == Event(3, "nat", "OUTPUT", 2, name, 0x539, False)


def test_a_rule_that_came_after_the_look_has_no_place():
    assert made()._traced(TRACE, traced(handle=8)).number == -1


def test_a_chain_s_policy():
    assert made()._traced(TRACE, traced(POLICY, policy=0)) == Event(3, "nat", "OUTPUT", 0, "DROP", 0x539, False)


@pytest.mark.parametrize(
    ("kind", "body"),
    [(TRACE, traced(table=tracing.TABLE)), (TRACE, traced(RETURN)), (TRACE, bytes(4)), (LOG_PACKET, traced())],
)
def test_what_is_no_event(kind, body):
    assert made()._traced(kind, body) is None


def logged(prefix, mark=7):
    return bytes(4) + text_attribute(10, prefix) + number(2, mark)


def with_legacy_rules():
    found = made()
    found._lengths = {("mangle", "PREROUTING"): 3}
    return found


def test_a_line_of_the_legacy_log_has_the_mark_as_it_was_before():
    found = with_legacy_rules()._logged(LOG_PACKET, logged("TRACE: mangle:PREROUTING:rule:3 "))
    assert found == Event(0, "mangle", "PREROUTING", 3, "", 7, True)


@pytest.mark.parametrize(("chain", "number"), [("PREROUTING", 4), ("OUTPUT", 1)])
def test_behind_a_legacy_chain_s_last_rule_is_its_policy(chain, number):
    found = with_legacy_rules()._logged(LOG_PACKET, logged(f"TRACE: mangle:{chain}:policy:{number} "))
    assert found == Event(0, "mangle", chain, 0, "", 7, True)


@pytest.mark.parametrize("table", ["", "*nat\n:OUTPUT ACCEPT [0:0]\nCOMMIT\n"])
def test_how_many_rules_a_legacy_chain_has(monkeypatch, table):
    rules = "*mangle\n-A PREROUTING -j A\n-A A -j ACCEPT\n-A PREROUTING -j A\nCOMMIT\n"
    monkeypatch.setattr(tracing.Xtables, "save", lambda *_: table + rules)
    assert made()._legacy() == {("mangle", "PREROUTING"): 2, ("mangle", "A"): 1}


@pytest.mark.parametrize("prefix", ["", "somebody's log: ", "TRACE: mangle:PREROUTING", "mangle:PREROUTING:rule:3"])
def test_others_lines_are_left_out(prefix):
    assert made()._logged(LOG_PACKET, logged(prefix)) is None
    assert made()._logged(TRACE, logged("TRACE: mangle:PREROUTING:rule:3 ")) is None


def rule(table, chain, handle):
    return bytes(4) + text_attribute(1, table) + text_attribute(2, chain) + number(3, handle, 8)


def test_the_place_of_every_rule_by_its_handle(monkeypatch):
    play(monkeypatch, said(7, rule("a", "X", 9), rule("a", "Y", 4), rule("a", "X", 5), rule("b", "X", 1)), done())
    assert made()._handles() == {("a", "X", 9): 1, ("a", "Y", 4): 1, ("a", "X", 5): 2, ("b", "X", 1): 1}


def test_a_kernel_without_rules_of_nft(monkeypatch):
    play(monkeypatch, refused(errno.EOPNOTSUPP))
    assert made()._handles() == {}


class Kernel:
    """Sockets that answer with ``codes``, ``nft`` that ends with ``nft``, and a logger in a file."""

    def __init__(self, monkeypatch, tmp_path):
        self.nft, self.codes, self.texts, self.closed, self.queue = 0, [0, 0], [], 0, []
        self.logger = tmp_path / "nf_log"
        self.logger.write_text("NONE\n")
        monkeypatch.setattr(tracing, "Socket", lambda *_: self)
        monkeypatch.setattr(tracing, "run", self.run)
        monkeypatch.setattr(tracing, "find", lambda name: "/sbin/nft")
        monkeypatch.setattr(Tracing, "_handles", lambda _: {("nat", "OUTPUT", 7): 1})
        monkeypatch.setattr(Tracing, "_legacy", lambda _: {})

    def run(self, argv, text):
        self.texts.append(text)
        return Ran(tuple(argv), self.nft, "", "no")

    def bind(self, _):
        pass

    setsockopt = settimeout = lambda *_: None

    def send(self, _):
        self.queue.append(message(ERROR, 0, 1, struct.pack("=i", -self.codes.pop(0)) + bytes(16)))

    def recv(self, _):
        if not self.queue:
            raise TimeoutError
        return self.queue.pop(0)

    def close(self):
        self.closed += 1


@pytest.fixture
def kernel(monkeypatch, tmp_path):
    return Kernel(monkeypatch, tmp_path)


def tracer(kernel, family=4, incoming="tcp dport 80", outgoing=""):
    found = Tracing(family, incoming, outgoing)
    found._logger = str(kernel.logger)
    return found


@pytest.mark.parametrize(("family", "name"), [(4, "ip"), (6, "ip6")])
def test_what_is_changed_is_taken_back(kernel, family, name):
    with tracer(kernel, family):
        assert kernel.logger.read_text() == "nfnetlink_log"
        assert "hook prerouting" in kernel.texts[0] and "tcp dport 80 meta nftrace set 1" in kernel.texts[0]
        assert "hook output" not in kernel.texts[0]
    assert kernel.logger.read_text().strip() == "NONE"
    assert kernel.texts[-1] == f"add table {name} meshnet_trace\ndelete table {name} meshnet_trace\n"
    assert kernel.closed == 2


def test_another_s_logger_is_put_back(kernel):
    kernel.logger.write_text("nf_log_ipv4\n")
    with tracer(kernel):
        pass
    assert kernel.logger.read_text() == "nf_log_ipv4"


def test_a_namespace_without_a_logger(kernel):
    kernel.logger.unlink()
    with tracer(kernel):
        pass
    assert not kernel.logger.exists()


def test_whatever_fails_is_taken_back_too(kernel):
    kernel.nft = 1
    with pytest.raises(ToolError, match="nft refused"), tracer(kernel):
        pytest.fail("entered")
    assert kernel.logger.read_text().strip() == "NONE"
    assert kernel.closed == 1, "the log is opened last"


def test_a_killed_trace_s_logger_is_not_taken_for_the_namespace_s_own(kernel, monkeypatch):
    kernel.logger.write_text("nfnetlink_log\n")
    left = "table ip meshnet_trace {\n\tchain logger_was_nf_log_ipv4 {\n\t}\n}\n"
    monkeypatch.setattr(tracing, "run", lambda argv, text="": Ran(tuple(argv), 0, left if "list" in argv else "", ""))
    with tracer(kernel):
        pass
    assert kernel.logger.read_text() == "nf_log_ipv4"


def test_another_tracer_has_the_log(kernel):
    kernel.codes = [0, errno.EBUSY]
    with pytest.raises(ToolError) as error, tracer(kernel):
        pytest.fail("entered")
    assert "another tracer" in error.value.hint
    assert kernel.logger.read_text().strip() == "NONE"


def test_events_come_from_both_accounts(kernel):
    with tracer(kernel) as found:
        kernel.queue = [message(TRACE, 0, 0, traced()) + message(TRACE, 0, 0, traced(handle=9))]
        assert [event.number for event in found.events(0.1)] == [1, -1]
        assert list(found.events(0.1)) == []
