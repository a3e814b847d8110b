"""The plan: a program in the words of one backend, and the same form for what a namespace already holds.

A rule is the text behind ``-A CHAIN``, a table one family's own chains plus the entries by which packets get there,
and what routing needs is the text behind ``ip rule add`` and its like. What was planned and what was read back have
one form, so the difference between two of them is all that apply, repair, replace, roll back and remove need.

Of nftables a plan has tables of family ``inet`` in place of iptables' tables (``model/nft``).
"""

from __future__ import annotations

from meshnet.model.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Literal

    from meshnet.model.cidr import Family
    from meshnet.model.nft import NftTable
    from meshnet.model.program import Hook, Table

    RouteObject = Literal["rule", "route", "addr"]


BEHIND = 0
"""No place of its own: at the end of the built-in chain, whatever others have there."""


@value
class ChainText:
    name: str
    rules: tuple[str, ...]


@value
class EntryText:
    """A rule in a built-in chain, the way into one of ours.

    ``place`` counts from 1, or is ``BEHIND`` everything. Where one was found is where a roll-back puts it again.
    """

    hook: Hook
    rule: str
    place: int = 1


@value
class TableText:
    family: Family
    table: Table
    chains: tuple[ChainText, ...]
    entries: tuple[EntryText, ...]


@value
class SetText:
    """A set that rules of iptables look into. ``members`` are (network, prefix) of a ``hash:net`` of one family, and
    (first, last) of a ``bitmap:port``, sorted; its family is 0."""

    name: str
    type: str
    family: int
    members: tuple[tuple[int, int], ...]


@value
class RouteText:
    """A policy rule, route or address in the words of ``ip``, behind ``add`` or ``del``."""

    family: Family
    object: RouteObject
    words: str


@value
class Plan:
    tables: tuple[TableText, ...] = ()
    routing: tuple[RouteText, ...] = ()
    nft: tuple[NftTable, ...] = ()
    sets: tuple[SetText, ...] = ()

    def rules(self) -> Iterator[str]:
        """All rules of ours, those in built-in chains too, whichever language they are in."""
        for table in self.tables:
            yield from (entry.rule for entry in table.entries)
            for chain in table.chains:
                yield from chain.rules
        for own in self.nft:
            for part in own.chains:
                yield from part.rules


@value
class Observed:
    """What a namespace holds: ``own`` in the form of a plan, and what decides how a change is written.

    ``present``: the tables that exist, ours or not; ``made``: those that came with us and go with us; ``marked``:
    those of them with the mark that says so;
    ``on_loopback``: every address on ``lo`` in the words of ``ip``, ours or not; ``foreign``: others' rules, counted;
    ``taken``: the names of others' tables of nftables.
    """

    own: Plan = Plan()
    present: frozenset[tuple[Family, str]] = frozenset()
    made: frozenset[tuple[Family, str]] = frozenset()
    marked: frozenset[tuple[Family, str]] = frozenset()
    on_loopback: frozenset[str] = frozenset()
    foreign: int = 0
    taken: frozenset[str] = frozenset()


@value
class Step:
    """One call of one tool: ``text`` goes to its standard input; ``drop`` takes an empty table away.

    ``family`` is ``inet`` for both at once. ``backend`` names the one whose step it is, where that isn't the one that
    was chosen: rules go from there when they move.
    """

    tool: Literal["restore", "ip", "drop", "nft", "ipset", "ipset destroy"]
    family: Family | Literal["inet"]
    text: str
    backend: str = ""

    @property
    def one_family(self) -> Family:
        """The family of a step that is about one; every tool but nft's has one."""
        if self.family == "inet":
            raise ValueError(f"a step of {self.tool} for both families")
        return self.family


@value
class ChangeSet:
    """The steps that make what is there into the plan, in order; none means in sync.

    ``differences`` says the same for a person: lines that begin with ``+`` or ``-``.
    """

    steps: tuple[Step, ...] = ()
    differences: tuple[str, ...] = ()

    @property
    def empty(self) -> bool:
        return not self.steps


@value
class Receipt:
    """What one apply or remove did."""

    backend: str
    changes: ChangeSet
    notices: tuple[str, ...] = ()
