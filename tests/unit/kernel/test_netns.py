from __future__ import annotations

import io
import os
import threading
from pathlib import Path

import pytest

from meshnet.kernel import netns
from meshnet.model.errors import MeshnetError, NamespaceError, PermissionMissing, UsageError


@pytest.mark.parametrize("word", ["", ".", "..", "../x", "a/b", "a\0b", "a\x1b[2J", "x" * 256])
def test_what_is_no_name(word):
    with pytest.raises(NamespaceError):
        netns.where(word)


@pytest.mark.parametrize("word", ["0", "-1", "x", "", "1.5", str(1 << 31), "\u0663"])
def test_what_is_no_process(word):
    with pytest.raises(NamespaceError):
        netns.where(pid=word)


def test_words_become_places():
    assert netns.where() == netns.OWN
    assert netns.where("pod") == netns.Where("name", "pod")
    assert netns.where("/proc/1/ns/net") == netns.Where("path", "/proc/1/ns/net")
    assert str(netns.where(pid=17)) == "process 17"
    with pytest.raises(UsageError):
        netns.where("pod", 17)


def test_ones_own_namespace():
    with netns.open_namespace() as own:
        assert own.is_current
        assert own.is_initial
        assert own.inode == Path("/proc/self/ns/net").stat().st_ino
        with own.entered() as inside:
            assert inside is own
    own.close()


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/", "is no namespace"),
        ("/dev/null", "is no namespace"),
        ("/proc/self/ns/mnt", "mount namespace"),
        ("/no/such/file", "there is no"),
        ("/etc/passwd/x", "there is no"),
        ("/a\0b", "can't be opened"),
    ],
)
def test_paths_that_are_no_network_namespace(path, words):
    with pytest.raises(NamespaceError, match=words):
        netns.open_namespace(netns.where(path))


def test_a_fifo_is_refused_without_waiting_for_a_writer(tmp_path):
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(NamespaceError, match="is no namespace"):
        netns.open_namespace(netns.where(str(tmp_path / "fifo")))


def test_what_is_gone_is_named():
    with pytest.raises(NamespaceError, match="no process 2147483646"):
        netns.open_namespace(netns.where(pid=2147483646))
    with pytest.raises(NamespaceError, match="no network namespace mkk_nosuch"):
        netns.open_namespace(netns.where("mkk_nosuch"))


def test_nothing_stays_open_after_a_refusal():
    before = sorted(Path("/proc/self/fd").iterdir())
    for path in ("/etc/passwd", "/proc/self/ns/mnt", "/no"):
        with pytest.raises(NamespaceError):
            netns.open_namespace(netns.where(path))
    assert sorted(Path("/proc/self/fd").iterdir()) == before


def test_capabilities_are_read_from_the_effective_set(monkeypatch):
    status = "Name:\tx\nCapEff:\t0000000000001000\n"
    monkeypatch.setattr(netns, "open", lambda *_args, **_more: io.StringIO(status), raising=False)
    assert netns.missing_capabilities(("CAP_NET_ADMIN", "CAP_SYS_ADMIN")) == ("CAP_SYS_ADMIN",)
    with pytest.raises(PermissionMissing, match="entering needs CAP_SYS_ADMIN and CAP_NET_RAW"):
        netns.require_capabilities(("CAP_SYS_ADMIN", "CAP_NET_ADMIN", "CAP_NET_RAW"), "entering")


def test_setns_says_which_capability_is_missing(monkeypatch):
    def refuse(_fd, _kind):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(netns, "setns", refuse)
    monkeypatch.setattr(netns.Namespace, "is_current", property(lambda _self: False))
    with netns.open_namespace() as own, pytest.raises(PermissionMissing, match="CAP_SYS_ADMIN"), own.entered():
        pass


def test_it_is_held_once_and_let_go():
    with netns.open_namespace() as one, netns.open_namespace(netns.where("/proc/self/ns/net")) as two:
        with netns.held(one, 1), pytest.raises(MeshnetError) as caught, netns.held(two, 0.05):
            pass
        assert caught.value.kind == "busy"
        with netns.held(two, 0.05):
            pass


def test_threads_exclude_each_other_too():
    seen = []

    def other(namespace):
        try:
            with netns.held(namespace, 0.05):
                seen.append("in")
        except MeshnetError as error:
            seen.append(error.kind)

    with netns.open_namespace() as own, netns.held(own, 1):
        thread = threading.Thread(target=other, args=(own,))
        thread.start()
        thread.join()
    assert seen == ["busy"]
