"""Conntrack: which connection a packet belongs to, and what its state is (nf_conntrack_core.c).

Kept: zones, directions, marks, what is new, answered, invalid or untracked. Left out: timeouts and windows, so a
packet is INVALID here only where it could never begin a connection, or where a flow says so.
"""

from __future__ import annotations

from meshnet.simulate.packet import ACK, ESTABLISHED, ICMP, INVALID, NEW, RELATED, RST, SYN, TCP, UNTRACKED, Connection

TYPE_CHECKING = False
if TYPE_CHECKING:
    from meshnet.simulate.packet import Ends, Packet

NO_ZONE = (0, 0)
BEGINNING = {1: (8, 13, 15, 17), 58: (128, 139)}
"""The types of ICMP that ask for an answer. Any other is an answer that nobody waits for or an error about nothing,
and INVALID (nf_conntrack_proto_icmp.c, nf_conntrack_proto_icmpv6.c, valid_new)."""

UNTRACKED_TYPES = (*range(130, 137), 143)
"""Of ICMPv6: neighbour discovery and multicast listeners (noct_valid_new)."""


class Connections:
    """The table, by zone and ends; the zone of the direction counts, original or reply."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, Ends], tuple[Connection, bool]] = {}
        self.given: tuple[int, str] = (0, "")
        """Of a connection that a packet is said to belong to: its mark, and which end was translated, if any."""

    def enter(self, packet: Packet) -> None:
        """nf_conntrack_in. What has come round by ``lo`` keeps what it has, and so does what isn't tracked."""
        if packet.state:
            return
        if packet.wanted not in ("", NEW):
            self.begin(packet, packet.wanted)
            return
        zones = packet.template or NO_ZONE
        ends = packet.ends()
        found = self._known.get((zones[0], ends)) if self._known else None
        if found is None and self._known and zones[0] != zones[1]:
            found = self._known.get((zones[1], ends))
        if found is None:
            self._first(packet, ends, zones)
            return
        connection, reply = found
        packet.connection, packet.reply = connection, reply
        if reply:
            connection.seen_reply = True
            packet.state = ESTABLISHED
        else:
            packet.state = ESTABLISHED if connection.seen_reply else RELATED if connection.related else NEW

    def _first(self, packet: Packet, ends: Ends, zones: tuple[int, int]) -> None:
        """A connection begins with a SYN, or is picked up by a segment with ACK (nf_conntrack_tcp_loose is 1), or with
        a question of ICMP's; a packet that is to be NEW (``compare``) is, whatever its type."""
        if packet.protocol == TCP:
            flags = packet.flags & (SYN | ACK | RST | 1)
            if flags != SYN and not (flags & ACK and not flags & (SYN | RST | 1)):
                packet.state = INVALID
                return
        elif packet.wanted != NEW and packet.protocol == ICMP[packet.family] and (state := _begins_nothing(packet)):
            packet.state = state
            return
        packet.connection = Connection(ends, zones)
        packet.state = NEW

    def confirm(self, packet: Packet) -> None:
        """The first packet has got through: from now on the connection is known (nf_conntrack_confirm)."""
        connection = packet.connection
        if connection is None or connection.confirmed:
            return
        connection.confirmed = True
        self._known[connection.zones[0], connection.original] = (connection, False)
        self._known[connection.zones[1], connection.reply] = (connection, True)

    def taken(self, reply: Ends, connection: Connection) -> bool:
        """Whether another connection already expects these ends as its answer (nf_nat_used_tuple)."""
        found = self._known.get((connection.zones[1], reply))
        return found is not None and found[0] is not connection

    def begin(self, packet: Packet, state: str) -> None:
        """Give a packet the state that its flow says it has."""
        if state in (INVALID, UNTRACKED):
            packet.state = state
            return
        ends = packet.ends()
        if packet.reply:
            ends = (ends[0], ends[3], ends[4], ends[1], ends[2])
        connection = Connection(ends, packet.template or NO_ZONE)
        connection.confirmed = connection.source_done = connection.destination_done = True
        connection.seen_reply = state == ESTABLISHED
        connection.related = state == RELATED
        connection.mark, translated = self.given
        connection.destination_translated = translated == "DNAT"
        connection.source_translated = translated == "SNAT"
        packet.connection, packet.state = connection, state


def _begins_nothing(packet: Packet) -> str:
    """The state of an ICMP packet that asks nothing, whose type is its port."""
    if packet.port in BEGINNING[packet.protocol]:
        return ""
    return UNTRACKED if packet.family == 6 and packet.port in UNTRACKED_TYPES else INVALID
