from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.unit.cli.commands import HEAD, caller

if TYPE_CHECKING:
    from pathlib import Path

    from tests.unit.cli.commands import Called


@pytest.fixture
def called(capsys: pytest.CaptureFixture[str]) -> Called:
    return caller(capsys)


@pytest.fixture
def spec_file(tmp_path: Path) -> str:
    path = tmp_path / "pod.yaml"
    path.write_text(f"{HEAD}name: web\nfamilies: [ipv4, ipv6]\ninbound: {{mode: tproxy}}\n")
    return str(path)
