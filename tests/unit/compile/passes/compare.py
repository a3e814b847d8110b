"""A feature alone: what it adds to a spec without it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.unit.compile.compiling import program

if TYPE_CHECKING:
    from meshnet.model.facts import Facts
    from meshnet.model.program import Rule


def added(without: str, having: str, facts: Facts | None = None) -> list[str]:
    """Ids of the rules that only the second spec has; and none of the first may be lost."""
    before = [rule.id for rule in program(without, facts).rules()]
    after = [rule.id for rule in program(having, facts).rules()]
    assert not set(before) - set(after)
    return [name for name in dict.fromkeys(after) if name not in before]


def rule(body: str, name: str, facts: Facts | None = None) -> Rule:
    (found,) = (item for item in program(body, facts).rules() if item.id == name)
    return found
