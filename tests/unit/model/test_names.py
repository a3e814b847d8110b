from __future__ import annotations

from meshnet.model import names
from meshnet.model.cidr import LOOPBACK, read_cidr


def test_a_comment_leads_back_to_its_rule() -> None:
    comment = names.rule_comment("in.tproxy.divert")
    assert comment == "meshnet:in.tproxy.divert"
    assert names.rule_id_of(comment) == "in.tproxy.divert"


def test_anybody_elses_comment_is_nobodys_rule() -> None:
    assert names.rule_id_of("cali:abc") == names.rule_id_of("") == names.rule_id_of(" meshnet:x") == ""


def test_numbers_that_must_not_meet() -> None:
    assert names.INBOUND_MARK != names.OUTBOUND_MARK
    assert (names.INBOUND_MARK | names.OUTBOUND_MARK) & ~names.MARK_MASK == 0
    ports = (names.INBOUND_PORT, names.OUTBOUND_PORT, names.TUNNEL_PORT, names.DNS_PORT, *names.UNCAPTURED_INBOUND)
    assert len(set(ports)) == len(ports)
    assert names.ROUTE_TABLE not in (0, 253, 254, 255)
    assert 0 < names.RULE_PRIORITY < 512
    assert names.ROUTE_PROTOCOL not in (*range(21), 42, *range(186, 193))


def test_passthrough_addresses_are_not_those_of_applications() -> None:
    four, six = read_cidr(names.PASSTHROUGH4), read_cidr(names.PASSTHROUGH6)
    assert LOOPBACK[4].covers(four) and four != read_cidr("127.0.0.1")
    assert six != LOOPBACK[6]
