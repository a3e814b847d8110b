from __future__ import annotations

from meshnet.lab.demo import Outcome, rows
from meshnet.model.value import replace

SEEN = {4: "10.0.0.1", 6: "fd00::1"}


def test_the_rows_are_the_four_ways_in_order() -> None:
    ways = [(row.spec.inbound.mode, row.spec.inbound.original_source) for row in rows() if row.spec is not None]
    assert rows()[0].spec is None
    assert ways == [("redirect", False), ("tproxy", False), ("tproxy", True)]


def test_a_row_is_right_only_when_the_request_went_through_the_sidecar() -> None:
    """An application that sees its client because nothing was captured is the first row, not the fourth."""
    kept = Outcome(rows()[3], SEEN, SEEN, 2, None)
    assert kept.ok
    assert not replace(kept, through_sidecar=0).ok
    assert not replace(kept, seen={4: "127.0.0.6", 6: "::6"}).ok
    bare = Outcome(rows()[0], SEEN, SEEN, 0, None)
    assert bare.ok and not replace(bare, through_sidecar=1).ok
