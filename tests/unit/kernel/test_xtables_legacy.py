"""The child that does the work of libiptc, with the library's part replaced; tests/netns has the library itself."""

from __future__ import annotations

import os
import sys

import pytest

from meshnet.kernel import xtables_legacy
from meshnet.kernel.xtables_legacy import LegacyLibrary, working
from meshnet.model.errors import BusyError, ToolError, UnsupportedError


@pytest.fixture(autouse=True)
def _there(monkeypatch):
    monkeypatch.setattr(xtables_legacy, "available", lambda: "")


def raising(error):
    def work():
        raise error

    return work


def test_what_the_child_returns():
    assert working(lambda: "*nat\nCOMMIT\nä\n").finish() == "*nat\nCOMMIT\nä\n"


def test_what_the_library_prints_is_neither_answer_nor_seen(capfd):
    assert working(lambda: os.write(1, b"-m owner") and os.write(2, b"complaint") and "answer").finish() == "answer"
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("error", "kind", "message", "detail"),
    [
        (BusyError("somebody else holds the lock"), BusyError, "somebody else holds the lock", ""),
        (ToolError("refused line 3", detail="a\nb"), ToolError, "refused line 3", "a\nb"),
        (KeyError("x"), ToolError, "the libiptc child ended with status 103", "KeyError: 'x'\n"),
        (SystemExit(0), ToolError, "the libiptc child ended with status 103", "SystemExit: 0\n"),
    ],
)
def test_why_it_failed_comes_back(error, kind, message, detail):
    with pytest.raises(ToolError) as refused:
        working(raising(error)).finish()
    assert type(refused.value) is kind
    assert (refused.value.message, refused.value.detail) == (message, detail)


@pytest.mark.parametrize("status", [1, 2, 3, 4])
def test_a_library_that_ends_the_process_ends_the_child_alone(status):
    """libxtables calls exit(2) with these for what it doesn't like (enum xtables_exittype)."""

    def work():
        os.write(2, b"bad argument")
        os._exit(status)

    with pytest.raises(ToolError) as refused:
        working(work).finish()
    assert type(refused.value) is ToolError
    assert refused.value.message == f"the libiptc child ended with status {status}"
    assert refused.value.detail == "bad argument"


def test_a_library_that_is_killed_ends_the_child_alone():
    with pytest.raises(ToolError, match="by signal 9"):
        working(lambda: os.kill(os.getpid(), 9) or "").finish()


def test_without_the_library_no_child_is_started(monkeypatch):
    monkeypatch.setattr(xtables_legacy, "available", lambda: "python-iptables is not installed")
    with pytest.raises(UnsupportedError, match="not installed"):
        working(lambda: pytest.fail("started"))


def test_why_the_library_can_t_be_had(monkeypatch):
    monkeypatch.undo()
    monkeypatch.setitem(sys.modules, "iptc", None)
    assert "pip install" in xtables_legacy.available()


def test_without_tables_no_child_is_started(monkeypatch):
    monkeypatch.setattr(xtables_legacy, "legacy_tables", lambda family: ())
    monkeypatch.setattr(os, "fork", lambda: pytest.fail("started"))
    assert LegacyLibrary().save(4) == ""


def test_a_restore_waits_for_the_lock_and_no_longer(tmp_path):
    path = tmp_path / "lock"
    import fcntl

    with path.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(BusyError, match=str(path)):
            LegacyLibrary(lock_path=str(path), lock_wait=0.01).restore(4, "*nat\nCOMMIT\n")


def test_whose_lock_it_is(monkeypatch):
    monkeypatch.setattr(xtables_legacy.netns, "in_birthplace", lambda: True)
    monkeypatch.delenv("XTABLES_LOCKFILE", raising=False)
    assert LegacyLibrary()._lock() == xtables_legacy.LOCK_PATH
    monkeypatch.setenv("XTABLES_LOCKFILE", "/x")
    assert LegacyLibrary()._lock() == "/x"
    monkeypatch.setattr(xtables_legacy.netns, "in_birthplace", lambda: False)
    assert LegacyLibrary()._lock() == ""
    assert LegacyLibrary(lock_path="/y")._lock() == "/y"


def test_legacy_tables_stay():
    assert not LegacyLibrary().delete_empty_table(4, "nat")
