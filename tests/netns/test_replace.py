"""While one spec takes the place of another, nothing that both capture slips by; not even when the work is killed."""

from __future__ import annotations

import multiprocessing
import socket
from typing import TYPE_CHECKING

import pytest

from meshnet.apply.session import Session
from meshnet.kernel.netns import where
from tests.netns import landing
from tests.netns.interrupted import killed_at
from tests.netns.landing import call, transparent
from tests.netns.pods import CLIENT, INET, POD, REMOTE
from tests.netns.specs import pod_spec

if TYPE_CHECKING:
    from collections.abc import Callable

    from meshnet.model.spec import Spec
    from tests.netns.landing import Listeners
    from tests.netns.pods import Pod

REDIRECT, TPROXY = pod_spec("redirect"), pod_spec("tproxy")
ISTIO_REDIRECT = pod_spec("redirect", more="profile: istio\nmarks: {mask: 0xffffffff}\n", source=False)
ISTIO_TPROXY = pod_spec("tproxy", more="profile: istio\nmarks: {mask: 0xffffffff}\n")
CHANGES = {
    "redirect to tproxy": (REDIRECT, TPROXY),
    "tproxy to redirect": (TPROXY, REDIRECT),
    "tproxy to another mark and table": (
        TPROXY,
        pod_spec("tproxy", more="marks: {inbound: 0x111, outbound: 0x112}\nrouting: {table: 200}"),
    ),
    "redirect, other ports": (
        pod_spec("redirect", ports='[80, "9000-9100"]'),
        pod_spec("redirect", ports="[79, 80, 81, 443]", more="outbound: {excludePorts: [1], ports: [443]}"),
    ),
    "tproxy, other ports": (
        pod_spec("tproxy", ports='[80, "9000-9100"]'),
        pod_spec("tproxy", ports="[79, 80, 81, 443]", more="outbound: {excludePorts: [1], ports: [443]}"),
    ),
    "istio, redirect to tproxy": (ISTIO_REDIRECT, ISTIO_TPROXY),
    "istio, tproxy to redirect": (ISTIO_TPROXY, ISTIO_REDIRECT),
    "istio to meshnet": (ISTIO_REDIRECT, TPROXY),
    "meshnet to istio": (TPROXY, ISTIO_REDIRECT),
    "to DNS capture": (REDIRECT, pod_spec("tproxy", more="dns: {capture: all}\ninterfaces: {exclude: [eth5]}")),
}


@pytest.fixture(params=["iptables-nft", "iptables-legacy", "nftables"])
def backend(request: pytest.FixtureRequest) -> str:
    return request.param


def apply(pod: Pod, wanted: Spec, backend: str) -> None:
    with Session(where(pod.name), backend) as session:
        session.apply(wanted)


def captured(pod: Pod, when: str) -> None:
    """What the old spec and the new one both capture: a client's call, the sidecar's own, the application's."""
    for family in (4, 6):
        found = (
            call(pod.client, family, POD[family], 80)[0],
            call(pod.pod, family, POD[family], 80, uid=1337, gid=1337)[0],
            call(pod.pod, family, REMOTE[family], 443)[0],
        )
        assert found == ("inbound-proxy", "inbound-proxy", "outbound-proxy"), f"IPv{family}, {when}"


@pytest.mark.parametrize("change", CHANGES)
def test_killed_between_two_steps(pod: Pod, listeners: Listeners, backend: str, change: str) -> None:
    """After a kill ahead of each step: still captured; and then the next apply finishes."""
    old, new = CHANGES[change]
    for at in range(100):
        apply(pod, old, backend)
        killed = killed_at(pod.pod, backend, at, lambda session: session.apply(new))
        captured(pod, f"killed ahead of step {at}")
        apply(pod, new, backend)
        with Session(where(pod.name), backend) as session:
            assert session.changes(new).empty
        if not killed:
            break
    assert at > (0 if backend == "nftables" else 1), "every step was tried"
    captured(pod, "when it is done")


def test_new_connections_during_replacements(pod: Pod, listeners: Listeners, backend: str) -> None:
    """Twenty replacements to and fro, and all the while a client and the application open new connections."""
    apply(pod, REDIRECT, backend)
    during(pod, listeners, lambda number: apply(pod, TPROXY if number % 2 == 0 else REDIRECT, backend))


def during(pod: Pod, listeners: Listeners, work: Callable[[int], None]) -> None:
    """Twenty pieces of work, and every connection meanwhile is captured."""
    fork = multiprocessing.get_context("fork")

    def replace() -> None:
        for number in range(20):
            work(number)

    worker = fork.Process(target=replace)
    worker.start()
    landings: dict[str, int] = {}
    calls = 0
    while worker.is_alive() and calls < 4000:
        for family in (4, 6):
            for name in (
                f"in: {call(pod.client, family, POD[family], 80)[0]}",
                f"out: {call(pod.pod, family, REMOTE[family], 443)[0]}",
            ):
                landings[name] = landings.get(name, 0) + 1
                calls += 1
    worker.join(120)
    assert worker.exitcode == 0
    assert landings.keys() == {"in: inbound-proxy", "out: outbound-proxy"}, landings
    assert calls > 40, "connections were made during the replacements"
    assert "application" not in listeners.seen and "remote" not in listeners.seen


@pytest.mark.parametrize("other", ["iptables-nft", "iptables-legacy"])
@pytest.mark.parametrize("wanted", [REDIRECT, TPROXY], ids=["redirect", "tproxy"])
def test_new_connections_while_moving_to_another_backend(
    pod: Pod, listeners: Listeners, other: str, wanted: Spec
) -> None:
    """To nftables and back, and all the while new connections: new rules stand before the old ones go."""
    apply(pod, wanted, other)
    during(pod, listeners, lambda number: apply(pod, wanted, other if number % 2 else "nftables"))


@pytest.mark.parametrize("family", [4, 6])
@pytest.mark.parametrize(("old", "new"), [(REDIRECT, TPROXY), (TPROXY, REDIRECT)], ids=["to tproxy", "to redirect"])
def test_a_captured_connection_goes_on(pod: Pod, backend: str, old: Spec, new: Spec, family: int) -> None:
    """A client talks with the sidecar under the old spec, and goes on under the new one."""
    apply(pod, old, backend)
    with pod.pod.entered():
        listening = socket.socket(INET[family])
    transparent(listening)
    listening.bind(("", 15006))
    listening.listen()
    with pod.client.entered():
        client = socket.socket(INET[family])
    with listening, client:
        client.settimeout(landing.PATIENCE)
        client.bind((CLIENT[family], 0))
        client.connect((POD[family], 80))
        accepted, _ = listening.accept()
        with accepted:
            accepted.settimeout(landing.PATIENCE)
            for _ in range(2):
                for one, other in ((client, accepted), (accepted, client), (client, accepted)):
                    one.sendall(b"still there?")
                    assert other.recv(64) == b"still there?"
                apply(pod, new, backend)
