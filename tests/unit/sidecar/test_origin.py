from __future__ import annotations

import socket
import struct

import pytest

from meshnet.sidecar.origin import Endpoint, destination_of, endpoint_of, read_original4, read_original6

OWN = frozenset({15006, 15001})
POD, LOOPBACK = "10.0.0.10", "127.0.0.1"


@pytest.mark.parametrize(
    ("remembered", "local", "inbound", "found"),
    [
        (Endpoint(POD, 80), Endpoint(POD, 15006), True, Endpoint(POD, 80)),
        (Endpoint(POD, 80), Endpoint(POD, 80), True, Endpoint(POD, 80)),
        (None, Endpoint(POD, 80), True, Endpoint(POD, 80)),
        (None, Endpoint(POD, 15006), True, None),
        (Endpoint(POD, 15006), Endpoint(POD, 15006), True, None),
        (Endpoint("10.0.0.11", 15001), Endpoint(POD, 15006), True, None),
    ],
    ids=["redirect", "tproxy", "tproxy-untracked", "untracked", "dialled-directly", "other-address-own-port"],
)
def test_inbound(remembered: Endpoint | None, local: Endpoint, inbound: bool, found: Endpoint | None) -> None:
    assert destination_of(remembered, local, 15006, OWN, inbound=inbound) == found


def test_outbound_to_another_pods_sidecar_is_meant_and_to_itself_is_not() -> None:
    local, far = Endpoint(LOOPBACK, 15001), Endpoint("10.9.9.9", 15001)
    assert destination_of(far, local, 15001, OWN, inbound=False) == far
    assert destination_of(local, local, 15001, OWN, inbound=False) is None
    assert destination_of(Endpoint(LOOPBACK, 15006), local, 15001, OWN, inbound=False) is None


def test_kernel_forms_of_an_address() -> None:
    four = struct.pack("=H", socket.AF_INET) + struct.pack("!H", 80) + bytes([10, 0, 0, 1]) + bytes(8)
    assert read_original4(four) == Endpoint("10.0.0.1", 80)
    six = struct.pack("=H", socket.AF_INET6) + struct.pack("!HI", 80, 5) + socket.inet_pton(socket.AF_INET6, "fe80::1")
    assert read_original6(six + struct.pack("=I", 3)) == Endpoint("fe80::1", 80, 3)


def test_endpoints_speak_the_socket_modules_form() -> None:
    assert endpoint_of(("10.0.0.1", 80)).sockaddr == ("10.0.0.1", 80)
    assert endpoint_of(("fe80::1", 80, 0, 3)).sockaddr == ("fe80::1", 80, 0, 3)
    assert (str(Endpoint("::1", 80)), str(Endpoint(POD, 80))) == ("[::1]:80", "10.0.0.10:80")
