from __future__ import annotations

import pytest

from meshnet.model.cidr import read_cidr
from meshnet.model.host import AddressSet, Host, Member
from meshnet.parse.nft_ruleset import read as read_nft
from meshnet.parse.ruleset import read
from meshnet.simulate.around import MOST_ADDRESSES, elsewhere, opened_host
from tests.unit.simulate.pods import POD, host, number, table


def gained(after: Host, before: Host) -> list[int]:
    known = {address.number for link in before.links for address in link.addresses}
    return [item.number for link in after.links for item in link.addresses if item.number not in known]


@pytest.mark.parametrize(
    ("words", "address"),
    [
        ("-d 192.0.2.7", ["192.0.2.7"]),
        ("-s 192.0.2.0/24", ["192.0.2.1"]),
        ("! -d 192.0.2.0/24", ["192.0.2.1"]),
        ("-d 127.0.0.1", []),
        (f"-d {POD}", []),
        ("-d 0.0.0.0/0", []),
        ("-m iprange --dst-range 192.0.2.4-192.0.2.9", ["192.0.2.5"]),
        ("-m set --match-set known dst", ["198.51.100.1"]),
        ("-m set --match-set unknown dst", []),
    ],
)
def test_an_address_in_each_block_that_a_rule_names(words: str, address: list[str]) -> None:
    blocks = ("198.51.100.0/24", "198.18.0.0/15")
    known = AddressSet("known", ("net",), tuple(Member(read_cidr(block)) for block in blocks))
    before = host(sets=(known,))
    after = elsewhere(read(table("nat", f"-A OUTPUT {words} -j RETURN"), 4), before)
    assert gained(after, before) == [number(text) for text in address]


def test_of_a_list_of_nft_s_the_first_and_of_many_rules_no_more_than_enough() -> None:
    (held,) = read_nft("table ip a {\n chain b {\n  ip daddr { 192.0.2.7, 198.51.100.0/24 } drop\n }\n}\n")
    before = host()
    assert gained(elsewhere(held, before), before) == [number("192.0.2.7")]
    many = read(table("nat", *(f"-A OUTPUT -d 192.0.2.{last} -j RETURN" for last in range(1, 60))), 4)
    assert len(gained(elsewhere(many, before), before)) == MOST_ADDRESSES


def test_an_open_pod_refuses_nothing_by_itself() -> None:
    made = opened_host(host())
    assert made.assume and made.forwards == (4, 6)
    assert all(link.route_localnet and link.accept_local and link.rp_filter == 0 for link in made.links)
