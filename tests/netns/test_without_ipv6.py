"""IPv6 that can't be had: an error where others can reach the pod by it, a note where nobody can."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from meshnet.apply.host import LiveHost
from meshnet.apply.session import Session
from meshnet.kernel import detect, links
from meshnet.kernel import run as processes
from meshnet.kernel.netns import Namespace, Where
from meshnet.model.errors import ToolError, UnsupportedError
from meshnet.model.plan import Step
from meshnet.model.spec import Spec
from tests.netns.snapshot import snapshot

if TYPE_CHECKING:
    from meshnet.kernel.ports import Work

AUTO, ONLY4, BOTH = Spec(), Spec(families=(4,)), Spec(families=(4, 6))


def place(namespace: Namespace) -> Where:
    return Where("path", f"/proc/self/fd/{namespace.fd}")


def reach_by_ipv6(namespace: Namespace) -> None:
    links.veth(namespace, "eth0", namespace, "far0")
    links.address(namespace, "eth0", "2001:db8::10/64")
    links.up(namespace, "eth0", "far0")


@pytest.fixture
def no_ip6tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """An image that has the IPv4 tools alone."""
    real = processes.find
    monkeypatch.setattr(detect, "find", lambda program: None if program.startswith("ip6tables") else real(program))


@pytest.fixture
def refused_ip6tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that takes the IPv4 rules and not those of IPv6."""
    real = LiveHost.begin

    def begin(self: LiveHost, step: Step) -> Work[object]:
        if (step.tool, step.family) == ("restore", 6):
            raise ToolError("ip6tables-restore refused", detail="no such table")
        return real(self, step)

    monkeypatch.setattr(LiveHost, "begin", begin)


def test_without_the_tool_and_without_a_global_address_ipv6_is_left_out(
    namespace: Namespace, no_ip6tables: None
) -> None:
    with Session(place(namespace)) as session:
        receipt = session.apply(AUTO)
        assert {step.family for step in receipt.changes.steps} == {4}
        assert any("IPv6 left out" in notice for notice in receipt.notices)
        assert session.changes(AUTO).empty


def test_without_the_tool_a_pod_that_is_reached_by_ipv6_is_an_error(namespace: Namespace, no_ip6tables: None) -> None:
    reach_by_ipv6(namespace)
    before = snapshot(namespace)
    with Session(place(namespace)) as session, pytest.raises(UnsupportedError, match="ip6tables is missing"):
        session.apply(AUTO)
    assert snapshot(namespace) == before


def test_without_the_tool_who_asks_for_ipv6_is_refused_and_who_asks_for_ipv4_is_served(
    namespace: Namespace, no_ip6tables: None
) -> None:
    reach_by_ipv6(namespace)
    with Session(place(namespace)) as session:
        with pytest.raises(UnsupportedError):
            session.apply(BOTH)
        assert session.apply(ONLY4).notices == ()
        assert session.changes(ONLY4).empty


def test_refused_rules_and_no_global_address_leave_ipv6_out(namespace: Namespace, refused_ip6tables: None) -> None:
    with Session(place(namespace)) as session:
        receipt = session.apply(AUTO)
        assert any("IPv6 left out" in notice and "no such table" in notice for notice in receipt.notices)
        assert session.changes(ONLY4).empty


def test_refused_rules_in_a_pod_that_is_reached_by_ipv6_are_an_error(
    namespace: Namespace, refused_ip6tables: None
) -> None:
    reach_by_ipv6(namespace)
    before = snapshot(namespace)
    with Session(place(namespace)) as session, pytest.raises(ToolError, match="the namespace is as it was"):
        session.apply(AUTO)
    assert snapshot(namespace) == before
