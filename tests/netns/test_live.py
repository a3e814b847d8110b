"""Rules that come and go under traffic: what is open goes on, and what conntrack remembers is forgotten."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from meshnet.apply import apply as changes
from meshnet.apply.session import Session
from meshnet.kernel import conntrack
from meshnet.kernel.netns import where
from tests.netns import landing
from tests.netns.commands import ROOT, meshnet
from tests.netns.landing import call, transparent
from tests.netns.pods import CLIENT, INET, POD, REMOTE, RESOLVER
from tests.netns.snapshot import run, snapshot
from tests.netns.specs import pod_spec, spec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meshnet.kernel.netns import Namespace
    from meshnet.model.spec import Spec
    from tests.netns.landing import Listeners
    from tests.netns.pods import Pod

MODES = ("redirect", "tproxy")


@pytest.fixture(params=["iptables-nft", "iptables-legacy", "nftables"])
def backend(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def listeners(pod: Pod) -> Iterator[Listeners]:
    made = landing.usual(pod)
    for family in (4, 6):
        made.udp(pod.pod, "other-dns-proxy", family, "", 15054)
    made.start()
    yield made
    made.stop()


def apply(pod: Pod, wanted: Spec, backend: str) -> tuple[str, ...]:
    """What was said about it."""
    with Session(where(pod.name), backend) as session:  # type: ignore[arg-type]
        return session.apply(wanted).notices


def queries(pod: Pod) -> list[conntrack.Entry]:
    with pod.pod.entered():
        return [
            entry
            for family in (4, 6)
            for entry in conntrack.entries(family)  # type: ignore[arg-type]
            if (entry.protocol, entry.port) == (conntrack.UDP, 53)
        ]


class Asking:
    """One socket of the application's that asks a resolver again and again, from one port."""

    def __init__(self, pod: Pod, family: int) -> None:
        with pod.pod.entered():
            self.socket = socket.socket(INET[family], socket.SOCK_DGRAM)
        self.socket.settimeout(landing.PATIENCE)
        self.socket.connect((RESOLVER[family], 53))

    def ask(self) -> str:
        self.socket.send(b"who?")
        return self.socket.recv(512).decode().split()[0]


@pytest.mark.parametrize("family", [4, 6])
def test_queries_that_conntrack_remembers_are_asked_anew(
    pod: Pod, listeners: Listeners, backend: str, family: int
) -> None:
    """The socket goes on asking from one port: before the rules, under them, with another DNS port, and after them."""
    run(
        pod.pod,
        "nft",
        "add table inet busy; add chain inet busy in { type filter hook input priority 0; }; "
        "add rule inet busy in ct state established accept",
    )
    asking = Asking(pod, family)
    with asking.socket:
        assert asking.ask() == "remote"
        assert [entry.translated for entry in queries(pod)] == [False]
        apply(pod, spec("dns: {capture: all}\n"), backend)
        assert queries(pod) == []
        assert asking.ask() == "dns-proxy"
        apply(pod, spec("dns: {capture: all}\noutbound: {excludePorts: [1]}\n"), backend)
        assert [entry.answered_from for entry in queries(pod)] == [15053], "rightly translated: stays"
        apply(pod, spec("dns: {capture: all, port: 15054}\n"), backend)
        assert queries(pod) == []
        assert asking.ask() == "other-dns-proxy"
        with Session(where(pod.name)) as session:
            session.remove()
        assert queries(pod) == []
        assert asking.ask() == "remote"


def test_an_apply_that_changes_nothing_forgets_nothing(pod: Pod, listeners: Listeners, backend: str) -> None:
    wanted = spec("dns: {capture: all}\n")
    apply(pod, wanted, backend)
    assert call(pod.pod, 4, RESOLVER[4], 53, transport="udp", uid=1337)[0] == "remote"
    before = len(queries(pod))
    apply(pod, wanted, backend)
    assert len(queries(pod)) == before > 0


def to_and_fro(one: socket.socket, other: socket.socket) -> None:
    for sender, reader in ((one, other), (other, one)):
        sender.sendall(b"still there?")
        assert reader.recv(64) == b"still there?"


class Captured:
    """A client's connection that the sidecar took, and the sidecar's own to the application, with the client's
    address: all three ends are here."""

    def __init__(self, pod: Pod, family: int) -> None:
        with pod.pod.entered():
            self.listening = socket.socket(INET[family])
            self.application = socket.socket(INET[family])
            self.onward = socket.socket(INET[family])
        for made, port in ((self.listening, 15006), (self.application, 80)):
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if made is self.listening:
                transparent(made)
            made.bind(("", port))
            made.listen()
        with pod.client.entered():
            self.client = socket.create_connection((POD[family], 80), timeout=landing.PATIENCE)
        self.proxy, _ = self.listening.accept()
        transparent(self.onward)
        self.onward.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, 0x539)
        self.onward.bind((CLIENT[family], 0))
        self.onward.settimeout(landing.PATIENCE)
        self.onward.connect((POD[family], 80))
        self.served, caller = self.application.accept()
        assert caller[0] == CLIENT[family]
        for made in (self.proxy, self.served):
            made.settimeout(landing.PATIENCE)

    def say(self) -> None:
        """To and fro, on both connections."""
        to_and_fro(self.client, self.proxy)
        to_and_fro(self.onward, self.served)

    def stop_listening(self) -> None:
        self.listening.close()
        self.application.close()

    def close(self) -> None:
        for made in (self.client, self.proxy, self.onward, self.served, self.listening, self.application):
            made.close()


