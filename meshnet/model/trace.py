"""A trace: the path of one packet, hop by hop, and how it ended."""

from __future__ import annotations

from meshnet.model import names
from meshnet.model.ports import PortRange
from meshnet.model.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    from meshnet.model.cidr import Family
    from meshnet.model.flow import Disposition
    from meshnet.model.ruleset import HeldRule

    End = Literal["delivered", "left", "forwarded", "dropped", "rejected", "undecided", "unsent"]


@value
class Hop:
    """One rule that fitted, or a decision of the kernel's own (``rule`` None).

    ``table`` is empty for what no table decided (conntrack, routing, sockets), ``number`` the rule's place in its
    chain from 1, ``mark`` the packet's mark afterwards.
    """

    hook: str
    table: str
    chain: str
    number: int
    rule: HeldRule | None
    verdict: str
    mark: int


@value
class Trace:
    """``port`` and ``to`` are where the packet ended, after every translation; ``source`` is who it says it is from.

    ``link`` is the interface by which it left, ``socket`` the name of who got it, ``captured`` whether a rule took it
    elsewhere than where it was sent, ``reason`` the end in words.
    """

    family: Family
    hops: tuple[Hop, ...]
    end: End
    reason: str
    disposition: Disposition
    source: int
    source_port: int
    to: int
    port: int
    mark: int
    link: str = ""
    socket: str = ""
    captured: bool = False


@value
class Proxies:
    """The ports that make a capture the inbound, the outbound or the DNS proxy's."""

    inbound: PortRange = PortRange(names.INBOUND_PORT, names.INBOUND_PORT)
    outbound: int = names.OUTBOUND_PORT
    dns: int = names.DNS_PORT

    def name(self, port: int) -> Disposition:
        if self.inbound.covers(port):
            return "inbound-proxy"
        return "outbound-proxy" if port == self.outbound else "dns-proxy" if port == self.dns else "captured"
