"""How conversations end, and what is said of it; the 74 measured ones are in test_scenario."""

from __future__ import annotations

import pytest

from meshnet.model.host import Listener
from meshnet.model.story import Conduct
from meshnet.model.value import replace
from meshnet.simulate.conversation import converse
from tests.unit.simulate.pods import CLIENT, POD, REMOTE, host, inward, link, number, outward, pod, table

SIDECAR = (
    Listener("application", "tcp", 80),
    Listener("sidecar", "tcp", 15006, transparent=True, uid=1337, gid=1337),
    Listener("sidecar", "tcp", 15001, uid=1337, gid=1337),
)
WORLD = host(listeners=SIDECAR, assume=False)
IN = "-A PREROUTING -p tcp -j REDIRECT --to-ports 15006"
OUT = "-A OUTPUT -p tcp -m owner ! --uid-owner 1337 -j REDIRECT --to-ports 15001"
KEEPS = Conduct(spoofs=True, mark=0x539)
BINDS = Conduct(bind=number("127.0.0.6"))


def test_without_a_sidecar_the_application_sees_its_client() -> None:
    story = converse(pod("", on=WORLD), inward(), BINDS)
    assert (story.disposition, story.app_sees) == ("direct", number(CLIENT))
    assert story.sentence == f"the application gets the connection, and sees {CLIENT}"
    assert [step.trace.end for step in story.steps] == ["delivered", "left", "delivered", "left"]


def test_a_sidecar_that_binds_an_address_of_its_own() -> None:
    story = converse(pod(table("nat", IN), on=WORLD), inward(), BINDS)
    assert (story.disposition, story.app_sees, story.port) == ("inbound-proxy", number("127.0.0.6"), 15006)


def test_an_answer_that_leaves_is_lost_and_the_interface_is_named() -> None:
    story = converse(pod(table("nat", IN), on=WORLD), inward(), KEEPS)
    assert (story.disposition, story.app_sees) == ("lost-reply", None)
    assert story.sentence == "the answer of the application never reaches the sidecar: it leaves by eth0"


def test_marks_saved_and_given_back_bring_it_home() -> None:
    marks = table(
        "mangle",
        "-A PREROUTING -p tcp -m mark --mark 0x539 -j CONNMARK --save-mark",
        "-A OUTPUT -p tcp -m connmark --mark 0x539 -j CONNMARK --restore-mark",
    )
    story = converse(pod(marks + table("nat", IN), on=WORLD), inward(), KEEPS)
    assert (story.disposition, story.app_sees) == ("inbound-proxy", number(CLIENT))


def test_a_sidecar_that_nobody_lets_go_meets_itself() -> None:
    everything = OUT.replace(" -m owner ! --uid-owner 1337", "")
    story = converse(pod(table("nat", everything), on=WORLD), outward(uid=1000), BINDS)
    assert (story.disposition, story.app_sees) == ("loop", None)
    assert "its own connection again" in story.sentence


def test_out_by_way_of_the_sidecar() -> None:
    story = converse(pod(table("nat", OUT), on=WORLD), outward(uid=1000), BINDS)
    assert (story.disposition, story.app_sees) == ("outbound-proxy", None)
    assert story.sentence == f"the sidecar reaches the server at {REMOTE}:80"


def test_an_answer_from_outside_that_is_captured_is_lost() -> None:
    rules = table("mangle", "-A PREROUTING -p tcp -j TPROXY --on-port 15006 --tproxy-mark 0x539")
    story = converse(pod(rules, on=WORLD), outward(uid=1337), BINDS)
    assert story.disposition == "lost-reply" and "never reaches the application" in story.sentence


def test_what_is_sent_after_the_handshake_may_be_dropped() -> None:
    rules = table("mangle", "-A PREROUTING -p tcp -m conntrack --ctstate ESTABLISHED -j DROP")
    story = converse(pod(rules, on=WORLD), inward(), BINDS)
    assert story.disposition == "dropped"
    assert story.sentence.startswith("the client is answered, but what it sends next is dropped by rule 1 of mangle")


@pytest.mark.parametrize(
    ("rules", "port", "disposition"),
    [
        ("", 81, "rejected"),
        (table("filter", "-A INPUT -p tcp -j DROP"), 80, "dropped"),
        (table("filter", "-A INPUT -p tcp -j REJECT"), 80, "rejected"),
        (table("filter", "-A INPUT -m limit --limit 1/s -j DROP"), 80, "undecided"),
        (table("filter", "-A OUTPUT -p tcp -j DROP"), 80, "lost-reply"),
    ],
)
def test_calls_that_come_to_nothing(rules: str, port: int, disposition: str) -> None:
    story = converse(pod(rules, on=WORLD), inward(port=port), BINDS)
    assert (story.disposition, story.app_sees) == (disposition, None)


def test_a_reply_from_loopback_needs_route_localnet() -> None:
    """The sidecar keeps the client's address and dials 127.0.0.1: the answer's first route is looked up too early."""
    rules = table("mangle", "-A OUTPUT -s 127.0.0.1 ! -d 127.0.0.1 -p tcp -j MARK --set-mark 0x539") + table("nat", IN)
    dials = replace(KEEPS, dials=(number("127.0.0.1"), 80))
    assert converse(pod(rules, on=WORLD), inward(), dials).disposition == "lost-reply"
    wide = replace(WORLD, links=(WORLD.links[0], link(route_localnet=True)))
    assert converse(pod(rules, on=wide), inward(), dials).app_sees == number(CLIENT)


def test_dns_over_udp_is_answered_too() -> None:
    rules = table("nat", "-A OUTPUT -p udp --dport 53 -j REDIRECT --to-ports 15053")
    asked = replace(host(), listeners=(Listener("dns-proxy", "udp", 15053),))
    story = converse(pod(rules, on=asked), outward(port=53, transport="udp"), BINDS)
    assert (story.disposition, story.port) == ("dns-proxy", 15053)
    assert len(story.steps) >= 3 and POD
