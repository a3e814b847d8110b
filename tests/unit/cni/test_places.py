from __future__ import annotations

import pytest

from meshnet.cni.places import PROFILES, Places


def test_the_standard_folders_are_those_of_the_runtimes() -> None:
    assert PROFILES["standard"] == Places("/opt/cni/bin", "/etc/cni/net.d")


@pytest.mark.parametrize("name", sorted(PROFILES))
def test_every_folder_can_be_put_behind_a_root(name: str) -> None:
    """``/host`` in front of it has to be a path again: absolute, and without an end of its own."""
    for folder in (PROFILES[name].binaries, PROFILES[name].networks):
        assert folder.startswith("/")
        assert not folder.endswith("/")
        assert "//" not in folder


def test_every_distribution_that_was_asked_for_is_there() -> None:
    assert set(PROFILES) >= {"standard", "gke", "openshift", "k3s", "microk8s", "minikube"}
