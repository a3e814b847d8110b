"""What enters by the interface of a guest (a virtual machine in the pod) is outbound traffic, never inbound.

An interface with a network of its own is a guest's for what goes beyond that network; what is addressed to it, to the
pod's own address there above all, is inbound traffic as by any other interface.
"""

from __future__ import annotations

from meshnet.compile.draft import GUEST, PRE
from meshnet.compile.phrases import TO_DNS, dns_captured, listed
from meshnet.model.program import TABLES, Destination, InInterface, Jump, Protocol, Return

TYPE_CHECKING = False
if TYPE_CHECKING:
    from meshnet.compile.draft import Draft
    from meshnet.model.cidr import Family
    from meshnet.model.program import Match, Table

DECIDING: tuple[Table, ...] = ("raw", "nat")


def enter(draft: Draft) -> None:
    """First its own chain decides; what that doesn't capture leaves the pod's tables untouched."""
    if guests := draft.spec.interfaces.guest:
        step, origin = listed(guests, "interfaces.guest")
        _outbound(draft, f"in.guest.{step}", [InInterface(guests)], origin)
    for place, network in enumerate(draft.spec.interfaces.networks):
        origin = f"interfaces.networks[{place}]"
        came = InInterface((network.interface,))
        for family, blocks in draft.blocks(network.cidrs):
            rule = f"in.network.{network.interface}"
            if dns_captured(draft.spec):
                # A resolver in the network itself is a usual one. Only UDP: that chain decides about nothing else that
                # is UDP, while a TCP connection to port 53 there may be a call to the pod.
                query: list[Match] = [came, Protocol("udp"), TO_DNS]
                for table in DECIDING:
                    draft.add((table, PRE), f"{rule}-dns", query, Jump(GUEST), origin, family)
            _outbound(draft, rule, [Destination(blocks, negated=True), came], origin, family)


def _outbound(draft: Draft, rule: str, matches: list[Match], origin: str, family: Family | None = None) -> None:
    for table in DECIDING:
        draft.add((table, PRE), rule, matches, Jump(GUEST), origin, family)
    for table in TABLES:
        draft.add((table, PRE), f"{rule}-done", matches, Return(), origin, family)
