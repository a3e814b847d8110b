"""What the tools are started with, and what their ends mean; what they do is tests/netns/test_xtables_contract."""

from __future__ import annotations

import os

import pytest

from meshnet.kernel import xtables
from meshnet.kernel.run import Ran
from meshnet.kernel.xtables import Xtables, foreign_to_tools, legacy_tables, program
from meshnet.model.errors import BusyError, ToolError


class Tools:
    """In place of processes: what was started, and how it ends."""

    def __init__(self, monkeypatch):
        self.started = []
        self.ran = Ran(("tool",), 0, "", "")
        self.lock = ""
        monkeypatch.setattr(xtables, "start", self.start)
        monkeypatch.setattr(xtables.nft_table, "tables", lambda family: ("nat", "filter", "theirs"))
        monkeypatch.setattr(xtables, "legacy_tables", lambda family: ("nat",))
        monkeypatch.setattr(xtables.netns, "in_birthplace", lambda: True)

    def start(self, argv, text="", **more):
        self.started.append((argv, text, more))
        for fd in more.get("keep_fds", ()):
            self.lock = os.readlink(f"/proc/self/fd/{fd}")
        return self

    def wait(self):
        return self.ran

    def stop(self):
        self.ran = Ran(("tool",), -15, "", "")


@pytest.fixture
def tools(monkeypatch):
    return Tools(monkeypatch)


@pytest.mark.parametrize(
    ("family", "variant", "name"),
    [(4, "nft", "iptables-nft-save"), (6, "legacy", "ip6tables-legacy-save")],
)
def test_names_of_the_tools(family, variant, name):
    assert program(family, variant, "save") == name
    assert program(family, variant) == name.removesuffix("-save")


def test_tables_of_other_names_are_nobody_s_of_the_tools(tools):
    assert Xtables("nft").present(4) == ("nat", "filter")
    assert Xtables("legacy").present(6) == ("nat",)


def test_without_a_table_no_tool_is_started(tools, monkeypatch):
    monkeypatch.setattr(xtables.nft_table, "tables", lambda family: ("theirs",))
    assert Xtables("nft").save(4) == "" and tools.started == []


@pytest.mark.parametrize(("counters", "more"), [(False, []), (True, ["-c"])])
def test_a_save(tools, counters, more):
    tools.ran = Ran(("tool",), 0, "*nat\nCOMMIT\n", "")
    assert Xtables("nft").save(6, counters) == "*nat\nCOMMIT\n"
    assert tools.started[0][0] == ["ip6tables-nft-save", *more]


def test_a_save_that_is_refused(tools):
    tools.ran = Ran(("iptables-nft-save",), 1, "", "no")
    with pytest.raises(ToolError, match="iptables-nft-save refused"):
        Xtables("nft").save(4)


def test_nft_s_tools_take_no_lock(tools):
    Xtables("nft").restore(4, "*nat\n", test=True)
    assert tools.started == [(["iptables-nft-restore", "--noflush", "--test"], "*nat\n", {})]


def test_the_legacy_tools_wait_for_the_lock_a_bounded_time(tools):
    Xtables("legacy", lock_wait=7).restore(6, "*nat\n")
    ((argv, _, more),) = tools.started
    assert argv == ["ip6tables-legacy-restore", "--noflush", "-w", "7"]
    assert more["timeout"] > 7 and "env" not in more


def test_in_a_pod_s_namespace_they_have_a_lock_of_their_own(tools, monkeypatch):
    monkeypatch.setattr(xtables.netns, "in_birthplace", lambda: False)
    before = len(os.listdir("/proc/self/fd"))
    Xtables("legacy").restore(4, "*nat\n")
    ((_, _, more),) = tools.started
    assert more["env"]["XTABLES_LOCKFILE"] == f"/proc/self/fd/{more['keep_fds'][0]}"
    assert "meshnet-xtables-lock" in tools.lock
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_lock_that_was_named_is_the_one(tools, monkeypatch):
    monkeypatch.setattr(xtables.netns, "in_birthplace", lambda: False)
    Xtables("legacy", lock_path="/x").restore(4, "*nat\n")
    assert tools.started[0][2]["env"] == {"XTABLES_LOCKFILE": "/x"}


