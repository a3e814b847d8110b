"""Program to policy rules, routes and addresses, in the words of ``ip``.

An address has no owner's tag in iproute2 6.1, so a route of our protocol for it stands beside each one that we add:
where the route is, the address is ours to take away.
"""

from __future__ import annotations

from meshnet.model.cidr import Cidr
from meshnet.model.names import ROUTE_PROTOCOL, RULE_PRIORITY
from meshnet.model.plan import RouteText

TYPE_CHECKING = False
if TYPE_CHECKING:
    from meshnet.model.program import LoopbackAddress, PolicyRule, Program


def render(program: Program) -> tuple[RouteText, ...]:
    """In the order in which they are added: what leads a packet there comes after what it meets there."""
    return (
        *(item for address in program.loopback_addresses for item in _address(address)),
        *(RouteText(item.block.family, "route", local_route(item.block, item.table)) for item in program.local_routes),
        *(RouteText(item.family, "rule", _rule(item)) for item in program.policy_rules),
    )


def local_route(block: Cidr, table: int) -> str:
    return f"local {_destination(block)} dev lo table {table} proto {ROUTE_PROTOCOL}"


def _address(item: LoopbackAddress) -> tuple[RouteText, ...]:
    family = item.address.family
    return (
        RouteText(family, "route", local_route(item.address, item.table)),
        RouteText(family, "addr", f"{item.address} dev lo"),
    )


def _rule(item: PolicyRule) -> str:
    return f"fwmark {item.mark} lookup {item.table} pref {RULE_PRIORITY} protocol {ROUTE_PROTOCOL}"


def _destination(block: Cidr) -> str:
    """As ``ip`` prints it: ``default`` for everything, a lone address without its length."""
    if block.everything:
        return "default"
    return block.address if block.single else str(block)
