"""A rule set as a namespace holds it: anybody's tables, chains and rules.

A ``Program`` says what a spec means, in no backend's words and only as far as meshnet needs them; this is what a
tool loaded, ours or not, so that it can be simulated, compared and checked.
"""

from __future__ import annotations

from meshnet.model.hooks import built_in
from meshnet.model.rule import (
    Comment,
    ConnectionMark,
    PacketMark,
    PutConnectionMark,
    PutMark,
    RestoreConnectionMark,
    SaveConnectionMark,
)
from meshnet.model.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from meshnet.model.cidr import Family
    from meshnet.model.hooks import Base
    from meshnet.model.rule import Action, Condition


@value
class HeldRule:
    """One rule. ``line`` is where its text stands (0: nowhere), ``words`` what nft has for it (empty: it is one of
    iptables, and ``render/saved`` has the words); neither is part of what makes two rules the same."""

    conditions: tuple[Condition, ...]
    action: Action
    line: int = 0
    words: str = ""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, HeldRule):
            return NotImplemented
        return self.conditions == other.conditions and self.action == other.action

    def __hash__(self) -> int:
        return hash((self.conditions, self.action))

    @property
    def comment(self) -> str:
        return next((item.text for item in self.conditions if isinstance(item, Comment)), "")

    @property
    def saves_mark(self) -> bool:
        """Whether a packet's mark goes to its connection: by its number, where the rule has asked for it."""
        put = isinstance(self.action, PutConnectionMark) and any(isinstance(c, PacketMark) for c in self.conditions)
        return put or isinstance(self.action, SaveConnectionMark)

    @property
    def restores_mark(self) -> bool:
        put = isinstance(self.action, PutMark) and any(isinstance(c, ConnectionMark) for c in self.conditions)
        return put or isinstance(self.action, RestoreConnectionMark)


@value
class HeldChain:
    """``policy`` of a chain that the kernel enters, empty for any other; ``base`` is where, for one of nftables."""

    name: str
    policy: str
    rules: tuple[HeldRule, ...]
    base: Base | None = None


@value
class HeldTable:
    """One of iptables' tables, or one of nftables under its family and name (``inet meshnet``)."""

    name: str
    chains: tuple[HeldChain, ...]

    def chain(self, name: str) -> HeldChain | None:
        return next((chain for chain in self.chains if chain.name == name), None)

    def base(self, chain: HeldChain) -> Base | None:
        """Where the kernel enters a chain of this table; None for one that is only called."""
        return chain.base or built_in(self.name, chain.name)


@value
class RuleSet:
    """Every table of one family, in the order in which they were printed."""

    family: Family
    tables: tuple[HeldTable, ...] = ()

    def table(self, name: str) -> HeldTable | None:
        return next((table for table in self.tables if table.name == name), None)


def together(parts: Iterable[RuleSet]) -> tuple[RuleSet, ...]:
    """One rule set for each family, with the tables of all: what is in force side by side."""
    found: dict[Family, tuple[HeldTable, ...]] = {}
    for held in parts:
        found[held.family] = (*found.get(held.family, ()), *held.tables)
    return tuple(RuleSet(family, tables) for family, tables in sorted(found.items()))
