"""``python -m meshnet``."""

from __future__ import annotations

from meshnet.cli.main import run

run()
