"""What nft takes and a packet never matches, or what it can't say: refused here, all of it at once.

iptables refuses an owner in PREROUTING or a zone in mangle; nft loads both, and the rule does nothing. Each line of
``_wrong`` was loaded with nft 1.0.6 and shown to be without effect.
"""

from __future__ import annotations

from meshnet.model.errors import UnsupportedError
from meshnet.model.names import rule_comment
from meshnet.model.program import (
    ConnmarkIs,
    CtDirection,
    CtState,
    DestinationPorts,
    InInterface,
    Jump,
    MarkIs,
    OutInterface,
    Owner,
    OwnerWithin,
    Protocol,
    Redirect,
    RestoreMark,
    SaveMark,
    SetMark,
    SocketIs,
    SourcePorts,
    Syn,
    Tproxy,
    Zone,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from meshnet.model.program import Hook, Match, Program, Rule, Table, Target

LONGEST_COMMENT = 128 - len(".no-listener") - 1
"""Bytes (NFTNL_UDATA_COMMENT_MAXLEN of libnftnl), with the end and what the renderer puts behind an id."""

LONGEST_CHAIN = 127
"""Bytes (NFT_CHAIN_MAXNAMELEN of linux/netfilter/nf_tables.h, less the end)."""


def check(program: Program) -> None:
    """Raise UnsupportedError with every rule that would never match, or can't be said."""
    reasons = [
        f"rule {rule.id}: {reason}" for table, hook, rule in _reached(program) for reason in _wrong(table, hook, rule)
    ]
    if reasons:
        raise UnsupportedError(list(dict.fromkeys(reasons)), hint="another --backend")


def _reached(program: Program) -> Iterator[tuple[Table, Hook, Rule]]:
    """Every rule with each hook that a packet can come to it from."""
    chains = {(chain.table, chain.name): chain.rules for chain in program.chains}
    waiting: list[tuple[Table, Hook, tuple[Rule, ...]]] = [
        (entry.table, entry.hook, (entry.rule,)) for entry in program.entries
    ]
    seen: set[tuple[Table, Hook, str]] = set()
    while waiting:
        table, hook, rules = waiting.pop(0)
        for rule in rules:
            yield table, hook, rule
            if isinstance(rule.target, Jump) and (table, hook, rule.target.chain) not in seen:
                seen.add((table, hook, rule.target.chain))
                waiting.append((table, hook, chains.get((table, rule.target.chain), ())))


def _wrong(table: Table, hook: Hook, rule: Rule) -> Iterator[str]:
    for match in rule.matches:
        if reason := _never(table, hook, rule, match):
            yield reason
    if reason := _no_use(table, hook, rule.target):
        yield reason
    if len(rule_comment(rule.id).encode()) > LONGEST_COMMENT:
        yield f"its id is longer than {LONGEST_COMMENT} bytes with {rule_comment('')!r}"
    if isinstance(rule.target, (SaveMark, RestoreMark)):
        yield from _unsaid(rule)


def _never(table: Table, hook: Hook, rule: Rule, match: Match) -> str:
    """Why a match can't hold for any packet at this place, or can't be said; empty when it can."""
    incoming = hook == "PREROUTING"
    if isinstance(match, (Owner, OwnerWithin)) and incoming:
        return "no packet has an owner in prerouting"
    if isinstance(match, OutInterface) and incoming:
        return "no packet has an output interface in prerouting"
    if isinstance(match, InInterface) and not incoming:
        return "no packet has an input interface in output"
    if isinstance(match, SocketIs) and not incoming:
        return "a socket is looked up in prerouting alone"
    if isinstance(match, (ConnmarkIs, CtState, CtDirection)) and table == "raw":
        return "at raw's priority conntrack hasn't seen the packet yet"
    if isinstance(match, CtState) and "DNAT" in match.states and len(match.states) > 1:
        return "nft asks about DNAT and about states in two matches"
    if isinstance(match, (SourcePorts, DestinationPorts, Syn)) and not any(
        isinstance(other, Protocol) for other in rule.matches
    ):
        return "ports and flags need a protocol in front of them"
    return ""


def _no_use(table: Table, hook: Hook, target: Target) -> str:
    """Why a target does nothing at this place; empty when it does."""
    if isinstance(target, Zone) and table != "raw":
        return "a conntrack zone counts at raw's priority alone"
    if isinstance(target, Redirect) and table != "nat":
        return "a redirection counts in nat alone"
    if isinstance(target, Tproxy) and (table, hook) != ("mangle", "PREROUTING"):
        return "TPROXY works at mangle's place in prerouting alone"
    if isinstance(target, (SetMark, RestoreMark)) and hook == "OUTPUT" and table != "mangle":
        return "a mark set in output re-routes a packet in a chain of type route alone, which mangle's is"
    if isinstance(target, SaveMark) and table == "raw":
        return "at raw's priority conntrack hasn't seen the packet yet"
    return ""


def _unsaid(rule: Rule) -> Iterator[str]:
    from meshnet.render.nftables import copied

    try:
        if isinstance(rule.target, SaveMark):
            copied(rule, MarkIs, rule.target.mask)
        elif isinstance(rule.target, RestoreMark):
            copied(rule, ConnmarkIs, rule.target.mask)
    except UnsupportedError as error:
        yield error.reasons[0]
