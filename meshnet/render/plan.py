"""Program to Plan, whichever backend: its rules and its routes."""

from __future__ import annotations

from meshnet.model.plan import Plan
from meshnet.render import iptables, routes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from meshnet.model.program import Program


def render(program: Program) -> Plan:
    """The same for iptables-nft, iptables-legacy and libiptc: they share one language and differ in who takes it."""
    return Plan(iptables.render(program), routes.render(program))
