"""Whose a namespace is, and how work as its root fails; a pod's own root is tests/cni/test_user_namespace.py."""

from __future__ import annotations

import errno
import os

import pytest

from meshnet.kernel import userns
from meshnet.kernel.netns import Where, open_namespace
from meshnet.model.errors import NamespaceError, PermissionMissing, ToolError


@pytest.fixture
def own():
    with open_namespace(Where("path", "/proc/self/ns/net")) as namespace:
        yield namespace


def test_the_caller_s_own_user_namespace_is_nobody_s_besides(own, monkeypatch):
    """Whoever runs these may himself have been put into another one's network namespace: both cases are made here."""
    monkeypatch.setattr(userns.fcntl, "ioctl", lambda *_: os.open(userns.OWN, os.O_RDONLY))
    before = len(os.listdir("/proc/self/fd"))
    assert userns.owner(own) is None
    assert len(os.listdir("/proc/self/fd")) == before


def test_another_one_is_handed_over_and_no_child_inherits_it(own, monkeypatch):
    monkeypatch.setattr(userns.fcntl, "ioctl", lambda *_: os.open("/proc/self/ns/uts", os.O_RDONLY))
    found = userns.owner(own)
    assert found is not None and not os.get_inheritable(found)
    os.close(found)


@pytest.mark.parametrize(("code", "kind"), [(errno.EPERM, PermissionMissing), (errno.ENOTTY, NamespaceError)])
def test_whose_it_is_can_t_be_seen(own, monkeypatch, code, kind):
    def refuse(*_):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(userns.fcntl, "ioctl", refuse)
    with pytest.raises(kind, match="/proc/self/ns/net"):
        userns.owner(own)


def as_root(own, monkeypatch, entered):
    monkeypatch.setattr(userns, "_entered", entered)
    return userns.as_root_of(-1, own, lambda: "")


def test_the_text_of_the_child(own, monkeypatch):
    text = "ä" * 100_000
    assert as_root(own, monkeypatch, lambda *_: text) == text


def raising(error):
    def entered(*_):
        raise error

    return entered


@pytest.mark.parametrize(
    ("error", "kind", "said"),
    [
        (PermissionError(1, "Operation not permitted"), PermissionMissing, "Operation not permitted"),
        (OSError(22, "Invalid argument"), NamespaceError, "Invalid argument"),
        (KeyError("x"), ToolError, "ended with 1"),
        (SystemExit(0), ToolError, "ended with 1"),
    ],
)
def test_why_the_child_failed(own, monkeypatch, error, kind, said):
    with pytest.raises(kind, match=said):
        as_root(own, monkeypatch, raising(error))


def test_a_child_that_is_killed(own, monkeypatch):
    with pytest.raises(ToolError, match="ended with -9"):
        as_root(own, monkeypatch, lambda *_: os.kill(os.getpid(), 9))


def test_an_answer_without_an_end_is_given_up(own, monkeypatch):
    monkeypatch.setattr(userns, "LARGEST_ANSWER", 1000)
    with pytest.raises(ToolError):
        as_root(own, monkeypatch, lambda *_: "x" * 1_000_000)


def test_what_is_no_user_namespace_is_refused_in_the_child(own):
    with open(os.devnull) as file, pytest.raises(NamespaceError, match="entering the user namespace of"):
        userns.as_root_of(file.fileno(), own, lambda: pytest.fail("done"))
