"""The calls that a pod with a sidecar has to carry, one of each kind that its rules tell apart, followed to their end.

Kinds are by the port that is called: the client's call, the pod's own call to itself (a readiness check), and the
application's and the sidecar's calls to a server outside.
"""

from __future__ import annotations

from meshnet.model.cidr import BITS, read_address
from meshnet.model.flow import Flow
from meshnet.model.host import Listener
from meshnet.model.value import replace, value
from meshnet.simulate import space
from meshnet.simulate.compare import REMOTE
from meshnet.simulate.conversation import converse
from meshnet.simulate.merge import merged
from meshnet.simulate.routing import Routing
from meshnet.simulate.walk import Pod

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from meshnet.doctor.patient import Patient
    from meshnet.model.flow import Carried
    from meshnet.model.host import Host, Link
    from meshnet.model.story import Conduct, Story
    from meshnet.model.trace import Trace

TUNNEL = 15008
"""Where a sidecar takes what is already wrapped in TLS of its own; nobody else calls it."""


@value
class Told:
    """A call and its story; ``setting`` is what was assumed of the namespace, if anything."""

    flow: Flow
    sidecar: Conduct
    setting: str
    story: Story


@value
class Own:
    """The first packet of a call that the sidecar makes for itself."""

    flow: Flow
    sidecar: Conduct
    setting: str
    trace: Trace


def stories(patient: Patient) -> Iterator[Told]:
    """Every kind of call that begins at a client or at the application."""
    for setting, host in patient.hosts:
        for sidecar in patient.sidecars:
            pod = _pod(patient, host, sidecar)
            for flow in (*_inward(patient, host, sidecar), *_outward(patient, host, sidecar)):
                yield Told(flow, sidecar, setting, converse(pod, flow, sidecar))


def own_calls(patient: Patient) -> Iterator[Own]:
    """What the sidecar sends to servers outside, its queries among it."""
    for setting, host in patient.hosts:
        for sidecar in patient.sidecars:
            pod = _pod(patient, host, sidecar)
            for flow in _from_sidecar(patient, host, sidecar):
                yield Own(flow, sidecar, setting, pod.walk(flow))


def _pod(patient: Patient, host: Host, sidecar: Conduct) -> Pod:
    listeners = tuple(
        Listener("sidecar", "tcp", port, None, None, sidecar.transparent, sidecar.uid, sidecar.gid)
        for port in (sidecar.inbound_port, sidecar.outbound_port)
    )
    return Pod([patient.rules], replace(host, listeners=listeners), patient.proxies)


def _questions(patient: Patient, host: Host) -> space.Questions:
    """Of the rules with long lists as sets: a thousand exclusions are one kind of call."""
    small, sets = merged(patient.rules, "list ")
    return space.Questions([small], replace(host, sets=(*host.sets, *sets)), patient.rules.family)


def _ports(patient: Patient, questions: space.Questions, sidecar: Conduct) -> list[int]:
    """One of each kind, but for the sidecar's own: who calls those is turned away by the sidecar, and not by rules."""
    proxies = patient.proxies
    own = {sidecar.inbound_port, sidecar.outbound_port, proxies.outbound, proxies.dns, TUNNEL}
    found = space.ports(questions, "destination", (80, 443, 53))
    return [port for port in found if port and port not in own and not proxies.inbound.covers(port)]


def _inward(patient: Patient, host: Host, sidecar: Conduct) -> Iterator[Flow]:
    family = patient.rules.family
    questions = _questions(patient, host)
    uid, gid = space.ids(questions, "uid")[0], space.ids(questions, "gid")[0]
    ports = _ports(patient, questions, sidecar)
    for link in _links(patient, host):
        mine = link.first(family)
        client = _neighbour(link, patient)
        assert mine is not None
        for port in ports:
            if client is not None:
                yield Flow("in", family, "tcp", client, mine, port, link.name)
            yield Flow("out", family, "tcp", mine, mine, port, "lo", uid, gid)


def _links(patient: Patient, host: Host) -> Iterator[Link]:
    for link in host.links:
        first = link.first(patient.rules.family)
        if link.name != "lo" and first is not None and not _is_link_local(patient, first):
            yield link


def _is_link_local(patient: Patient, address: int) -> bool:
    return patient.rules.family == 6 and address >> 118 == 0xFE80 >> 6


def _neighbour(link: Link, patient: Patient) -> int | None:
    """Another address of the link's network: a client whose answers have a route in any namespace."""
    for item in link.addresses:
        if item.family == patient.rules.family and BITS[item.family] - item.prefix >= 2:
            low = item.number >> (BITS[item.family] - item.prefix) << (BITS[item.family] - item.prefix)
            return low + 1 if item.number != low + 1 else low + 2
    return None


def _outward(patient: Patient, host: Host, sidecar: Conduct) -> Iterator[Flow]:
    questions = _questions(patient, host)
    uid, gid = space.ids(questions, "uid")[0], space.ids(questions, "gid")[0]
    for to, mine in _remotes(patient, host, questions):
        for port in _ports(patient, questions, sidecar):
            yield Flow("out", patient.rules.family, "tcp", mine, to, port, "eth0", uid, gid)


def _from_sidecar(patient: Patient, host: Host, sidecar: Conduct) -> Iterator[Flow]:
    family, questions = patient.rules.family, _questions(patient, host)
    transports: tuple[Carried, ...] = ("tcp", "udp")
    for to, mine in _remotes(patient, host, questions):
        for transport in transports:
            for port in _ports(patient, questions, sidecar):
                ids, groups = (sidecar.uid, sidecar.gid), sidecar.groups
                mark = sidecar.own_mark
                yield Flow("out", family, transport, mine, to, port, "eth0", *ids, mark, 40000, groups)


def _remotes(patient: Patient, host: Host, questions: space.Questions) -> Iterator[tuple[int, int]]:
    """Servers outside, one of each kind, with the address that the pod calls them from."""
    family = patient.rules.family
    routing = Routing(host, family)
    for to in space.addresses(questions, "destination", (read_address(REMOTE[family])[1],)):
        found = routing.find(to, 0, 0, "lo")
        if found is None or found.kind != "unicast" or found.link == "lo" or routing.is_loopback(to):
            continue
        if routing.kind_of(to) != "UNICAST":
            continue
        mine = routing.source_of_call(to, 0, 0)
        if mine is not None:
            yield to, mine
