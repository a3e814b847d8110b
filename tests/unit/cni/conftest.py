from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cni.api import FakeApi, injected

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def api() -> Iterator[FakeApi]:
    """An API that has one pod, shop/web."""
    made = FakeApi()
    made.put(injected())
    yield made
    made.close()