@pytest.mark.parametrize(
    ("code", "err", "kind", "said"),
    [
        (4, "Another app is currently holding the xtables lock", BusyError, "somebody else holds the xtables lock"),
        (4, "line 2 failed", ToolError, "refused line 2: -A B"),
        (2, "Error occurred at line: 3", ToolError, "refused line 3: COMMIT"),
        (1, "Error occurred at line: 4", ToolError, "failed with status 1"),
        (1, "Error occurred at line: 0", ToolError, "failed with status 1"),
        (1, "line x failed", ToolError, "failed with status 1"),
        (1, "", ToolError, "failed with status 1"),
        (-9, "line 1 failed", ToolError, "was ended by signal 9"),
    ],
)
def test_a_restore_that_is_refused(tools, code, err, kind, said):
    tools.ran = Ran(("iptables-nft-restore",), code, "", err)
    with pytest.raises(ToolError) as refused:
        Xtables("nft").restore(4, "*nat\n-A B\nCOMMIT\n")
    assert type(refused.value) is kind
    assert said in refused.value.message and refused.value.detail == err


def test_a_restore_that_is_stopped(tools):
    work = Xtables("nft").begin(4, "*nat\n")
    work.stop()
    with pytest.raises(ToolError, match="signal 15"):
        work.finish()


EMPTY = "*nat\n:OUTPUT ACCEPT [0:0]\n:MESHNET_NEW_TABLE - [0:0]\nCOMMIT\n"


@pytest.mark.parametrize(
    ("text", "besides", "gone"),
    [
        (EMPTY, "MESHNET_NEW_TABLE", True),
        (EMPTY, "", False),
        (EMPTY.replace("COMMIT", "-A OUTPUT -j ACCEPT\nCOMMIT"), "MESHNET_NEW_TABLE", False),
        (EMPTY.replace("OUTPUT ACCEPT", "OUTPUT DROP"), "MESHNET_NEW_TABLE", False),
        (EMPTY.replace("*nat", "*raw"), "MESHNET_NEW_TABLE", False),
        ("# Table `nat' is incompatible, use 'nft' tool.\n" + EMPTY, "MESHNET_NEW_TABLE", False),
    ],
)
def test_only_a_table_that_holds_nothing_goes(tools, monkeypatch, text, besides, gone):
    asked = []
    monkeypatch.setattr(xtables.nft_table, "delete_table", lambda *words: asked.append(words) or True)
    tools.ran = Ran(("tool",), 0, text, "")
    assert Xtables("nft").delete_empty_table(6, "nat", besides) is gone
    assert asked == ([(6, "nat", ("OUTPUT", "MESHNET_NEW_TABLE"))] if gone else [])


def test_legacy_tables_stay(tools):
    assert not Xtables("legacy").delete_empty_table(4, "nat") and tools.started == []


def test_a_table_that_the_tools_can_t_print_is_told_by_its_name():
    said = "# Table `nat' is incompatible, use 'nft' tool.\n"
    assert foreign_to_tools(said, "nat")
    assert not foreign_to_tools(said, "raw")
    assert not foreign_to_tools('-A X -m comment --comment "`nat\' incompatible"\n', "nat")


def test_a_kernel_without_legacy_tables_has_none(monkeypatch):
    monkeypatch.setattr(xtables, "NAMES", {4: "no-such-file"})
    assert legacy_tables(4) == ()
    monkeypatch.setattr(xtables, "NAMES", {4: "stat"})  # a folder
    with pytest.raises(ToolError):
        legacy_tables(4)
