"""What ``compare`` says is different, the kernel treats differently: its example packet under either rule set."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from meshnet.model.rule import UnknownMatch
from meshnet.render.saved import text_of
from meshnet.simulate.compare import Side, compare
from meshnet.simulate.walk import Pod
from tests.netns import fuzz, randomrules
from tests.unit.simulate.mutations import goldens, places, without

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meshnet.model.flow import Flow
    from meshnet.model.ruleset import RuleSet
    from tests.netns.fuzz import World

pytestmark = pytest.mark.conformance
SETTINGS = fuzz.Settings(False, False, 0, True, True)
EACH = 3


@pytest.fixture(scope="module", params=["nft", "legacy"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    made = fuzz.World(4, request.param)
    yield made
    made.close()


def sendable(flow: Flow, more: tuple[str, ...]) -> bool:
    """Nobody can send a mark over a cable, nor enter by interfaces that aren't there."""
    first = not more and flow.state == "NEW" and flow.transport != "icmp"
    return first and flow.interface in ("eth0", "lo") and not (flow.way == "in" and flow.mark)


def known(held: RuleSet) -> bool:
    """The tools here resolve no names of groups."""
    conditions = (
        item for table in held.tables for chain in table.chains for rule in chain.rules for item in rule.conditions
    )
    return not any(isinstance(item, UnknownMatch) for item in conditions)


def confirmed(world: World, flow: Flow, rules: RuleSet) -> str:
    """Nothing if the kernel does with the packet what the trace says, else what it did."""
    for transport in ("tcp", "udp"):
        if flow.port not in {listener.port for listener, _ in world.listeners if listener.transport == transport}:
            world._add(transport, flow.port, "", transparent=True)
    here = {table.name for table in rules.tables}
    emptied = "".join(f"*{table}\nCOMMIT\n" for table in randomrules.TABLES if table not in here)
    world.setup(SETTINGS, emptied + text_of(rules))
    world.port += 1
    return fuzz.disagreement(world, Pod([rules], world.host(SETTINGS)), fuzz.replace(flow, source_port=world.port))


@pytest.mark.parametrize(("name", "held"), goldens(), ids=lambda item: item if isinstance(item, str) else "")
def test_the_kernel_confirms_the_example(world: World, name: str, held: RuleSet) -> None:
    host = world.host(SETTINGS)
    tried = 0
    for place in places(held):
        other = without(held, *place)
        found = compare(Side(held, host), Side(other, host)).difference
        if found is None or not sendable(found.flow, found.more) or not known(held):
            continue
        assert found.one != found.other
        assert not confirmed(world, found.flow, held), f"{name} without {place}"
        assert not confirmed(world, found.flow, other), f"{name} without {place}"
        tried += 1
        if tried == EACH:
            break
    assert tried or not known(held)
