"""The demo: one pod, four ways to set it up, and the client address that its application sees in each.

Client and pod are namespaces without a name: they end with this process, however it ends, and so does what is in them.
"""

from __future__ import annotations

import socket

from meshnet.apply.session import Session
from meshnet.compile.resolve import resolve
from meshnet.kernel import links, netns
from meshnet.kernel.netns import Where
from meshnet.lab import servers
from meshnet.lab.installed import has_envoy
from meshnet.lab.process import start_application
from meshnet.model.errors import ToolError
from meshnet.model.names import PASSTHROUGH4, PASSTHROUGH6
from meshnet.model.spec import Inbound, Spec
from meshnet.model.value import replace, value
from meshnet.probe.verify import verify
from meshnet.sidecar.config import settings_of
from meshnet.sidecar.envoy import Envoy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Literal

    from meshnet.apply.session import Asked
    from meshnet.kernel.netns import Namespace
    from meshnet.model.cidr import Family
    from meshnet.probe.verify import Verified

    Kind = Literal["envoy", "embedded"]

FAMILIES: tuple[Family, ...] = (4, 6)
CLIENT: dict[Family, str] = {4: "10.109.0.2", 6: "fd6d:6e::2"}
POD: dict[Family, str] = {4: "10.109.0.10", 6: "fd6d:6e::10"}
LENGTH: dict[Family, int] = {4: 24, 6: 64}
PASSTHROUGH: dict[Family, str] = {4: PASSTHROUGH4, 6: PASSTHROUGH6}
APPLICATION_PORT, APPLICATION_UID = 80, 1000
REQUEST_SECONDS = 5.0


@value
class Row:
    """One way to set the pod up; ``spec`` is None for none at all."""

    name: str
    spec: Spec | None
    keeps_source: bool


@value
class Outcome:
    """What one row showed, per family: who the application saw, whom it should see, and where the request went."""

    row: Row
    expected: dict[Family, str]
    seen: dict[Family, str]
    through_sidecar: int
    verified: Verified | None

    @property
    def ok(self) -> bool:
        probes = self.verified is None or self.verified.ok
        captured = self.through_sidecar == (0 if self.row.spec is None else len(FAMILIES))
        return self.seen == self.expected and probes and captured


def rows() -> tuple[Row, ...]:
    """The four ways."""
    base = Spec(name="demo", families=FAMILIES)
    plain = replace(base, inbound=Inbound(mode="tproxy", original_source=False))
    redirect = replace(base, inbound=Inbound(mode="redirect", original_source=False))
    return (
        Row("without rules", None, True),
        Row("redirect", redirect, False),
        Row("tproxy", plain, False),
        Row("tproxy, original source", base, True),
    )


def usual_sidecar() -> Kind:
    """Envoy where it is installed."""
    return "envoy" if has_envoy() else "embedded"


def run(
    backend: Asked = "auto", progress: Callable[[str], None] = lambda _: None, sidecar: Kind | None = None
) -> tuple[Outcome, ...]:
    """Build client and pod, and show each row; ``progress`` hears the name of the row that begins.

    PermissionMissing without root, UnsupportedError without scapy or iptables, ToolError when a server won't start.
    """
    with netns.unnamed() as client, netns.unnamed() as pod:
        _cable(client, pod)
        outcomes = []
        for row in rows():
            progress(row.name)
            outcomes.append(_show(row, client, pod, backend, sidecar or usual_sidecar()))
        return tuple(outcomes)


def _cable(client: Namespace, pod: Namespace) -> None:
    for namespace in (client, pod):
        links.quiet_ipv6(namespace)
    links.veth(client, "eth0", pod, "eth0")
    for namespace, ends in ((client, CLIENT), (pod, POD)):
        for family in FAMILIES:
            links.address(namespace, "eth0", f"{ends[family]}/{LENGTH[family]}")
        links.up(namespace, "lo", "eth0")
    links.route(pod, "default", via=CLIENT[4])
    links.route(pod, "default6", via=CLIENT[6])


def _show(row: Row, client: Namespace, pod: Namespace, backend: Asked, kind: Kind) -> Outcome:
    verified = None
    if row.spec is not None:
        with Session(Where("path", f"/proc/self/fd/{pod.fd}"), backend) as session:
            session.apply(row.spec)
            settled, families = resolve(row.spec, session.facts)
            verified = verify(session.namespace, settled, families, peer=client)
    try:
        seen, captured = _ask(row, client, pod, kind)
    finally:
        if row.spec is not None:
            with Session(Where("path", f"/proc/self/fd/{pod.fd}"), backend) as session:
                session.remove()
    expected = {family: (CLIENT if row.keeps_source else PASSTHROUGH)[family] for family in FAMILIES}
    return Outcome(row, expected, seen, captured, verified)


def _ask(row: Row, client: Namespace, pod: Namespace, kind: Kind) -> tuple[dict[Family, str], int]:
    with start_application(pod, port=APPLICATION_PORT, uid=APPLICATION_UID, gid=APPLICATION_UID):
        if row.spec is None:
            return {family: _request(client, family) for family in FAMILIES}, 0
        settings = settings_of(row.spec, FAMILIES)
        made = (
            servers.embedded(settings, pod)
            if kind == "embedded"
            else servers.envoy(Envoy(settings, admin=servers.ADMIN), pod)
        )
        with made as sidecar:
            seen = {family: _request(client, family) for family in FAMILIES}
            return seen, sidecar.counts().inbound


def _request(client: Namespace, family: Family) -> str:
    """The address that the application names as its peer; an error's words when no answer comes."""
    try:
        with client.entered():
            connection = socket.create_connection((POD[family], APPLICATION_PORT), REQUEST_SECONDS)
        with connection:
            connection.sendall(b"GET /peer HTTP/1.1\r\nHost: pod\r\nConnection: close\r\n\r\n")
            answer = b""
            while part := connection.recv(4096):
                answer += part
    except OSError as error:
        return f"no answer ({error})"
    head, _, body = answer.partition(b"\r\n\r\n")
    if b" 200 " not in head.split(b"\r\n")[0] + b" ":
        raise ToolError("the application gave no good answer", detail=answer.decode("ascii", "replace")[:400])
    return body.decode("ascii", "replace").strip()
