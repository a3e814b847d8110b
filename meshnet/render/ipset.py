"""Long lists for iptables: one set in the kernel in place of a rule for each entry.

A set's name tells what is in it. So another list is another set, and the rules move from one to the other in the
transaction that they are written in; a set's own content is exchanged only when somebody has changed it.
"""

from __future__ import annotations

from binascii import crc32

from meshnet.model.cidr import collapse
from meshnet.model.names import CHAIN_PREFIX
from meshnet.model.plan import SetText
from meshnet.model.program import Destination, DestinationPorts, Source, SourcePorts
from meshnet.model.ranges import merged
from meshnet.render.iptables import SET_FROM, long_lists

TYPE_CHECKING = False
if TYPE_CHECKING:
    from meshnet.model.cidr import Cidr, Family
    from meshnet.model.ports import PortRange
    from meshnet.model.program import Program


class Sets:
    """The sets that rules ask for, made once for each list; ``allowed`` is whether there may be any."""

    def __init__(self, allowed: bool = True) -> None:
        self._allowed = allowed
        self._named: dict[int, tuple[object, SetText | None]] = {}

    def of_blocks(self, cidrs: tuple[Cidr, ...]) -> SetText | None:
        """The set of these blocks; None when they are too few, or hold every address, which no set of blocks can."""
        if not self._allowed or len(cidrs) < SET_FROM:
            return None
        found = self._named.get(id(cidrs))
        if found is None:
            blocks = collapse(cidrs)
            few = len(blocks) < SET_FROM or blocks[0].everything
            members = tuple((block.network, block.prefix) for block in blocks)
            made = None if few else _named("hash:net", cidrs[0].family, members)
            found = self._named[id(cidrs)] = (cidrs, made)  # with the list, so that its id is nobody else's
        return found[1]

    def of_ports(self, ports: tuple[PortRange, ...]) -> SetText | None:
        if not self._allowed or len(ports) < SET_FROM:
            return None
        found = self._named.get(id(ports))
        if found is None:
            members = merged((item.first, item.last) for item in ports)
            found = self._named[id(ports)] = (ports, _named("bitmap:port", 0, members))
        return found[1]


def sets_of(program: Program, sets: Sets) -> tuple[SetText, ...]:
    """Every set that the program's rules name, in the order in which they first do."""
    found: dict[str, SetText] = {}
    for match in long_lists(program):
        made = None
        if isinstance(match, (Source, Destination)):
            made = sets.of_blocks(match.cidrs)
        elif isinstance(match, (SourcePorts, DestinationPorts)):
            made = sets.of_ports(match.ports)
        if made is not None:
            found[made.name] = made
    return tuple(found.values())


def _named(kind: str, family: Family | int, members: tuple[tuple[int, int], ...]) -> SetText:
    digest = crc32(repr(members).encode())
    return SetText(f"{CHAIN_PREFIX}{family or 'P'}_{digest:08x}", kind, family, members)
