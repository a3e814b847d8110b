from __future__ import annotations

from meshnet.kernel.facts import _nameservers
from meshnet.model.cidr import read_cidr


def test_nameservers_are_read_as_the_resolver_library_does() -> None:
    text = "# nameserver 1.1.1.1\nnameserver 10.96.0.10\nsearch a b\nnameserver fe80::1%eth0\nnameserver\n"
    assert _nameservers(text) == (read_cidr("10.96.0.10"), read_cidr("fe80::1"))


def test_a_server_named_twice_or_wrongly_counts_once_or_not_at_all() -> None:
    text = "nameserver 10.0.0.1\nnameserver 10.0.0.1\nnameserver example.test\nnameserver 010.0.0.1\n"
    assert _nameservers(text) == (read_cidr("10.0.0.1"),)
