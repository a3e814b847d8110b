"""The fixtures of the plugin."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import pytest

from meshnet.kernel import links, netns
from meshnet.testing.pod import Pod

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from meshnet.kernel.netns import Namespace
    from meshnet.lab.scenario import LabBackend
    from meshnet.lab.servers import Sidecar


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--meshnet-backend`` and ``--meshnet-sidecar``."""
    group = parser.getgroup("meshnet")
    backends, sidecars = ("iptables-nft", "iptables-legacy", "nftables"), ("auto", "envoy", "embedded")
    group.addoption("--meshnet-backend", choices=backends, default=backends[0], help="Who loads the rules of pods.")
    group.addoption("--meshnet-sidecar", choices=sidecars, default=sidecars[0], help="Which sidecar pods get.")


@pytest.fixture(scope="session")
def meshnet_backend(request: pytest.FixtureRequest) -> LabBackend:
    """The backend of this run."""
    found: LabBackend = request.config.getoption("--meshnet-backend")
    return found


@pytest.fixture
def make_namespace() -> Iterator[Callable[[], Namespace]]:
    """Makes network namespaces without a name, with ``lo`` up; they end with the test."""
    with contextlib.ExitStack() as stack:

        def make() -> Namespace:
            namespace = stack.enter_context(netns.unnamed())
            links.quiet_ipv6(namespace)
            links.up(namespace, "lo")
            return namespace

        yield make


@pytest.fixture
def make_pod(meshnet_backend: LabBackend) -> Iterator[Callable[[], Pod]]:
    """Makes pods, each with a client of its own."""
    with contextlib.ExitStack() as stack:
        yield lambda: stack.enter_context(Pod(meshnet_backend))


@pytest.fixture
def pod(make_pod: Callable[[], Pod]) -> Pod:
    """A pod without rules or servers."""
    return make_pod()


@pytest.fixture
def client(pod: Pod) -> Namespace:
    """The namespace of the pod's client."""
    return pod.client


@pytest.fixture
def sidecar(pod: Pod, request: pytest.FixtureRequest) -> Callable[[], Sidecar]:
    """Starts the sidecar of the spec that was applied to ``pod``: Envoy or the embedded one (``--meshnet-sidecar``)."""
    return lambda: pod.start_sidecar(request.config.getoption("--meshnet-sidecar"))
