from __future__ import annotations

from meshnet.model.host import LOOPBACK_LINK, Address, Host, Link

ETH0 = Link("eth0", (Address(6, 9, 64), Address(4, 1, 24), Address(4, 2, 24)))


def test_the_first_address_of_a_family_is_the_primary_one():
    assert (ETH0.first(4), ETH0.first(6), Link("x").first(4)) == (1, 9, None)
    assert (LOOPBACK_LINK.first(4), LOOPBACK_LINK.first(6)) == (0x7F000001, 1)


def test_an_address_of_zero_is_an_address():
    assert Link("x", (Address(4, 0, 0),)).first(4) == 0


def test_a_link_by_its_name():
    host = Host((LOOPBACK_LINK, ETH0))
    assert (host.link("eth0"), host.link("lo"), host.link("eth")) == (ETH0, LOOPBACK_LINK, None)
    assert Host().link("lo") == LOOPBACK_LINK
