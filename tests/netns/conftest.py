"""Scratch namespaces and pods for kernel tests: unique names, gone after the test whatever happened in it."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import pytest

from tests.netns import landing
from tests.netns.pods import Pod, Scratch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from meshnet.kernel.netns import Namespace
    from tests.netns.landing import Listeners

TOOLS = ("iptables-nft-restore", "iptables-legacy-restore", "ip6tables-legacy-restore", "nft", "ipset", "ip", "setpriv")


@pytest.fixture(scope="session", autouse=True)
def _host_can_do_it() -> None:
    """These tests never skip: without root or a tool each of them fails and says what is missing."""
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    missing = [tool for tool in TOOLS if shutil.which(tool, path=path) is None]
    assert os.geteuid() == 0, "kernel tests need root"
    assert not missing, f"kernel tests need {', '.join(missing)}"


@pytest.fixture
def scratch() -> Iterator[Scratch]:
    made = Scratch()
    yield made
    made.clean()


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
