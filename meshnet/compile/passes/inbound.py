"""Who calls the pod: the inbound listener's ports, under REDIRECT in nat and under TPROXY in mangle.

One chain decides about ports and sources; what arrives from outside is shown to it, and what the sidecar calls on
its own pod. All the "sidecar to own pod" rules, for every uid and gid, stand before the first identity's RETURN:
with two uids, a RETURN for the first between them would let the second one's calls slip past the listener.
"""

from __future__ import annotations

from meshnet.compile.draft import DIVERT, INBOUND, OUT, PRE, SELF
from meshnet.compile.phrases import TCP, TO_LOOPBACK_INTERFACE, identities, off_loopback
from meshnet.model.ports import PortRange
from meshnet.model.program import (
    Accept,
    CtDirection,
    CtState,
    DestinationPorts,
    InInterface,
    Jump,
    MarkIs,
    Redirect,
    Return,
    SetMark,
    SocketIs,
    Source,
    Syn,
    Tproxy,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from meshnet.compile.draft import Draft
    from meshnet.model.program import Match, Table


def redirect(draft: Draft) -> None:
    spec = draft.spec
    if spec.inbound.mode != "redirect" or not spec.inbound.active:
        return
    draft.add(("nat", PRE), "in.redirect.enter", [TCP], Jump(INBOUND), "inbound.mode")
    _exclusions(draft, "nat")
    target = Redirect(spec.inbound.port)
    draft.add(("nat", INBOUND), "in.redirect.capture", [TCP, *_ports(draft)], target, "inbound.ports")


def redirect_own_pod(draft: Draft) -> None:
    """The sidecar calls its own pod: through the inbound listener, like any other client."""
    if draft.spec.inbound.mode != "redirect" or not _takes_own_pod(draft):
        return
    for step, origin, who in identities(draft.spec):
        for family in draft.families:
            matches: list[Match] = [off_loopback(family), TO_LOOPBACK_INTERFACE, TCP, who]
            draft.add(("nat", OUT), f"out.own-pod.{step}", matches, Jump(INBOUND), origin, family)


def tproxy(draft: Draft) -> None:
    spec = draft.spec
    if spec.inbound.mode != "tproxy" or not spec.inbound.active:
        return
    mark = spec.marks.inbound_mark
    # On lo only the sidecar's calls to its own pod are the listener's business: an application's call to itself, a
    # reply, a packet with the client's address that the sidecar sent on, all lack the outbound mark.
    own: list[Match] = [InInterface(("lo",)), MarkIs(spec.marks.outbound_mark, negated=True)]
    draft.add(("mangle", PRE), "in.tproxy.loopback", own, Return(), "inbound.mode")
    # What answers a call is nobody's call to the pod: without this the answers to a guest that the pod forwards for,
    # which find no socket here, go to the listener.
    answer: list[Match] = [TCP, CtDirection("REPLY")]
    draft.add(("mangle", PRE), "in.tproxy.reply", answer, Return(), "inbound.mode")
    # What nat has translated comes to a socket of the new destination, and none is found under the one that it still
    # bears here. So a connection taken by REDIRECT goes on when TPROXY takes REDIRECT's place, and one whose first
    # packet met both, in the moment between two tables.
    translated: list[Match] = [TCP, CtState(("DNAT",))]
    draft.add(("mangle", PRE), "in.tproxy.translated", translated, Return(), "inbound.mode")
    draft.add(("mangle", PRE), "in.tproxy.enter", [TCP], Jump(INBOUND), "inbound.mode")
    _exclusions(draft, "mangle")
    chain: tuple[Table, str] = ("mangle", INBOUND)
    # A SYN never belongs to an open connection. One from a port whose last connection the sidecar has just closed finds
    # that one's socket in TIME-WAIT, which is transparent; let through for it, TCP hands it to the application.
    established: list[Match] = [TCP, Syn(negated=True), SocketIs(transparent=True)]
    draft.add(chain, "in.tproxy.established", established, Jump(DIVERT), "inbound.mode")
    # A connection that was open before the rules came has a socket that is not transparent, and TPROXY drops packets
    # that find one (nf_tproxy_get_sock_v4). Only what is no SYN is let go, so that an application which listens on
    # the pod's address itself, and not on the wildcard, is captured all the same.
    if spec.enrol == "new-connections":
        mid_stream: list[Match] = [TCP, Syn(negated=True), SocketIs()]
        draft.add(chain, "in.tproxy.mid-stream", mid_stream, Return(), "enrol")
    capture = Tproxy(spec.inbound.port.first, mark)
    draft.add(chain, "in.tproxy.capture", [TCP, *_ports(draft)], capture, "inbound.ports")
    draft.add(("mangle", DIVERT), "in.tproxy.mark", (), SetMark(mark), "marks.inbound")
    draft.add(("mangle", DIVERT), "in.tproxy.accept", (), Accept(), "inbound.mode")


def tproxy_own_pod_enter(draft: Draft) -> None:
    """Only packets of the direction in which the sidecar called: marking its replies would divert them to itself."""
    if draft.spec.inbound.mode != "tproxy" or not _takes_own_pod(draft):
        return
    matches: list[Match] = [TO_LOOPBACK_INTERFACE, TCP, CtDirection("ORIGINAL")]
    draft.add(("mangle", OUT), "out.own-pod.enter", matches, Jump(SELF), "inbound.mode")


def tproxy_own_pod(draft: Draft) -> None:
    """The sidecar calls its own pod: a mark leads the packet to TPROXY when it comes back in by ``lo``."""
    if draft.spec.inbound.mode != "tproxy" or not _takes_own_pod(draft):
        return
    mark = draft.spec.marks.outbound_mark
    for step, origin, who in identities(draft.spec):
        for family in draft.families:
            matches: list[Match] = [off_loopback(family), who]
            draft.add(("mangle", SELF), f"self.own-pod.{step}", matches, SetMark(mark), origin, family)


def _takes_own_pod(draft: Draft) -> bool:
    """Not of a sidecar whose last step is a plain connection to the pod's address: it would come back to itself."""
    return draft.spec.inbound.active and draft.spec.inbound.own_pod


def _exclusions(draft: Draft, table: Table) -> None:
    inbound = draft.spec.inbound
    chain: tuple[Table, str] = (table, INBOUND)
    for family, blocks in draft.blocks(inbound.exclude_sources):
        draft.add(chain, "in.exclude.sources", [Source(blocks)], Return(), "inbound.excludeSources", family)
    if inbound.tunnel_port is not None:
        tunnel = DestinationPorts((PortRange(inbound.tunnel_port, inbound.tunnel_port),))
        draft.add(chain, "in.exclude.tunnel", [TCP, tunnel], Return(), "inbound.tunnelPort")
    if inbound.exclude_ports:
        matches: list[Match] = [TCP, DestinationPorts(inbound.exclude_ports)]
        draft.add(chain, "in.exclude.ports", matches, Return(), "inbound.excludePorts")


def _ports(draft: Draft) -> tuple[Match, ...]:
    ports = draft.spec.inbound.ports
    return () if ports == "*" else (DestinationPorts(ports),)
