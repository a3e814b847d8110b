"""Translation of addresses: set up once by a connection's first packet, done to every later one (nf_nat_core.c)."""

from __future__ import annotations

from meshnet.simulate.packet import NEW, RELATED
from meshnet.simulate.routing import is_loopback

TYPE_CHECKING = False
if TYPE_CHECKING:
    from meshnet.model.rule import Translate
    from meshnet.simulate.conntrack import Connections
    from meshnet.simulate.packet import Connection, Ends, Packet
    from meshnet.simulate.routing import Routing

SOURCE_HOOKS = frozenset(("INPUT", "POSTROUTING"))
LOOPBACK = {4: 0x7F000001, 6: 1}
UNPRIVILEGED = 1024


def inverted(ends: Ends) -> Ends:
    protocol, source, source_port, destination, port = ends
    return protocol, destination, port, source, source_port


def wants_rules(packet: Packet) -> bool:
    """Whether nat's chain is asked: for the first packet only, and once for each of the two ends."""
    connection = packet.connection
    if connection is None or packet.state not in (NEW, RELATED):
        return False
    return not (connection.source_done if packet.hook in SOURCE_HOOKS else connection.destination_done)


def apply(packet: Packet, connections: Connections) -> bool:
    """What follows nat's chain: bind the end as it is if no rule did, and rewrite the packet; whether it changed."""
    connection = packet.connection
    if connection is None:
        return False
    source = packet.hook in SOURCE_HOOKS
    if wants_rules(packet):
        _bind(packet, connection, connections)
    changes = connection.source_translated if source != packet.reply else connection.destination_translated
    if not changes:
        return False
    target = inverted(connection.original if packet.reply else connection.reply)
    before = packet.ends()
    if source:
        packet.source, packet.source_port = target[1], target[2]
    else:
        packet.destination, packet.port = target[3], target[4]
    return packet.ends() != before


def _bind(packet: Packet, connection: Connection, connections: Connections) -> None:
    """nf_nat_alloc_null_binding; of two connections with the same ends the second gets another source port."""
    if packet.hook not in SOURCE_HOOKS:
        connection.destination_done = True
        return
    connection.source_done = True
    if connections.taken(connection.reply, connection):
        _other_source_port(connection, connections)


def _other_source_port(connection: Connection, connections: Connections) -> None:
    protocol, source, source_port, destination, port = connection.reply
    for candidate in range(UNPRIVILEGED, 65536):
        reply = (protocol, source, source_port, destination, candidate)
        if candidate != port and not connections.taken(reply, connection):
            connection.reply = reply
            connection.source_translated = True
            return


def translate(packet: Packet, action: Translate, routing: Routing, connections: Connections) -> str:
    """A target of nat. Says how it went: nothing if it was set up, ``drop``, or why nobody can tell."""
    connection = packet.connection
    if connection is None:
        return ""
    if action.kind in ("SNAT", "MASQUERADE"):
        return _source(packet, connection, action, routing, connections)
    address = action.first
    if action.kind == "REDIRECT":
        address = _redirect_address(packet, routing)
        if address is None:
            return "drop"
    elif action.first != action.last:
        return "the kernel chooses one of several addresses"
    _destination(packet, connection, action, address, connections)
    return "the kernel chooses a port at random" if _random(action) else ""


def _random(action: Translate) -> bool:
    spread = action.ports is not None and action.ports[0] != action.ports[1]
    return spread and any(flag.startswith("--random") for flag in action.flags)


def _redirect_address(packet: Packet, routing: Routing) -> int | None:
    """nf_nat_redirect.c: for what is made here loopback, else the first address of the link that it came by."""
    if packet.hook == "OUTPUT":
        return LOOPBACK[packet.family]
    link = routing.links.get(packet.in_link)
    if link is None:
        return None
    if packet.family == 4:
        return link.first(4)
    addresses = [item.number for item in link.addresses if item.family == 6]
    same = [item for item in addresses if _scope(item) == _scope(packet.destination)]
    return same[0] if same else None


def _scope(address: int) -> str:
    """ipv6_addr_scope of a unicast address: of the node, of the link, of everybody."""
    if is_loopback(6, address):
        return "node"
    return "link" if address >> 118 == 0x3FA else "global"


def _destination(
    packet: Packet, connection: Connection, action: Translate, address: int | None, connections: Connections
) -> None:
    protocol, source, source_port, destination, port = inverted(connection.reply)
    if address is not None:
        destination = address
    if action.ports is not None:
        port = _port(connection, (protocol, source, source_port, destination, port), action, connections)
    wanted = (protocol, source, source_port, destination, port)
    if wanted != inverted(connection.reply):
        connection.reply = inverted(wanted)
        connection.destination_translated = True
    connection.destination_done = True
    packet.captured = True


def _port(connection: Connection, ends: Ends, action: Translate, connections: Connections) -> int:
    """A port of the range is kept if it is free, else the first free one is taken (nf_nat_l4proto_unique_tuple)."""
    assert action.ports is not None
    first, last = action.ports
    if first == last:
        return first

    def free(port: int) -> bool:
        return not connections.taken(inverted((*ends[:4], port)), connection)

    if first <= ends[4] <= last and free(ends[4]):
        return ends[4]
    size = last - first + 1
    begin = (ends[4] - action.shift) % size if action.shift is not None else 0
    for step in range(size):
        port = first + (begin + step) % size
        if free(port):
            return port
    return first + begin


def _source(
    packet: Packet, connection: Connection, action: Translate, routing: Routing, connections: Connections
) -> str:
    """The new source; of a range of ports the kernel takes one at random, and here it is the first."""
    address = action.first
    if action.kind == "MASQUERADE":
        address = routing.source_for(packet.out_link, packet.destination)
        if address is None:
            return "drop"
    elif action.first != action.last:
        return "the kernel chooses one of several addresses"
    protocol, source, source_port, destination, port = inverted(connection.reply)
    if address is not None:
        source = address
    if action.ports is not None and not action.ports[0] <= source_port <= action.ports[1]:
        source_port = action.ports[0]
    wanted = (protocol, source, source_port, destination, port)
    if wanted != inverted(connection.reply):
        connection.reply = inverted(wanted)
        connection.source_translated = True
    connection.source_done = True
    if connections.taken(connection.reply, connection):
        _other_source_port(connection, connections)
    return ""
