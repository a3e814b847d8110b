"""The plan: a program in the words of one backend, and the same form for what a namespace already holds.

A rule is the text behind ``-A CHAIN``, a table one family's own chains plus the entries by which packets get there.
What was planned and what was read back have one form, so the difference between two of them is all that apply,
repair, replace, roll back and remove need to know.
"""

from __future__ import annotations

from meshnet.model.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from meshnet.model.cidr import Family
    from meshnet.model.program import Hook, LocalRoute, LoopbackAddress, PolicyRule, Table


@value
class ChainText:
    name: str
    rules: tuple[str, ...]


@value
class EntryText:
    """A rule in a built-in chain that shows its packets to one of ours."""

    hook: Hook
    rule: str


@value
class TableText:
    family: Family
    table: Table
    chains: tuple[ChainText, ...]
    entries: tuple[EntryText, ...]


@value
class Routing:
    """Own policy rules, routes and addresses; in a plan those wanted, in a reading those that are there."""

    policy_rules: tuple[PolicyRule, ...] = ()
    local_routes: tuple[LocalRoute, ...] = ()
    loopback_addresses: tuple[LoopbackAddress, ...] = ()


@value
class Plan:
    tables: tuple[TableText, ...] = ()
    routing: Routing = Routing()


@value
class Observed:
    """What a namespace holds: ``own`` in the form of a plan, and what decides how a change is written.

    ``present``: the tables that exist, ours or not; ``made``: those that came with us and go with us;
    ``foreign``: how many rules of others each table holds; ``copies``: entries of ours that stand there twice.
    """

    own: Plan = Plan()
    present: frozenset[tuple[Family, Table]] = frozenset()
    made: frozenset[tuple[Family, Table]] = frozenset()
    foreign: int = 0


@value
class Step:
    """One call of one tool: ``text`` goes to its standard input."""

    tool: str
    family: Family
    text: str
    about: str


@value
class ChangeSet:
    """The steps that make ``observed`` into the plan, in order; empty means in sync."""

    steps: tuple[Step, ...] = ()
    differences: tuple[str, ...] = ()

    @property
    def empty(self) -> bool:
        return not self.steps
