"""Scratch namespaces and pods for kernel tests: unique names, gone after the test whatever happened in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.netns import landing
from tests.netns.pods import Pod
from tests.scratch import require
from tests.scratch import scratch as scratch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from meshnet.kernel.netns import Namespace
    from tests.netns.landing import Listeners
    from tests.netns.pods import Scratch

TOOLS = ("iptables-nft-restore", "iptables-legacy-restore", "ip6tables-legacy-restore", "nft", "ipset", "ip", "setpriv")


@pytest.fixture(scope="session", autouse=True)
def _host_can_do_it() -> None:
    require(TOOLS)


@pytest.fixture
def namespace(scratch: Scratch) -> Namespace:
    return scratch()


@pytest.fixture
def inside(namespace: Namespace) -> Iterator[Namespace]:
    with namespace.entered():
        yield namespace


@pytest.fixture
def pods(scratch: Scratch) -> Callable[[], Pod]:
    return lambda: Pod(scratch)


@pytest.fixture
def pod(pods: Callable[[], Pod]) -> Pod:
    return pods()


@pytest.fixture
def listeners(pod: Pod) -> Iterator[Listeners]:
    """Everybody who listens in the pod and in the rest of the world."""
    made = landing.usual(pod)
    made.start()
    yield made
    made.stop()
