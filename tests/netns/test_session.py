"""What a visit to a namespace costs in processes, and what it goes by when it chooses a backend."""

from __future__ import annotations

import os
import posix
import signal
import time
from typing import TYPE_CHECKING

import pytest

from meshnet.apply.session import Session
from meshnet.kernel import netns
from meshnet.kernel.netns import where
from meshnet.model.errors import BusyError
from tests.netns import foreign
from tests.netns.snapshot import run, snapshot
from tests.netns.specs import pod_spec

if TYPE_CHECKING:
    from meshnet.kernel.netns import Namespace

VARIANTS = ("nft", "legacy")
WANTED = pod_spec("tproxy")


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The programs that are started, in order."""
    names: list[str] = []
    real = posix.posix_spawn

    def spawn(path: str, argv: list[str], *rest: object, **more: object) -> int:
        names.append(" ".join(word for word in argv if not word.isdigit()))
        return real(path, argv, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(posix, "posix_spawn", spawn)
    return names


def apply(namespace: Namespace, backend: str = "auto") -> str:
    with Session(where(namespace.where.text), backend) as session:  # type: ignore[arg-type]
        session.apply(WANTED)
        return session.backend


@pytest.mark.parametrize("asked", ["auto", "iptables-nft", "iptables-legacy"])
def test_a_fresh_namespace_takes_two_processes_for_each_family(
    namespace: Namespace, asked: str, started: list[str]
) -> None:
    tool = apply(namespace, asked)
    waits = " -w" if tool == "iptables-legacy" else ""
    six = tool.replace("iptables", "ip6tables")
    assert started == [
        "ip -4 -batch -",
        "ip -6 -batch -",
        f"{tool}-restore --noflush{waits}",
        f"{six}-restore --noflush{waits}",
    ]


def test_nftables_takes_one_process_for_both_families_and_none_to_look(
    namespace: Namespace, started: list[str]
) -> None:
    assert apply(namespace, "nftables") == "nftables"
    assert started == ["nft --version", "ip -4 -batch -", "ip -6 -batch -", "nft -f -"]
    started.clear()
    assert apply(namespace, "nftables") == apply(namespace) == "nftables"
    assert started == []


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("named", ["auto", "by name"])
def test_a_second_run_takes_one_save_for_each_family(
    namespace: Namespace, variant: str, named: str, started: list[str]
) -> None:
    backend = f"iptables-{variant}"
    apply(namespace, backend)
    started.clear()
    assert apply(namespace, "auto" if named == "auto" else backend) == backend
    assert started == [f"iptables-{variant}-save", f"ip6tables-{variant}-save"]


def test_tables_of_nft_s_own_cost_no_process(namespace: Namespace, started: list[str]) -> None:
    """iptables-nft neither reads nor writes a table that isn't named as one of its own."""
    run(namespace, "nft", "-f", "-", text="table ip theirs { chain a { accept; }; }\ntable inet nat { }\n")
    with Session(where(namespace.where.text)) as session:
        assert session.changes(WANTED).differences
    assert started == []


def test_legacy_tables_that_somebody_merely_looked_at_are_no_evidence(namespace: Namespace) -> None:
    """``iptables-legacy -L`` makes the table that it lists: the next run must not go over to legacy for that."""
    system = apply(namespace)
    with Session(where(namespace.where.text)) as session:
        session.remove()
    for tool in ("iptables-legacy", "ip6tables-legacy"):
        run(namespace, tool, "-t", "nat", "-L", "-n")
    with namespace.entered(), open("/proc/thread-self/net/ip_tables_names") as file:
        assert "nat" in file.read()
    assert apply(namespace) == system == "iptables-nft"
    assert apply(namespace) == system
    assert "MESHNET" not in snapshot(namespace)["iptables-legacy"]


def test_empty_nft_tables_are_no_evidence_either(namespace: Namespace) -> None:
    for family in (4, 6):
        foreign.restore(namespace, "iptables-nft", family, "*nat\n-A OUTPUT -j ACCEPT\n-D OUTPUT -j ACCEPT\nCOMMIT\n")
    foreign.restore(namespace, "iptables-legacy", 4, "*nat\n-A POSTROUTING -o eth9 -j MASQUERADE\nCOMMIT\n")
    assert apply(namespace) == "iptables-legacy"


def test_what_changed_after_the_look_is_seen_by_the_second_question(namespace: Namespace) -> None:
    apply(namespace)
    with Session(where(namespace.where.text)) as session:
        assert session.changes(WANTED).empty
        run(namespace, "iptables-nft", "-t", "mangle", "-F", "MESHNET_INBOUND")
        assert not session.changes(WANTED).empty
        assert not session.apply(WANTED).changes.empty
        assert session.apply(WANTED).changes.empty


def test_nobody_looks_before_the_end_of_a_restore_whose_owner_was_killed(namespace: Namespace) -> None:
    """A tool outlives the process that started it: the namespace stays held until it has ended as well."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            with netns.held(namespace, 1):
                from meshnet.kernel.run import start

                start(["sleep", "1"])
                os.write(write, b"x")
                os.kill(os.getpid(), signal.SIGKILL)
        finally:
            os._exit(1)
    try:
        assert os.read(read, 1) == b"x"
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
        with pytest.raises(BusyError), netns.held(namespace, 0.05):
            pass
        begin = time.monotonic()
        with netns.held(namespace, 10):
            assert time.monotonic() - begin > 0.3
    finally:
        os.close(read)
        os.close(write)


def test_a_child_that_stays_keeps_nothing_from_an_owner_that_left(namespace: Namespace) -> None:
    from meshnet.kernel.run import start

    with netns.held(namespace, 1):
        child = start(["sleep", "5"])
    with child, netns.held(namespace, 0.1):
        pass
