"""Programs of short documents, and what tests ask about their chains."""

from __future__ import annotations

from textwrap import dedent
from typing import TYPE_CHECKING

from meshnet.compile.pipeline import compile_spec
from meshnet.model.facts import Facts
from tests.unit.spec.writing import spec_of

if TYPE_CHECKING:
    from meshnet.model.program import Program, Rule


def program(body: str = "", facts: Facts | None = None) -> Program:
    return compile_spec(spec_of(dedent(body)), facts or Facts())


def rules(made: Program, table: str, chain: str) -> list[Rule]:
    """The rules of a chain in order; none where it doesn't exist."""
    return [rule for item in made.chains if (item.table, item.name) == (table, chain) for rule in item.rules]


def ids(made: Program, table: str, chain: str, family: int = 4) -> list[str]:
    """Ids of a chain's rules for one family, without the table's name."""
    found = [rule.id for rule in rules(made, table, chain) if rule.family in (None, family)]
    return [name.removeprefix(f"{table}.") for name in found]


def having(made: Program, word: str) -> list[str]:
    """Every id that has a word in it."""
    return [rule.id for rule in made.rules() if word in rule.id]
