"""Program to Plan, whichever backend: its rules and its routes."""

from __future__ import annotations

from meshnet.model.plan import Plan
from meshnet.render import iptables, routes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from meshnet.model.program import Program


def render(program: Program, *, traced: bool = False) -> Plan:
    """The same for iptables-nft, iptables-legacy and libiptc: they share one language and differ in who takes it.

    ``traced``: in front of each rule stands one that logs its packets.
    """
    plan = Plan(iptables.render(program), routes.render(program))
    if traced:
        from meshnet.render.tracing import with_log_rules

        return with_log_rules(plan)
    return plan
