"""For all tests: where the conformance files are, and what a run that was killed left behind is taken away."""

from __future__ import annotations

import os

import pytest

from tests import conformance
from tests.sweep import sweep

_left_out: list[str] = []


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "conformance: reads the shared conformance files")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without the conformance files their tests are left out, and the summary says so; in CI they fail instead."""
    if conformance.present() or os.environ.get("CI") == "true":
        return
    gone = [item for item in items if item.get_closest_marker("conformance")]
    if gone:
        config.hook.pytest_deselected(items=gone)
        items[:] = [item for item in items if item not in gone]
        _left_out[:] = [item.nodeid for item in gone]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not conformance.present() and os.environ.get("CI") != "true":
        where = f"no conformance files in {conformance.FOLDER}"
        terminalreporter.write_line(f"{where}: their tests are left out (MESHNET_CONFORMANCE names the folder)")


@pytest.fixture(scope="session", autouse=True)
def _no_remains():
    """Namespaces of runs that were killed before they could clean up."""
    sweep()
    yield
    sweep()
