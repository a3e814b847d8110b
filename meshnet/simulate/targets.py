"""Actions to functions of a packet. Each notes its hop and answers a verdict, or nothing to go on to the next rule."""

from __future__ import annotations

from meshnet.model.rule import (
    Accept,
    Call,
    Drop,
    Note,
    Nothing,
    PutConnectionMark,
    PutMark,
    Reject,
    RestoreConnectionMark,
    Return,
    SaveConnectionMark,
    ToSocket,
    Track,
    Translate,
    UnknownTarget,
)
from meshnet.model.value import assert_never
from meshnet.simulate import nat
from meshnet.simulate.matches import UNSURE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from meshnet.model.rule import Action
    from meshnet.model.ruleset import HeldRule
    from meshnet.simulate.chains import Chain
    from meshnet.simulate.conntrack import Connections
    from meshnet.simulate.packet import Packet
    from meshnet.simulate.routing import Routing
    from meshnet.simulate.sockets import Sockets

    Act = Callable[[Packet], str | None]

ACCEPTED, DROPPED, REJECTED, UNDECIDED, RETURNED = "accept", "drop", "reject", "undecided", "return"


class Work:
    """What actions need besides the packet. ``connections`` changes from walk to walk."""

    def __init__(self, routing: Routing, sockets: Sockets, connections: Connections) -> None:
        self.routing = routing
        self.sockets = sockets
        self.connections = connections
        self.watch: Callable[[Packet, Translate], None] | None = None
        """Is told of each translation before it is made (``compare``)."""


class Spot:
    """Where a rule stands, and how a hop of it is noted."""

    __slots__ = ("chain", "number", "rule", "table")

    def __init__(self, table: str, chain: str, number: int, rule: HeldRule) -> None:
        self.table = table
        self.chain = chain
        self.number = number
        self.rule = rule

    def note(self, p: Packet, verdict: str) -> None:
        p.hops.append((p.hook, self.table, self.chain, self.number, self.rule, verdict, p.mark))


def act_of(action: Action, spot: Spot, work: Work, chains: dict[str, Chain]) -> Act:  # noqa: C901 (one case for each)
    match action:
        case Accept():
            return _plain(spot, "ACCEPT", ACCEPTED)
        case Drop():
            return _plain(spot, "DROP", DROPPED)
        case Return():
            return _plain(spot, "RETURN", RETURNED)
        case Reject():
            return _plain(spot, "REJECT", REJECTED)
        case Nothing():
            return _plain(spot, "", None)
        case Note(words):
            return _plain(spot, words[0], None)
        case UnknownTarget(words):
            return _plain(spot, f"undecided: nobody knows what {words[0]} does here", UNDECIDED)
        case Call(name, goto):
            return _call(spot, chains[name], goto)
        case PutMark(number, mask):
            return _put_mark(spot, number, mask)
        case PutConnectionMark() | SaveConnectionMark() | RestoreConnectionMark():
            return _connection_mark(spot, action)
        case Track():
            return _track(spot, action)
        case Translate():
            return _translate(spot, action, work)
        case ToSocket():
            return _to_socket(spot, action, work)
        case _:
            assert_never(action)


def _plain(spot: Spot, verdict: str, answer: str | None) -> Act:
    table, chain, number, rule = spot.table, spot.chain, spot.number, spot.rule

    def act(p: Packet) -> str | None:
        p.hops.append((p.hook, table, chain, number, rule, verdict, p.mark))
        return answer

    return act


def _call(spot: Spot, chain: Chain, goto: bool) -> Act:
    """``-g`` doesn't come back: when that chain is through, the chain that called this one goes on."""
    verdict = f"{'goto' if goto else 'to'} {chain.name}"
    table, name, number, rule = spot.table, spot.chain, spot.number, spot.rule
    run = chain.run
    ended = RETURNED if goto else None

    def act(p: Packet) -> str | None:
        p.hops.append((p.hook, table, name, number, rule, verdict, p.mark))
        return run(p) or ended

    return act


def _put_mark(spot: Spot, number: int, mask: int) -> Act:
    kept = ~mask & 0xFFFFFFFF

    def act(p: Packet) -> None:
        p.mark = p.mark & kept ^ number
        spot.note(p, f"mark {p.mark:#x}")

    return act


