from __future__ import annotations

from contextlib import contextmanager

import pytest

from meshnet.kernel.run import Ran
from meshnet.lab import evidence
from meshnet.lab.evidence import Moment, counters, moment
from meshnet.model.errors import MissingToolError


class Place:
    @contextmanager
    def entered(self):
        yield


@pytest.fixture
def says(monkeypatch):
    def set_up(**texts):
        def run(argv, timeout):
            if texts.get(argv[0]) is None:
                raise MissingToolError(f"{argv[0]} is not installed")
            return Ran(tuple(argv), 0, texts[argv[0]], "")

        monkeypatch.setattr(evidence, "run", run)

    return set_up


def test_sockets_that_are_no_listeners_and_tracked_connections(says):
    says(ss="ESTAB  0 0   a:1  b:2\nLISTEN 0 5 *:80 *:*\n\n", conntrack="tcp 6 x\n")
    assert moment(Place()) == Moment(("ESTAB 0 0 a:1 b:2",), ("tcp 6 x",))


def test_a_tool_that_is_missing_is_no_failure(says):
    says(ss="ESTAB x\n")
    assert moment(Place()) == Moment(("ESTAB x",), ())
    says()
    assert moment(Place()).empty


def test_of_many_lines_the_first_tell_it(says):
    says(ss="ESTAB\n" * 30, conntrack="")
    found = moment(Place()).sockets
    assert (len(found), found[-1]) == (evidence.MOST_LINES + 1, "… and 6 more")


def test_rules_of_nft_that_met_a_packet(says):
    says(nft="a counter packets 0 bytes 0\n  b counter packets 10 bytes 600\nc\n")
    assert counters(Place(), "nftables", 4) == ("b counter packets 10 bytes 600",)


@pytest.mark.parametrize(("backend", "variant"), [("iptables-legacy", "legacy"), ("iptables-nft", "nft")])
def test_rules_of_iptables_that_met_a_packet_by_table(monkeypatch, backend, variant):
    text = "*nat\n:OUTPUT ACCEPT [9:9]\n[3:180] -A OUTPUT -j A\n[0:0] -A A\nCOMMIT\n*raw\n[1:60] -A X\nCOMMIT\n"
    asked = []

    class Tools:
        def __init__(self, name):
            asked.append(name)

        def save(self, family, counters):
            asked.append((family, counters))
            return text

    monkeypatch.setattr(evidence, "Xtables", Tools)
    assert counters(Place(), backend, 6) == ("nat: [3:180] -A OUTPUT -j A", "raw: [1:60] -A X")
    assert asked == [variant, (6, True)]
