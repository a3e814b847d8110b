"""Whatever step fails, the namespace is as it was; whatever step a kill hits, the next run finishes or undoes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from meshnet.apply.session import Session
from meshnet.kernel.netns import where
from meshnet.model.errors import MeshnetError, ToolError
from tests.netns import foreign
from tests.netns.interrupted import killed_at, refuse, stopped_session
from tests.netns.snapshot import run, snapshot
from tests.netns.specs import pod_spec

if TYPE_CHECKING:
    from collections.abc import Callable

    from meshnet.kernel import ports
    from meshnet.kernel.netns import Namespace
    from meshnet.model.spec import Spec

    Work = Callable[[Session], Any]

BACKENDS = ("iptables-nft", "iptables-legacy", "libiptc", "nftables")
REDIRECT, TPROXY = pod_spec("redirect"), pod_spec("tproxy")
CAPTURING_DNS = pod_spec("redirect", more="dns: {capture: all}\nrouting: {table: 200}")


def to(wanted: Spec) -> Work:
    return lambda session: session.apply(wanted)


WORKS: dict[str, tuple[Work | None, Work, Work]] = {
    "the first apply": (None, to(TPROXY), lambda session: session.changes(TPROXY)),
    "redirect to tproxy": (to(CAPTURING_DNS), to(TPROXY), lambda session: session.changes(TPROXY)),
    "tproxy to redirect": (to(TPROXY), to(CAPTURING_DNS), lambda session: session.changes(CAPTURING_DNS)),
    "remove": (to(CAPTURING_DNS), lambda session: session.remove(), lambda session: session.removal()),
}
"""What is there first, what is done then, and what tells whether it is done."""


def settle(namespace: Namespace, backend: str, first: Work | None) -> None:
    if first is not None:
        with Session(where(namespace.where.text), backend) as session:
            first(session)


def behind_others(namespace: Namespace, backend: str) -> None:
    """Somebody puts rules ahead of our entries after we came: where ours stand is part of how it was."""
    for family in (4, 6):
        text = "".join(
            f"*{table}\n" + "".join(f"-I {hook} 1 -p tcp --dport {port} -j ACCEPT\n" for port in (11, 12)) + "COMMIT\n"
            for table in ("mangle", "nat", "raw")
            for hook in ("PREROUTING", "OUTPUT")
        )
        foreign.restore(namespace, backend, family, text)


@pytest.mark.parametrize("after", [False, True], ids=["ahead", "after"])
@pytest.mark.parametrize("others", [False, True], ids=["alone", "beside others"])
@pytest.mark.parametrize("work", WORKS)
@pytest.mark.parametrize("backend", ["iptables-nft", "iptables-legacy", "nftables"])
def test_any_step_fails(namespace: Namespace, backend: str, work: str, others: bool, after: bool) -> None:
    """Refused ahead of each step in turn, and after it was done; in the end, with no step refused, it works."""
    first, second, _ = WORKS[work]
    settle(namespace, backend, first)
    if others:
        behind_others(namespace, backend)
    before = snapshot(namespace)
    for at in range(100):
        with stopped_session(namespace, backend, at, refuse, after) as session:
            try:
                second(session)
            except ToolError as error:
                assert "the namespace is as it was" in error.message
                assert snapshot(namespace) == before, f"step {at} refused"
            else:
                break
    assert at > 2, "every step was tried"
    assert snapshot(namespace) != before


@pytest.mark.parametrize("finish", ["apply", "remove"])
@pytest.mark.parametrize("work", WORKS)
@pytest.mark.parametrize("backend", ["iptables-nft", "iptables-legacy", "nftables"])
def test_killed_at_any_step(scratch: Callable[[], Namespace], backend: str, work: str, finish: str) -> None:
    first, second, changes = WORKS[work]
    for at in range(100):
        namespace = scratch()
        foreign.restore(namespace, backend, 4, "*nat\n-A POSTROUTING -o eth9 -j MASQUERADE\nCOMMIT\n")
        before = snapshot(namespace)
        settle(namespace, backend, first)
        if not killed_at(namespace, backend, at, second):
            break
        with Session(where(namespace.where.text), backend) as session:
            if finish == "apply":
                second(session)
                assert changes(session).empty, f"killed ahead of step {at}"
            session.remove()
        assert snapshot(namespace) == before, f"killed ahead of step {at}"
    assert at > 2


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("family", [4, 6])
def test_a_foreign_route_is_in_the_way(namespace: Namespace, backend: str, family: int) -> None:
    """The kernel has one route of that destination in table 133, and it isn't ours: refused, and nothing stays."""
    run(namespace, "ip", f"-{family}", "route", "add", "local", "default", "dev", "lo", "table", "133", "proto", "99")
    before = snapshot(namespace)
    with (
        Session(where(namespace.where.text), backend) as session,
        pytest.raises(MeshnetError) as error,
    ):
        session.apply(TPROXY)
    assert "routing.table" in error.value.hint
    assert "the namespace is as it was" in error.value.message
    assert snapshot(namespace) == before


@pytest.mark.parametrize("backend", BACKENDS)
def test_ipv6_switched_off(namespace: Namespace, backend: str) -> None:
    """With disable_ipv6 rules and policy rules go in, address and route don't: an explicit spec is refused whole."""
    with namespace.entered(), open("/proc/sys/net/ipv6/conf/all/disable_ipv6", "w") as file:
        file.write("1")
    before = snapshot(namespace)
    with (
        Session(where(namespace.where.text), backend) as session,
        pytest.raises(MeshnetError) as error,
    ):
        session.apply(TPROXY)
    assert "the namespace is as it was" in error.value.message
    assert snapshot(namespace) == before


@pytest.mark.parametrize("first", ["nothing", "redirect"])
@pytest.mark.parametrize("families", [(4,), (6,), (4, 6)], ids=["IPv4", "IPv6", "both"])
@pytest.mark.parametrize("backend", ["iptables-nft", "iptables-legacy"])
def test_a_tool_refuses_one_family(namespace: Namespace, backend: str, families: tuple[int, ...], first: str) -> None:
    """A rule that the tool refuses in the second table of one family, while the other family's restore goes in: the
    first table, already changed, and all of the other family go back."""
    settle(namespace, backend, to(CAPTURING_DNS) if first == "redirect" else None)
    behind_others(namespace, backend)
    before = snapshot(namespace)
    with Session(where(namespace.where.text), backend) as session:
        host = session.host
        real, spoiled = host.tables, set(families)

        def spoil(family: int, text: str, **more: bool) -> ports.Work[object]:
            if family in spoiled:
                spoiled.discard(family)
                text = text.replace("*nat\n", "*nat\n-A NO_SUCH_CHAIN -j RETURN\n")
            return real.begin(family, text, **more)  # type: ignore[arg-type]

        class Spoiled:
            name = real.name
            begin_save = real.begin_save
            begin = staticmethod(spoil)
            restore = real.restore
            delete_empty_table = real.delete_empty_table

        host.tables = Spoiled()  # type: ignore[assignment]
        with pytest.raises(ToolError, match="NO_SUCH_CHAIN") as error:
            session.apply(TPROXY)
        assert not spoiled and "the namespace is as it was" in error.value.message
    assert snapshot(namespace) == before
