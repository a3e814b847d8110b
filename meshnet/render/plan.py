"""Program to Plan, whichever backend: its rules and its routes."""

from __future__ import annotations

from meshnet.model.plan import Plan
from meshnet.render import routes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from meshnet.model.program import Program


def render(program: Program, backend: str = "", *, traced: bool = False, sets: bool = True) -> Plan:
    """The same for iptables-nft, iptables-legacy and libiptc: they share one language and differ in who takes it.

    ``nftables`` has one of its own. ``traced``: in front of each rule stands one that logs its packets. ``sets``:
    whether rules of iptables may look into sets.
    """
    if backend == "nftables":
        from meshnet.render import nftables

        return Plan((), routes.render(program), (nftables.render(program, program.nft_table, traced=traced),))
    from meshnet.render import iptables

    if sets and iptables.long_lists(program):
        from meshnet.render.ipset import Sets, sets_of

        known = Sets()
        plan = Plan(iptables.render(program, known), routes.render(program), (), sets_of(program, known))
    else:
        plan = Plan(iptables.render(program), routes.render(program))
    if traced:
        from meshnet.render.tracing import with_log_rules

        return with_log_rules(plan)
    return plan
