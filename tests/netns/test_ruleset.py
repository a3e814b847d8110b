"""What the tools print of a rule set that they loaded is read as the rule set that they were given."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from meshnet.model.hooks import BUILT_IN
from meshnet.model.rule import ConnectionIs, UnknownMatch
from meshnet.model.ruleset import HeldRule
from meshnet.parse.ruleset import read
from meshnet.render.saved import text_of
from tests import conformance
from tests.netns.snapshot import run

if TYPE_CHECKING:
    from meshnet.kernel.netns import Namespace
    from meshnet.model.ruleset import RuleSet

pytestmark = pytest.mark.conformance


def plain(held: RuleSet) -> dict[tuple[str, str], list[tuple[frozenset[object], object]]]:
    """Chains by table and name, without empty built-in ones; the tools print matches in an order of their own."""
    found = {}
    for table in held.tables:
        for chain in table.chains:
            if chain.rules or chain.name not in BUILT_IN.get(table.name, ()):
                found[table.name, chain.name] = [(_conditions(rule), rule.action) for rule in chain.rules]
    return found


def _conditions(rule: HeldRule) -> frozenset[object]:
    return frozenset(
        (frozenset(item.states), item.states_negated, item.direction) if isinstance(item, ConnectionIs) else item
        for item in rule.conditions
    )


def loadable(held: RuleSet) -> bool:
    return not any(
        isinstance(item, UnknownMatch)
        for table in held.tables
        for chain in table.chains
        for rule in chain.rules
        for item in rule.conditions
    )


@pytest.mark.parametrize("variant", ["nft", "legacy"])
def test_the_tools_print_what_was_read(namespace: Namespace, variant: str) -> None:
    tried = 0
    for name, family, text in conformance.saved():
        held = read(text, family, name)  # type: ignore[arg-type]
        if not loadable(held):
            continue
        tried += 1
        tool = f"{'ip6tables' if family == 6 else 'iptables'}-{variant}"
        here = {table.name for table in held.tables}
        emptied = "".join(f"*{table}\nCOMMIT\n" for table in ("raw", "mangle", "nat", "filter") if table not in here)
        run(namespace, f"{tool}-restore", text=emptied + text_of(held))
        again = read(run(namespace, f"{tool}-save", "-c"), family, name)  # type: ignore[arg-type]
        assert plain(again) == plain(held), name
    assert tried > 80
