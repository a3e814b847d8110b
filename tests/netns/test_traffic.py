"""A thousand new connections a second while one spec takes another one's place: counted at both ends, none lost."""

from __future__ import annotations

import os
import selectors
import socket
import struct
import time
from typing import TYPE_CHECKING

import pytest

from meshnet.apply.session import Session
from meshnet.kernel.netns import where
from tests.netns.landing import transparent
from tests.netns.pods import POD
from tests.netns.specs import pod_spec

if TYPE_CHECKING:
    from collections.abc import Callable

    from meshnet.kernel.netns import Namespace
    from meshnet.model.spec import Spec
    from tests.netns.pods import Pod

RATE = 1000
ONE = pod_spec("tproxy", more='outbound: {excludePorts: [1, 3, 5], excludeCidrs: [10.1.0.0/16, "fd01::/16"]}\n')
OTHER = pod_spec("tproxy", ports='[80, 443, "9000-9100"]', more="dns: {capture: all}\n")
REDIRECT = pod_spec("redirect")
CHANGES = {"tproxy to tproxy": (ONE, OTHER), "tproxy to redirect": (ONE, REDIRECT)}


def in_child(work: Callable[[int], None]) -> tuple[int, int]:
    """A process that does the work with one end of a pipe; its id, and the end that its words come out of."""
    out, into = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.close(out)
            work(into)
            code = 0
        finally:
            os._exit(code)
    os.close(into)
    return pid, out


def told(child: tuple[int, int]) -> list[int]:
    """The numbers that a child wrote before its end."""
    pid, out = child
    with os.fdopen(out) as words:
        said = words.read()
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0, said
    return [int(word) for word in said.split()]


def serve(pod: Namespace, stop: int, into: int) -> None:
    """The sidecar's listener and the application's: how many calls each got, once ``stop`` is closed."""
    selector = selectors.DefaultSelector()
    counts = {"proxy": 0, "application": 0}
    with pod.entered():
        for name, port in (("proxy", 15006), ("application", 80)):
            made = socket.socket()
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if name == "proxy":
                transparent(made)
            made.bind(("", port))
            made.listen(1024)
            made.setblocking(False)
            selector.register(made, selectors.EVENT_READ, name)
    selector.register(stop, selectors.EVENT_READ, "stop")
    os.write(into, b"0 ")
    while True:
        for key, _ in selector.select():
            if key.data == "stop":
                os.write(into, f"{counts['proxy']} {counts['application']}".encode())
                return
            accepted, _ = key.fileobj.accept()  # type: ignore[union-attr]
            with accepted:
                accepted.sendall(b"p" if key.data == "proxy" else b"a")
                accepted.shutdown(socket.SHUT_WR)
            counts[key.data] += 1


def calls(client: Namespace, seconds: float, into: int) -> None:
    """Calls at an even pace: how many were made, answered by the sidecar, by the application, and not at all."""
    found = {b"p": 0, b"a": 0, b"": 0}
    start, made = time.monotonic(), 0
    with client.entered():
        while (now := time.monotonic() - start) < seconds:
            if made > now * RATE:
                time.sleep(0.0005)
                continue
            made += 1
            with socket.socket() as call:
                call.settimeout(5)
                try:
                    call.connect((POD[4], 80))
                    answer = call.recv(8)
                    while call.recv(8):
                        pass
                except OSError:
                    answer = b""
                call.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            found[answer] += 1
    os.write(into, f"{made} {found[b'p']} {found[b'a']} {found[b'']}".encode())


def under_traffic(pod: Pod, backend: str, change: tuple[Spec, Spec], seconds: float, replacements: int) -> None:
    def apply(wanted: Spec) -> None:
        with Session(where(pod.name), backend) as session:  # type: ignore[arg-type]
            assert not session.apply(wanted).changes.empty

    apply(change[0])
    if backend == "nftables":
        with Session(where(pod.name), backend) as session:
            assert sum(len(chain.rules) for chain in session.compile(change[0]).plan.nft[0].chains) >= 25
    stop, going = os.pipe()
    server = in_child(lambda into: (os.close(going), serve(pod.pod, stop, into))[1])  # type: ignore[func-returns-value]
    os.read(server[1], 2)
    client = in_child(lambda into: calls(pod.client, seconds, into))
    start = time.monotonic()
    for number in range(replacements):
        time.sleep(max(0.0, start + (number + 0.5) * seconds / replacements - time.monotonic()))
        apply(change[1 - number % 2])
    made, by_proxy, by_application, lost = told(client)
    os.close(going)
    accepted, direct = told(server)
    os.close(stop)
    assert (by_proxy, by_application, lost) == (made, 0, 0)
    assert (accepted, direct) == (made, 0)
    assert made > seconds * RATE * 0.7, "the machine kept up"


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("backend", ["iptables-nft", "iptables-legacy", "nftables"])
def test_replacing_under_traffic(pod: Pod, backend: str, change: str) -> None:
    under_traffic(pod, backend, CHANGES[change], 3.0, 6)


@pytest.mark.long
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("backend", ["iptables-nft", "nftables"])
def test_fifty_replacements_in_thirty_seconds(pod: Pod, backend: str, change: str) -> None:
    under_traffic(pod, backend, CHANGES[change], 30.0, 50)
