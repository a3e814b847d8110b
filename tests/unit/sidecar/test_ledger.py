from __future__ import annotations

from meshnet.sidecar.ledger import Ledger
from meshnet.sidecar.origin import Endpoint

FLOW = (Endpoint("10.0.0.20", 4000), Endpoint("10.0.0.10", 80))
OTHER_PORT = (FLOW[0], Endpoint("10.0.0.10", 81))


def test_what_was_dialled_inbound_must_not_come_back() -> None:
    ledger = Ledger()
    with ledger.dialling("inbound", FLOW):
        assert ledger.is_loop("inbound", FLOW) and ledger.is_loop("outbound", FLOW)
        assert not ledger.is_loop("inbound", OTHER_PORT)
    assert not ledger.is_loop("inbound", FLOW)


def test_what_was_dialled_outbound_may_come_in_but_not_go_out_again() -> None:
    ledger = Ledger()
    with ledger.dialling("outbound", FLOW):
        assert not ledger.is_loop("inbound", FLOW)
        assert ledger.is_loop("outbound", FLOW)


def test_a_flow_is_in_use_until_its_last_holder_ends() -> None:
    ledger = Ledger()
    with ledger.serving(FLOW):
        with ledger.serving(FLOW):
            assert ledger.stats()["open"] == 2
        assert ledger.in_use(FLOW) and not ledger.in_use(OTHER_PORT)
    assert not ledger.in_use(FLOW)
    assert ledger.stats()["open"] == 0


def test_failures_are_counted_and_the_last_is_kept() -> None:
    ledger = Ledger()
    ledger.failed("first")
    ledger.failed("second")
    assert (ledger.stats()["upstream_failures"], ledger.stats()["last_failure"]) == (2, "second")
