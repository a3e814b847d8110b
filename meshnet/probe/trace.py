"""One packet sent and followed by the kernel itself, and what was predicted of it beside."""

from __future__ import annotations

from meshnet.kernel import links
from meshnet.kernel.tracing import Tracing
from meshnet.model.cidr import address_text, read_address
from meshnet.model.errors import UsageError
from meshnet.model.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from meshnet.kernel.netns import Namespace
    from meshnet.kernel.tracing import Event, Numbers
    from meshnet.model.cidr import Family
    from meshnet.model.flow import Flow
    from meshnet.model.ruleset import RuleSet
    from meshnet.model.trace import Trace

QUIET = 0.3
"""Seconds without an event after which a packet's way is over."""


@value
class Met:
    """A rule that a packet met, in either account; ``mark`` None where it isn't known."""

    table: str
    chain: str
    number: int
    verdict: str
    mark: int | None

    @property
    def place(self) -> tuple[str, str, int]:
        return self.table, self.chain, self.number


def predicted(trace: Trace) -> tuple[Met, ...]:
    return tuple(
        Met(hop.table, hop.chain, hop.number, hop.verdict, hop.mark) for hop in trace.hops if hop.rule is not None
    )


def seen(events: Iterable[Event], rules: RuleSet) -> tuple[Met, ...]:
    """The rules that the kernel told of. Ends of chains, which the legacy log numbers as one rule more, are left out.

    The legacy log has a packet's mark as it was before the rule, so each mark there is taken from the line behind,
    which may be the end of a chain.
    """
    told = tuple(events)
    found = []
    for place, event in enumerate(told):
        if not 0 < event.number <= _length(rules, event.table, event.chain):
            continue
        mark: int | None = event.mark
        if event.before:
            mark = told[place + 1].mark if place + 1 < len(told) else None
        found.append(Met(event.table, event.chain, event.number, event.verdict, mark))
    return tuple(found)


def _length(rules: RuleSet, table: str, chain: str) -> int:
    held = rules.table(table)
    inside = held.chain(chain) if held is not None else None
    return len(inside.rules) if inside is not None else 0


def expression(flow: Flow) -> str:
    """nft's words for a flow's first packet and no other."""
    family = "ip6" if flow.family == 6 else "ip"
    ends = f"{family} saddr {address_text(flow.family, flow.source)} {family} daddr "
    ends += address_text(flow.family, flow.destination)
    ports = f"{flow.transport} sport {flow.source_port} {flow.transport} dport {flow.port}"
    first = " tcp flags & (syn | ack) == syn" if flow.transport == "tcp" else ""
    return f"{ends} {ports}{first}"


def follow(namespace: Namespace, flow: Flow, peer: Namespace | None, numbers: Numbers) -> tuple[Event, ...]:
    """Send a flow's first packet and collect what the kernel tells of it; nothing is left behind, also after Ctrl-C.
    ``numbers`` are those of the rules in our own tables of nftables."""
    wanted = expression(flow)
    inward = flow.way == "in"
    ways = (wanted, "") if inward else ("", wanted)
    with namespace.entered(), Tracing(flow.family, *ways, numbers) as tracing:
        if inward:
            if peer is None:
                raise UsageError("a packet that enters needs somebody to send it", hint="--peer names the namespace")
            _inject(namespace, flow, peer)
            return tuple(tracing.events(QUIET))
        from meshnet.probe.launch import Launched

        launched = Launched(flow, flow.source_port)
        try:
            if launched.problem:
                raise UsageError(f"the packet can't be sent: {launched.problem}", hint="meshnet explain tells why")
            return tuple(tracing.events(QUIET))
        finally:
            launched.close()


def _inject(namespace: Namespace, flow: Flow, peer: Namespace) -> None:
    """By the peer's end of the cable: the link with an address in the network of the one that the packet enters by."""
    import socket

    from meshnet.probe.craft import first_packet

    link = _cable(namespace, flow, peer)
    macs = links.mac(peer, link), links.mac(namespace, flow.interface)
    with peer.entered(), socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as made:
        made.bind((link, 0))
        made.send(first_packet(flow, flow.source_port, macs))


def _cable(namespace: Namespace, flow: Flow, peer: Namespace) -> str:
    networks = {
        _network(item.address, item.prefix) for item in links.addresses(namespace) if item.link == flow.interface
    }
    for item in links.addresses(peer):
        if item.link != "lo" and item.scope == "global" and _network(item.address, item.prefix) in networks:
            return item.link
    raise UsageError(
        f"{peer.where} has no interface in the network of {flow.interface}",
        hint="--iface names where the packet enters",
    )


def _network(text: str, prefix: int) -> tuple[int, int]:
    family, number = read_address(text.partition("%")[0])
    shift = (32 if family == 4 else 128) - prefix
    return family, number >> shift


def live(
    namespace: Namespace, family: Family, wanted: str, numbers: Numbers | None = None
) -> Iterator[tuple[Event, ...]]:
    """Packets that fit nft's words, as they come: the events of each, until the caller stops asking."""
    with namespace.entered(), Tracing(family, wanted, wanted, numbers) as tracing:
        while True:
            events = tuple(tracing.events(QUIET))
            packets = dict.fromkeys(event.packet for event in events)
            for packet in packets:
                yield tuple(event for event in events if event.packet == packet)
