from __future__ import annotations

import traceback
from typing import Any

import pytest

from meshnet.model.errors import SpecError, UsageError
from meshnet.testing import from_client
from meshnet.testing.pod import Pod


def test_a_wrong_spec_is_told_in_full() -> None:
    """As pytest shows it: the problems, and not only their number."""
    with pytest.raises(SpecError) as caught:
        Pod.apply(object.__new__(Pod), "inbound: {mode: tproxi}")
    told = "".join(traceback.format_exception_only(caught.value))
    assert "unknown word (tproxi)" in told


def test_a_side_of_the_sidecar_that_there_isn_t() -> None:
    by: Any = "inbound"
    with pytest.raises(UsageError, match=r"nothing of this name captures \(inbound\)"):
        Pod.assert_captured(object.__new__(Pod), from_client(), by=by)
