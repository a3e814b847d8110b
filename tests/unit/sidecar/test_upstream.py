from __future__ import annotations

import asyncio
import socket

import pytest

from meshnet.model.value import replace
from meshnet.sidecar.config import Settings
from meshnet.sidecar.ledger import Ledger
from meshnet.sidecar.origin import Endpoint, endpoint_of
from meshnet.sidecar.upstream import SAME_PORT_TRIES, Dial, dial_for, dialled

CLIENT, POD = Endpoint("10.0.0.20", 4000), Endpoint("10.0.0.10", 80)
CLIENT6, POD6 = Endpoint("fe80::20", 4000, 2), Endpoint("fe80::10", 80, 2)


def test_who_dials_whom_from_where() -> None:
    kept = Settings(inbound_mark=5, outbound_mark=6)
    assert dial_for(kept, "inbound", CLIENT, POD) == Dial("inbound", POD, Endpoint("10.0.0.20", 0), 5, True)
    assert dial_for(kept, "inbound", CLIENT6, POD6) == Dial("inbound", POD6, Endpoint("fe80::20", 0, 2), 5, True)
    assert dial_for(kept, "outbound", CLIENT, POD) == Dial("outbound", POD, None, 6)
    passed = replace(kept, original_source=False)
    assert dial_for(passed, "inbound", CLIENT, POD) == Dial("inbound", POD, Endpoint("127.0.0.6", 0))
    assert dial_for(passed, "inbound", CLIENT6, POD6) == Dial("inbound", POD6, Endpoint("::6", 0))
    assert dial_for(replace(passed, dials="loopback"), "inbound", CLIENT6, POD6) == Dial("inbound", Endpoint("::1", 80))
    hidden = dial_for(replace(kept, dials="loopback"), "inbound", CLIENT, POD)
    assert (hidden.destination, hidden.source) == (Endpoint("127.0.0.1", 80), Endpoint("10.0.0.20", 0))


class AllInUse(Ledger):
    asked = 0

    def in_use(self, flow: object) -> bool:
        self.asked += 1
        return self.asked < self.free_at

    free_at = 3


async def dialled_source(dial: Dial, ledger: Ledger) -> Endpoint:
    async with dialled(dial, ledger, 2) as made:
        source = endpoint_of(made.getsockname())
        assert ledger.is_loop("inbound", (source, dial.destination))
        return source


def test_a_source_port_that_the_client_uses_is_not_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        target = endpoint_of(server.getsockname())
        dial = Dial("inbound", target, Endpoint("127.0.0.77", 0), None, True)
        ledger = AllInUse()
        assert asyncio.run(dialled_source(dial, ledger)).host == "127.0.0.77"
        assert ledger.asked == 3
        ledger.free_at = 1000
        with pytest.raises(OSError, match="no free port"):
            asyncio.run(dialled_source(dial, ledger))
        assert ledger.asked == 3 + SAME_PORT_TRIES


def test_a_refusal_is_an_error_and_leaves_the_ledger() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        closed = endpoint_of(server.getsockname())
    ledger = Ledger()
    with pytest.raises(ConnectionRefusedError):
        asyncio.run(dialled_source(Dial("inbound", closed), ledger))
    assert not ledger._dialled
