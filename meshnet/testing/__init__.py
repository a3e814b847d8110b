"""A pytest plugin for tests of one's own: ``pytest -p meshnet.testing``.

Fixtures: ``make_namespace``, ``pod`` (with its client), ``client``, ``make_pod``, ``sidecar``. A pod takes a spec,
starts servers, tells who answers a call, and has assertions that fail with both traces: the one that the simulator
expects and the one that was seen. ``docs/testing.md`` shows them.
"""

from __future__ import annotations

from meshnet.testing.fixtures import (
    client,
    make_namespace,
    make_pod,
    meshnet_backend,
    pod,
    pytest_addoption,
    sidecar,
)
from meshnet.testing.pod import Answered, Pod, from_client, from_pod

__all__ = [
    "Answered",
    "Pod",
    "client",
    "from_client",
    "from_pod",
    "make_namespace",
    "make_pod",
    "meshnet_backend",
    "pod",
    "pytest_addoption",
    "sidecar",
]