@pytest.mark.parametrize("family", [4, 6])
@pytest.mark.parametrize("mode", MODES)
def test_draining(pod: Pod, backend: str, mode: str, family: int) -> None:
    """While it waits, the captured connection goes on, both halves, and a new one isn't captured; then all is gone."""
    before = snapshot(pod.pod)
    apply(pod, pod_spec(mode), backend)
    held = Captured(pod, family)
    held.say()
    words = ("remove", "--netns", pod.name, "--drain", "--patience", "20")
    draining = subprocess.Popen((sys.executable, "-m", "meshnet", *words), cwd=ROOT, stderr=subprocess.PIPE, text=True)
    try:
        assert draining.stderr is not None
        assert "open; nothing new is captured" in draining.stderr.readline()
        for _ in range(3):
            held.say()
            time.sleep(0.2)
        with pod.client.entered():
            fresh = socket.create_connection((POD[family], 80), timeout=landing.PATIENCE)
        with fresh:
            direct, _ = held.application.accept()
            direct.close()
        held.say()
        assert draining.poll() is None
        assert snapshot(pod.pod) != before
        held.close()
        assert draining.wait(20) == 0
    finally:
        draining.kill()
        draining.stderr.close()
    assert snapshot(pod.pod) == before


@pytest.mark.parametrize("mode", MODES)
def test_draining_without_patience(pod: Pod, backend: str, mode: str) -> None:
    before = snapshot(pod.pod)
    apply(pod, pod_spec(mode), backend)
    held = Captured(pod, 4)
    for _ in range(2):  # who drains again knows which connections were captured
        left = meshnet("remove", "--netns", pod.name, "--drain", "--patience", "0.3", "-o", "json")
        assert (left.code, left.data["left_open"]) == (1, 2 if mode == "redirect" else 1), left.err
        held.say()
    held.close()
    assert meshnet("remove", "--netns", pod.name, "--drain").code == 0
    assert snapshot(pod.pod) == before


def test_draining_a_table_that_somebody_has_put_something_into(pod: Pod) -> None:
    before = snapshot(pod.pod)
    apply(pod, pod_spec("redirect"), "nftables")
    held = Captured(pod, 4)
    strange = "add counter inet meshnet mine; add rule inet meshnet nat_out meta length 99 counter name mine"
    for _ in range(2):
        run(pod.pod, "nft", strange)
        left = meshnet("remove", "--netns", pod.name, "--drain", "--patience", "0", "-o", "json")
        assert (left.code, left.data["left_open"]) == (1, 2), left.err
        held.say()
    held.close()
    assert meshnet("remove", "--netns", pod.name, "--drain").code == 0
    assert snapshot(pod.pod) == before


def test_draining_nothing(pod: Pod) -> None:
    before = snapshot(pod.pod)
    assert meshnet("remove", "--netns", pod.name, "--drain").code == 0
    assert snapshot(pod.pod) == before


def test_a_spec_that_is_applied_while_draining_stays(pod: Pod, backend: str) -> None:
    apply(pod, pod_spec("redirect"), backend)
    held = Captured(pod, 4)
    words = ("remove", "--netns", pod.name, "--drain", "--patience", "20")
    draining = subprocess.Popen((sys.executable, "-m", "meshnet", *words), cwd=ROOT, stderr=subprocess.PIPE, text=True)
    assert draining.stderr is not None
    assert "open; nothing new is captured" in draining.stderr.readline()
    apply(pod, pod_spec("tproxy"), backend)
    held.close()
    assert draining.wait(20) == 1
    draining.stderr.close()
    with Session(where(pod.name)) as session:
        assert session.changes(pod_spec("tproxy")).empty


@pytest.mark.parametrize("other", ["iptables-nft", "iptables-legacy", "nftables"])
def test_draining_where_two_backends_hold_rules(pod: Pod, backend: str, other: str) -> None:
    """As a move leaves them that was killed: neither captures anything new. A backend that was asked for and holds
    nothing is no reason to take the other one's rules away under what is open."""
    before = snapshot(pod.pod)
    apply(pod, pod_spec("redirect"), backend)
    if other != backend:
        with Session(where(pod.name), other) as session:  # type: ignore[arg-type]
            changes.apply(session.host, session.compile(pod_spec("redirect")).plan)
    held = Captured(pod, 4)
    for asked in (other, "auto"):
        left = meshnet("remove", "--netns", pod.name, "--backend", asked, "--drain", "--patience", "0", "-o", "json")
        assert (left.code, left.data["left_open"]) == (1, 2), left.err
        held.say()
    with pod.client.entered():
        fresh = socket.create_connection((POD[4], 80), timeout=landing.PATIENCE)
    with fresh:
        held.application.accept()[0].close()
    held.close()
    assert meshnet("remove", "--netns", pod.name, "--drain").code == 0
    assert snapshot(pod.pod) == before


