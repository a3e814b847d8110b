"""Scratch namespaces for kernel tests: unique names, gone after the test whatever happened in it."""

from __future__ import annotations

import itertools
import os

import pytest

from meshnet.kernel import netns

_numbers = itertools.count()


class Scratch:
    def __init__(self) -> None:
        self._open: list[tuple[str, netns.Namespace]] = []

    def __call__(self) -> netns.Namespace:
        name = f"mkk{os.getpid()}_{next(_numbers)}"
        netns.create(name)
        namespace = netns.open_namespace(netns.where(name))
        self._open.append((name, namespace))
        return namespace

    def clean(self) -> None:
        for name, namespace in self._open:
            namespace.close()
            netns.delete(name)


@pytest.fixture
def scratch():
    made = Scratch()
    yield made
    made.clean()


@pytest.fixture
def namespace(scratch):
    return scratch()


@pytest.fixture
def inside(namespace):
    with namespace.entered():
        yield namespace
