"""The plan: a program in the words of one backend, and the same form for what a namespace already holds.

A rule is the text behind ``-A CHAIN``, a table one family's own chains plus the entries by which packets get there,
and what routing needs is the text behind ``ip rule add`` and its like. What was planned and what was read back have
one form, so the difference between two of them is all that apply, repair, replace, roll back and remove need.
"""

from __future__ import annotations

from meshnet.model.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    from meshnet.model.cidr import Family
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
class RouteText:
    """A policy rule, route or address in the words of ``ip``, behind ``add`` or ``del``."""

    family: Family
    object: RouteObject
    words: str


@value
class Plan:
    tables: tuple[TableText, ...] = ()
    routing: tuple[RouteText, ...] = ()


@value
class Observed:
    """What a namespace holds: ``own`` in the form of a plan, and what decides how a change is written.

    ``present``: the tables that exist, ours or not; ``made``: those that came with us and go with us; ``marked``:
    those of them with the mark that says so;
    ``on_loopback``: every address on ``lo`` in the words of ``ip``, ours or not; ``foreign``: others' rules, counted.
    """

    own: Plan = Plan()
    present: frozenset[tuple[Family, str]] = frozenset()
    made: frozenset[tuple[Family, str]] = frozenset()
    marked: frozenset[tuple[Family, str]] = frozenset()
    on_loopback: frozenset[str] = frozenset()
    foreign: int = 0


@value
class Step:
    """One call of one tool: ``text`` goes to its standard input; ``drop`` takes an empty table away."""

    tool: Literal["restore", "ip", "drop"]
    family: Family
    text: str


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
