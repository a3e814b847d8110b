"""From one profile to another with others' rules ahead of, between and behind ours: who stands where is kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from meshnet.apply.session import Session
from meshnet.kernel.netns import where
from meshnet.model.errors import ToolError
from meshnet.spec.dialects.istio import spec_of
from meshnet.spec.dialects.istio_options import Word
from tests.netns import foreign, golden
from tests.netns.interrupted import killed_at, refuse, stopped_session
from tests.netns.snapshot import foreign_lines, run, snapshot

if TYPE_CHECKING:
    from meshnet.kernel.netns import Namespace
    from meshnet.model.spec import Profile, Spec

HOOKS = [(table, hook) for table in ("raw", "mangle", "nat") for hook in ("PREROUTING", "OUTPUT")]


def spec(profile: Profile = "istio", **options: str) -> Spec:
    given = {"istio-inbound-ports": "*", "istio-service-cidr": "*"} | {
        name.replace("_", "-"): text for name, text in options.items()
    }
    words = {name: Word(text, name) for name, text in given.items()}
    return spec_of(words, profile=profile, families=(4, 6))


REDIRECT = spec()
EXCLUDING = spec(istio_exclude_interfaces="eth8,eth9", kube_virt_interfaces="vm0,vm1", drop_invalid="true")
TPROXY = spec(istio_inbound_interception_mode="TPROXY", istio_exclude_interfaces="eth8", kube_virt_interfaces="vm1")
CORRECTED = spec("meshnet", istio_inbound_interception_mode="TPROXY", redirect_dns="true", capture_all_dns="true")
MOVES = {
    "redirect to more entries": (REDIRECT, EXCLUDING),
    "back to one entry": (EXCLUDING, REDIRECT),
    "to tproxy": (EXCLUDING, TPROXY),
    "from tproxy": (TPROXY, REDIRECT),
    "to meshnet": (TPROXY, CORRECTED),
    "from meshnet": (CORRECTED, EXCLUDING),
}


def between(namespace: Namespace, backend: str) -> None:
    """Rules of others: behind all, behind the first of ours, and ahead of all."""
    for family in (4, 6):
        for table, hook in HOOKS:
            listed = run(namespace, foreign.tool(backend, family), "-t", table, "-S", hook).splitlines()[1:]
            words = [f"-A {hook} -p tcp --dport 13 -j ACCEPT"]
            words += [f"-I {hook} 2 -p tcp --dport 12 -j ACCEPT"] if listed else []
            words += [f"-I {hook} 1 -p tcp --dport 11 -j ACCEPT"]
            foreign.restore(namespace, backend, family, "\n".join([f"*{table}", *words, "COMMIT", ""]))


def others(namespace: Namespace, backend: str) -> list[str]:
    texts = golden.saved(namespace, "nft" if backend == "iptables-nft" else "legacy")
    return [line for text in texts.values() for line in foreign_lines(text) if "dport 1" in line and "15" not in line]


@pytest.mark.parametrize("move", MOVES)
@pytest.mark.parametrize("backend", ["iptables-nft", "iptables-legacy"])
def test_a_refused_move_leaves_every_rule_in_its_place(namespace: Namespace, backend: str, move: str) -> None:
    first, second = MOVES[move]
    with Session(where(namespace.where.text), backend) as session:  # type: ignore[arg-type]
        session.apply(first)
    between(namespace, backend)
    before, theirs = snapshot(namespace), others(namespace, backend)
    assert len(theirs) >= 2 * 2 * len(HOOKS)
    for at in range(100):
        with stopped_session(namespace, backend, at, refuse, after=True) as session:
            try:
                session.apply(second)
            except ToolError:
                assert snapshot(namespace) == before, f"after step {at}"
            else:
                break
    assert at > 1
    assert others(namespace, backend) == theirs
    with Session(where(namespace.where.text), backend) as session:  # type: ignore[arg-type]
        assert session.changes(second).empty
        session.remove()
    assert others(namespace, backend) == theirs


@pytest.mark.parametrize("move", MOVES)
@pytest.mark.parametrize("backend", ["iptables-nft", "iptables-legacy", "nftables"])
def test_after_a_kill_the_next_run_finishes(namespace: Namespace, backend: str, move: str) -> None:
    """With what the first one left half-way, and others' rules in between, nothing is left over in the end."""
    first, second = MOVES[move]
    before = snapshot(namespace)
    with Session(where(namespace.where.text), backend) as session:  # type: ignore[arg-type]
        session.apply(first)
    for at in range(100):
        if not killed_at(namespace, backend, at, lambda session: session.apply(second)):
            break
        with Session(where(namespace.where.text), backend) as session:  # type: ignore[arg-type]
            session.apply(second)
            assert session.changes(second).empty
            session.apply(first)
            assert session.changes(first).empty
    assert at > (0 if backend == "nftables" else 1)
    with Session(where(namespace.where.text), backend) as session:  # type: ignore[arg-type]
        session.remove()
    assert snapshot(namespace) == before