def _connection_mark(spot: Spot, action: PutConnectionMark | SaveConnectionMark | RestoreConnectionMark) -> Act:
    """xt_connmark.c; what isn't tracked goes on unchanged."""

    def act(p: Packet) -> None:
        connection = p.connection
        if connection is None:
            spot.note(p, "no connection")
            return
        match action:
            case PutConnectionMark(number, mask):
                connection.mark = connection.mark & ~mask ^ number
                spot.note(p, f"connmark {connection.mark:#x}")
            case SaveConnectionMark(packet_mask, connection_mask):
                connection.mark = connection.mark & ~connection_mask ^ p.mark & packet_mask
                spot.note(p, f"connmark {connection.mark:#x}")
            case RestoreConnectionMark(packet_mask, connection_mask):
                p.mark = p.mark & ~packet_mask ^ connection.mark & connection_mask
                spot.note(p, f"mark {p.mark:#x}")

    return act


def _track(spot: Spot, action: Track) -> Act:
    """xt_CT.c: who already has a connection, a zone or none keeps it. nft_ct.c looks for a connection or a zone."""
    zones = (action.original_zone or 0, action.reply_zone or 0)
    verdict = "notrack" if action.notrack else f"zone {zones[0]}" if zones[0] == zones[1] else f"zones {zones}"

    def act(p: Packet) -> None:
        if action.again and p.state == "UNTRACKED":
            p.state = ""
        if p.state or p.template is not None:
            spot.note(p, "tracked already")
        elif action.notrack:
            p.state = "UNTRACKED"
            spot.note(p, verdict)
        else:
            p.template = zones
            spot.note(p, verdict)

    return act


def _translate(spot: Spot, action: Translate, work: Work) -> Act:
    def act(p: Packet) -> str:
        if work.watch is not None:
            work.watch(p, action)
        went = nat.translate(p, action, work.routing, work.connections)
        if went == "drop":
            spot.note(p, "DROP: the interface has no address")
            return DROPPED
        if went:
            spot.note(p, f"undecided: {went}")
            return UNDECIDED
        _, source, source_port, destination, port = nat.inverted(p.connection.reply) if p.connection else p.ends()
        changed = (source, source_port) if action.kind in ("SNAT", "MASQUERADE") else (destination, port)
        spot.note(p, f"{action.kind} to port {changed[1]}" if action.kind == "REDIRECT" else action.kind)
        return ACCEPTED

    return act


def _to_socket(spot: Spot, action: ToSocket, work: Work) -> Act:
    """xt_TPROXY.c and nft_tproxy.c: a connection between the packet's own ends goes before who listens; neither may be
    an ordinary socket."""

    def act(p: Packet) -> str | None:
        port = action.port or p.port
        address = action.address
        if not address:
            link = work.routing.links.get(p.in_link)
            first = link.first(p.family) if link is not None else None
            address = p.destination if first is None else first
        on = (address, port)
        sock = work.sockets.for_tproxy(p.family, p.protocol, p.source, p.source_port, p.destination, p.port, on)
        if sock is None or not sock.transparent:
            why = "nobody listens there" if sock is None else "the socket there is not transparent"
            if action.goes_on:
                p.note(f"no TPROXY to port {port}: {why}")  # to the kernel the rule doesn't fit
                return None
            spot.note(p, f"DROP: TPROXY to port {port}, and {why}")
            return DROPPED
        p.mark = p.mark & ~action.mask ^ action.number
        p.assigned = sock
        p.captured = True
        spot.note(p, f"TPROXY to port {port}")
        return ACCEPTED

    return act


def unsure(spot: Spot, action: Action, act: Act) -> Callable[[Packet, Any], str | None]:
    """The action of a rule with a doubtful condition: where the packet goes on either way, it goes on."""
    harmless = isinstance(action, (Note, Nothing))

    def acted(p: Packet, found: Any) -> str | None:
        if found is not UNSURE:
            return act(p)
        if harmless:
            return None
        spot.note(p, "undecided: a match that nobody can answer here")
        return UNDECIDED

    return acted
