"""What all tests with a kernel need: a host that can do it, and namespaces that are gone afterwards."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest

from tests.netns.pods import Scratch

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def require(tools: Iterable[str], *missing: str) -> None:
    """These tests never skip: without root or a tool each of them fails and says what is missing."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    absent = [*(tool for tool in tools if shutil.which(tool, path=path) is None), *missing]
    assert os.geteuid() == 0, "kernel tests need root"
    assert not absent, f"kernel tests need {', '.join(absent)}: make setup"


@pytest.fixture
def scratch() -> Iterator[Scratch]:
    made = Scratch()
    yield made
    made.clean()
