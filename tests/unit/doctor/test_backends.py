from __future__ import annotations

from meshnet.doctor.backends import Holder, two_backends


def test_one_backend_is_fine_whoever_else_is_there() -> None:
    assert not list(two_backends([Holder("iptables-nft", 4, 9), Holder("iptables-legacy", 4, 0)]))
    assert not list(two_backends([Holder("iptables-nft", 4, 9), Holder("iptables-legacy", 6, 9)]))


def test_two_in_one_family() -> None:
    (only,) = two_backends([Holder("iptables-nft", 6, 9), Holder("iptables-legacy", 6, 2), Holder("nftables", 4, 1)])
    assert (only.kind, only.family) == ("two-backends", 6)
    assert "9 in iptables-nft, 2 in iptables-legacy" in only.why[0]
