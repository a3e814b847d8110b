from __future__ import annotations

import pytest

from meshnet.model.ports import PortRange
from meshnet.model.trace import Proxies


@pytest.mark.parametrize(
    ("port", "name"),
    [(15006, "inbound-proxy"), (15001, "outbound-proxy"), (15053, "dns-proxy"), (15008, "captured"), (0, "captured")],
)
def test_who_is_behind_a_port(port, name):
    assert Proxies().name(port) == name


@pytest.mark.parametrize(
    ("port", "name"), [(99, "captured"), (100, "inbound-proxy"), (103, "inbound-proxy"), (104, "captured")]
)
def test_an_inbound_proxy_with_several_ports(port, name):
    assert Proxies(PortRange(100, 103), 1, 2).name(port) == name
