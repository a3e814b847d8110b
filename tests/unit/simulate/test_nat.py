from __future__ import annotations

import pytest

from meshnet.model.host import LOOPBACK_LINK
from tests.unit.simulate.pods import (
    CLIENT,
    POD,
    POD6,
    REMOTE,
    REMOTE6,
    host,
    inward,
    link,
    number,
    outward,
    table,
    walk,
)


def sent(flow, rule, on=None):
    chain = "OUTPUT" if flow.way == "out" else "PREROUTING"
    return walk(table("nat", f"-A {chain} -p tcp -j {rule}"), flow, on)


def left(rule, flow=None, on=None):
    return walk(table("nat", f"-A POSTROUTING -p tcp -j {rule}"), flow or outward(), on)


@pytest.mark.parametrize(("to", "loopback"), [(REMOTE, "127.0.0.1"), (REMOTE6, "::1")])
def test_redirect_of_what_is_sent_here_goes_to_loopback(to, loopback):
    found = sent(outward(to), "REDIRECT --to-ports 15001")
    assert (found.to, found.port, found.captured) == (number(loopback), 15001, True)


def test_redirect_of_what_enters_goes_to_the_link_s_first_address():
    two = host(link("eth0", "10.1.0.2/24", "10.1.0.3/24", "fd01::2/64"))
    assert sent(inward("10.1.0.3"), "REDIRECT --to-ports 15006", two).to == number("10.1.0.2")


def test_redirect_of_ipv6_takes_an_address_of_the_same_scope():
    both = host(link("eth0", "fe80::5/64", "fd01::2/64"))
    assert sent(inward("fd01::2"), "REDIRECT --to-ports 1", both).to == number("fd01::2")
    assert sent(inward("fd01::2"), "REDIRECT --to-ports 1", host(link("eth0", "fe80::5/64"))).end == "dropped"


def test_without_a_port_it_is_kept():
    assert sent(inward(port=8080), "REDIRECT").port == 8080


@pytest.mark.parametrize(("port", "given"), [(15007, 15007), (80, 15006)])
def test_a_port_of_the_range_is_kept_and_any_other_gets_the_first(port, given):
    assert sent(inward(port=port), "REDIRECT --to-ports 15006-15009").port == given


def test_dnat():
    found = sent(outward(), f"DNAT --to-destination {POD}:9-9")
    assert (found.to, found.port, found.end) == (number(POD), 9, "delivered")
    assert sent(inward(POD6), f"DNAT --to-destination [{POD6}]:7").port == 7


@pytest.mark.parametrize("rule", ["DNAT --to-destination 10.0.0.1-10.0.0.9", "REDIRECT --to-ports 1-9 --random"])
def test_what_the_kernel_chooses_nobody_can_tell(rule):
    assert sent(inward(), rule).end == "undecided"


def test_snat_and_masquerade():
    assert left("SNAT --to-source 10.1.0.77").source == number("10.1.0.77")
    assert left("SNAT --to-source 10.1.0.77:5-9").source_port == 5
    assert left("MASQUERADE", outward(source="10.1.0.99", transparent=True)).source == number(POD)
    assert left("SNAT --to-source 10.0.0.1-10.0.0.9").end == "undecided"


def test_masquerade_without_an_address_drops():
    assert (
        left("MASQUERADE", outward(source="10.1.0.99", transparent=True), host(link("eth0", f"{POD6}/64"))).end
        == "dropped"
    )


def test_rules_are_asked_for_the_first_packet_alone():
    later = walk(table("nat", "-A PREROUTING -p tcp -j REDIRECT --to-ports 1"), inward(state="ESTABLISHED"))
    assert (later.port, later.captured) == (80, False)


def test_a_host_without_links_but_lo_is_one_too():
    assert LOOPBACK_LINK.name == "lo"
    assert sent(outward(), "REDIRECT --to-ports 15001").source == number(POD)
    assert sent(inward(), "REDIRECT --to-ports 15006").source == number(CLIENT)