class Redirected:
    """A connection that the sidecar took on ``port`` of its own, and that it keeps for itself."""

    def __init__(self, pod: Pod, caller: Namespace, address: str, port: int) -> None:
        family = 6 if ":" in address else 4
        with pod.pod.entered():
            listening = socket.create_server(("", port), family=INET[family])
        with listening:
            with caller.entered():
                self.caller = socket.create_connection((address, 80), timeout=landing.PATIENCE)
            self.proxy, _ = listening.accept()
        self.proxy.settimeout(landing.PATIENCE)

    def close(self) -> None:
        self.caller.close()
        self.proxy.close()


WITHOUT_REDIRECTION = {
    "tproxy": "inbound: {mode: tproxy}\noutbound: {mode: none}\n",
    "queries": "inbound: {mode: none}\noutbound: {mode: none}\ndns: {capture: resolvers, resolvers: [192.0.2.53]}\n",
    "one-family": "inbound: {mode: none}\noutbound: {cidrs: [198.51.100.0/24]}\n",
    "nothing": "inbound: {mode: none}\noutbound: {mode: none}\n",
}


@pytest.mark.parametrize("family", [4, 6])
@pytest.mark.parametrize("then", WITHOUT_REDIRECTION)
def test_redirected_connections_outlive_the_last_redirection(pod: Pod, backend: str, then: str, family: int) -> None:
    """Without any chain of nat the kernel would translate them no longer: the next segment met a reset."""
    before = snapshot(pod.pod)
    apply(pod, pod_spec("redirect", source=False), backend)
    held = (
        Redirected(pod, pod.client, POD[family], 15006),
        Redirected(pod, pod.pod, REMOTE[family], 15001),
    )
    wanted = spec(f"families: [ipv4, ipv6]\n{WITHOUT_REDIRECTION[then]}")
    apply(pod, wanted, backend)
    for _ in range(2):
        for each in held:
            to_and_fro(each.caller, each.proxy)
    with Session(where(pod.name), backend) as session:  # type: ignore[arg-type]
        assert session.changes(wanted).empty
        session.remove()
    for each in held:
        each.close()
    assert snapshot(pod.pod) == before


LEADING_ELSEWHERE = {
    "without": "inbound: {mode: redirect, originalSource: false}\n",
    "another-mark": "inbound: {mode: redirect, originalSource: true}\nmarks: {inbound: 0x53b}\n",
}


@pytest.mark.parametrize("family", [4, 6])
@pytest.mark.parametrize("then", LEADING_ELSEWHERE)
def test_a_word_about_connections_that_the_new_rules_do_not_lead_back(
    pod: Pod, backend: str, then: str, family: int
) -> None:
    """Ahead of it, in a dry run too, and about nothing else: what the rules still carry is no reason."""
    source = {name: f"families: [ipv4, ipv6]\n{text}" for name, text in LEADING_ELSEWHERE.items()}
    apply(pod, pod_spec("redirect"), backend)
    held = Captured(pod, family)
    held.say()
    assert apply(pod, pod_spec("tproxy"), backend) == ()
    held.say()
    assert apply(pod, pod_spec("redirect"), backend) == ()
    held.say()
    with Session(where(pod.name), backend) as session:  # type: ignore[arg-type]
        session.changes(spec(source[then]))
        (would,) = session.notices
    assert would.startswith("1 open connection loses the way back to the sidecar")
    assert apply(pod, spec(source[then]), backend) == (would,)
    to_and_fro(held.client, held.proxy)
    held.onward.settimeout(0.3)
    with pytest.raises(TimeoutError):
        to_and_fro(held.onward, held.served)
    assert apply(pod, spec(source[then]), backend) == (), "nothing to do"
    held.close()


@pytest.mark.parametrize("other", ["iptables-nft", "iptables-legacy", "nftables"])
def test_a_word_about_connections_that_another_backends_rules_lead_back(pod: Pod, backend: str, other: str) -> None:
    apply(pod, pod_spec("redirect"), backend)
    held = Captured(pod, 4)
    lost = apply(pod, pod_spec("redirect", source=False), other)
    assert any(note.startswith("1 open connection loses") for note in lost)
    held.close()


def test_a_move_that_loses_nothing_says_nothing_of_it(pod: Pod) -> None:
    apply(pod, pod_spec("redirect"), "iptables-nft")
    held = Captured(pod, 4)
    moved = apply(pod, pod_spec("redirect"), "nftables")
    assert not any("open connection" in note for note in moved)
    held.say()
    held.close()
