from __future__ import annotations

import pytest

from meshnet.compile.istio.chains import captures_loopback, inbound_table, owners, redirects_dns
from meshnet.model.cidr import read_cidr
from meshnet.model.value import replace
from tests.unit.compile.istio.written import spec


def test_every_uid_comes_ahead_of_every_gid() -> None:
    assert [step for step, _, _ in owners(spec(u="3,4", g="1,2"))] == ["uid-3", "uid-4", "gid-1", "gid-2"]


@pytest.mark.parametrize(("mode", "table"), [("REDIRECT", "nat"), ("TPROXY", "mangle"), ("NONE", "nat")])
def test_the_table_of_inbound_traffic(mode: str, table: str) -> None:
    assert inbound_table(spec(m=mode)) == table


@pytest.mark.parametrize(
    ("blocks", "found"),
    [
        ("*", False),
        ("", False),
        ("10.0.0.0/8", False),
        ("127.0.0.1/32", True),
        ("10.0.0.0/8,127.1.2.0/24", True),
        ("::1", True),
        ("::/0,0.0.0.0/0", False),
    ],
)
def test_a_block_that_begins_in_loopback(blocks: str, found: bool) -> None:
    assert captures_loopback(spec(i=blocks)) is found


def test_without_a_resolver_no_dns_is_captured() -> None:
    listed = spec(redirect_dns="true")
    assert not redirects_dns(listed)
    dns = replace(listed.dns, resolvers=(read_cidr("10.96.0.10/32"),))
    assert redirects_dns(replace(listed, dns=dns))
    assert redirects_dns(spec(redirect_dns="true", capture_all_dns="true"))
    assert not redirects_dns(spec(capture_all_dns="true"))
