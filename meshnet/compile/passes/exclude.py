"""What is never captured on its way out: ports, CIDRs, groups and users. Exclusion wins over every inclusion.

The same list stands wherever an outbound decision is made: nat OUTPUT for everybody, mangle OUTPUT for the sidecar's
calls to its own pod under TPROXY, raw OUTPUT so that an excluded query stays in the default conntrack zone, and the
chain for what guests send (which has no socket here, so no owner).
"""

from __future__ import annotations

from meshnet.compile.draft import GUEST, OUT, SELF
from meshnet.compile.phrases import DNS_TRANSPORTS, TCP, dns_captured
from meshnet.model.program import Destination, DestinationPorts, Owner, OwnerWithin, Protocol, Return

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from meshnet.compile.draft import Draft
    from meshnet.model.program import Match, Table, Transport
    from meshnet.model.spec import UserExclusion


def outbound(draft: Draft) -> None:
    _ports(draft, ("nat", OUT))
    _destinations(draft, ("nat", OUT))
    _groups(draft, ("nat", OUT))
    _users(draft, ("nat", OUT), enumerate(draft.spec.outbound.exclude_users))
    if draft.spec.inbound.mode == "tproxy":
        _ports(draft, ("mangle", SELF))
        _destinations(draft, ("mangle", SELF))
        _groups(draft, ("mangle", SELF))
        _users(draft, ("mangle", SELF), enumerate(draft.spec.outbound.exclude_users), ("tcp",))


def queries(draft: Draft) -> None:
    """For raw OUTPUT, behind the rules for the sidecar's own packets; only while there is DNS capture."""
    if dns_captured(draft.spec):
        _destinations(draft, ("raw", OUT))
        _groups(draft, ("raw", OUT))
        about_dns = [(n, entry) for n, entry in enumerate(draft.spec.outbound.exclude_users) if _covers(entry, 53)]
        _users(draft, ("raw", OUT), about_dns)


def guests(draft: Draft) -> None:
    _ports(draft, ("nat", GUEST))
    _destinations(draft, ("nat", GUEST))
    if dns_captured(draft.spec):
        _destinations(draft, ("raw", GUEST))


def _ports(draft: Draft, chain: tuple[Table, str]) -> None:
    if ports := draft.spec.outbound.exclude_ports:
        matches: list[Match] = [TCP, DestinationPorts(ports)]
        draft.add(chain, f"{_where(chain)}.exclude.ports", matches, Return(), "outbound.excludePorts")


def _destinations(draft: Draft, chain: tuple[Table, str]) -> None:
    for family, blocks in draft.blocks(draft.spec.outbound.exclude_cidrs):
        matches: list[Match] = [Destination(blocks)]
        draft.add(chain, f"{_where(chain)}.exclude.cidrs", matches, Return(), "outbound.excludeCidrs", family)


def _groups(draft: Draft, chain: tuple[Table, str]) -> None:
    if groups := draft.spec.outbound.exclude_groups:
        matches: list[Match] = [Owner("gid", groups)]
        draft.add(chain, f"{_where(chain)}.exclude.groups", matches, Return(), "outbound.excludeGroups")


def _users(
    draft: Draft,
    chain: tuple[Table, str],
    entries: Iterable[tuple[int, UserExclusion]],
    transports: tuple[Transport, ...] = DNS_TRANSPORTS,
) -> None:
    """``transports`` are those that come to the chain: a rule about another one would never be reached."""
    for place, entry in entries:
        who = OwnerWithin(entry.uids)
        origin = f"outbound.excludeUsers[{place}]"
        for step, packets in _packets(entry, transports):
            draft.add(chain, f"{_where(chain)}.exclude.users-{place}{step}", [*packets, who], Return(), origin)


def _packets(entry: UserExclusion, come: tuple[Transport, ...]) -> list[tuple[str, list[Match]]]:
    """The packets that an entry is about, as (step, matches)."""
    if entry.ports == "*" and entry.transport == "all":
        return [("", [])]
    ports: list[Match] = [] if entry.ports == "*" else [DestinationPorts(entry.ports)]
    transports = [one for one in come if entry.transport in (one, "all")]
    return [(f"-{transport}", [Protocol(transport), *ports]) for transport in transports]


def _covers(entry: UserExclusion, port: int) -> bool:
    return entry.ports == "*" or any(ports.covers(port) for ports in entry.ports)


def _where(chain: tuple[Table, str]) -> str:
    return {OUT: "out", SELF: "self", GUEST: "guest"}[chain[1]]
