from __future__ import annotations

import pytest

from meshnet.kernel.nft import number


@pytest.mark.parametrize(
    ("said", "version"),
    [
        ("nftables v1.0.6 (Lester Gooch #5)", (1, 0, 6)),
        ("nftables v1.1.3 (Commodore Bullmoose #4)\n", (1, 1, 3)),
        ("nftables v0.9 (x)", (0, 9, 0)),
        ("nftables v1.0.6-rc1", (1, 0, 0)),
        ("", (0, 0, 0)),
        ("nft: very new", (0, 0, 0)),
    ],
)
def test_versions(said, version):
    assert number(said) == version
