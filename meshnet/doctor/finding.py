"""What a check found: a value that says what is wrong, where, why, and what to do next."""

from __future__ import annotations

from meshnet.model.rule import Comment
from meshnet.model.value import replace, value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    from meshnet.model.cidr import Family
    from meshnet.model.ruleset import HeldRule, RuleSet
    from meshnet.model.story import Step

    Kind = Literal["loop", "lost-reply", "shadowed", "unreachable", "two-backends"]


@value
class Where:
    """A rule's place; ``number`` is from 1."""

    family: Family
    table: str
    chain: str
    number: int
    rule: HeldRule

    @property
    def words(self) -> str:
        """The rule's text without its comment."""
        from meshnet.render.saved import rule_text

        plain = tuple(item for item in self.rule.conditions if not isinstance(item, Comment))
        return rule_text(replace(self.rule, conditions=plain), self.family)

    def __str__(self) -> str:
        return f"rule {self.number} of {self.table} {self.chain}"


@value
class Finding:
    """``where`` is the rule to look at, None where one is missing; ``takers`` are the rules that take all its packets.

    ``why`` is the reason in sentences, ``steps`` the packets that show it.
    """

    kind: Kind
    family: Family
    what: str
    why: tuple[str, ...]
    next_step: str
    where: Where | None = None
    takers: tuple[Where, ...] = ()
    steps: tuple[Step, ...] = ()


@value
class Report:
    """``notes`` are what could not be judged, and why."""

    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()


def where(held: RuleSet, table: str, chain: str, number: int) -> Where:
    inside = held.table(table)
    found = inside.chain(chain) if inside is not None else None
    assert found is not None
    return Where(held.family, table, chain, number, found.rules[number - 1])
