"""The doctor on rules in force, and the kernel's word on what it says of rules that nothing reaches."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from meshnet.model.value import replace
from meshnet.render.saved import text_of
from meshnet.simulate.reach import unreached
from tests.netns import fuzz, randomrules
from tests.netns.commands import meshnet
from tests.netns.snapshot import run, snapshot
from tests.unit.simulate.mutations import goldens, without

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from meshnet.model.ruleset import RuleSet
    from tests.netns.fuzz import World
    from tests.netns.pods import Pod

SETTINGS = fuzz.Settings(False, False, 0, True, True)
SPEC = "apiVersion: meshnet/v1\nkind: Interception\nname: web\nfamilies: [ipv4, ipv6]\ninbound: {mode: tproxy}\n"
FLOWS = 40
NAMES = ("basic-exclude-nic.golden", "tproxy.golden", "ipnets.golden", "inbound-ports-tproxy.golden")


@pytest.fixture
def spec_file(tmp_path: Path) -> str:
    path = tmp_path / "pod.yaml"
    path.write_text(SPEC)
    return str(path)


def held_rules(pod: Pod) -> dict[str, str]:
    """All rules and tables of the pod; routing isn't asked, where IPv6 settles by itself meanwhile."""
    return {key: text for key, text in snapshot(pod.pod).items() if "nft" in key or "legacy" in key}


@pytest.mark.parametrize("backend", ["iptables-nft", "iptables-legacy", "nftables"])
def test_our_rules_in_force_are_healthy(pod: Pod, spec_file: str, backend: str) -> None:
    here = ("--netns", pod.name)
    assert meshnet("apply", spec_file, *here, "--backend", backend).code == 0
    before = held_rules(pod)
    told = meshnet("doctor", *here, "-o", "json")
    assert (told.code, told.data["findings"]) == (0, []), told.err
    assert held_rules(pod) == before


@pytest.mark.parametrize("backend", ["iptables-nft", "nftables"])
def test_the_same_rules_are_sick_in_a_namespace_without_their_policy_rule(
    pod: Pod, spec_file: str, backend: str
) -> None:
    here = ("--netns", pod.name)
    meshnet("apply", spec_file, *here, "--backend", backend)
    run(pod.pod, "ip", "-4", "rule", "del", "priority", "109")
    told = meshnet("doctor", *here, "-o", "json")
    assert told.code == 1
    assert {(one["kind"], one["family"]) for one in told.data["findings"]} >= {("lost-reply", 4)}
    assert not [one for one in told.data["findings"] if one["family"] == 6]


def test_an_empty_namespace_is_healthy_and_stays_empty(pod: Pod) -> None:
    before = held_rules(pod)
    assert meshnet("doctor", "--netns", pod.name).code == 0
    assert held_rules(pod) == before


def test_rules_of_ours_on_two_backends(pod: Pod, spec_file: str) -> None:
    here = ("--netns", pod.name)
    meshnet("apply", spec_file, *here, "--backend", "iptables-nft")
    held = run(pod.pod, "iptables-nft-save")
    run(pod.pod, "iptables-legacy-restore", text=held)
    told = meshnet("doctor", *here, "-o", "json")
    (found,) = (one for one in told.data["findings"] if one["kind"] == "two-backends")
    assert told.code == 1 and found["family"] == 4 and "iptables-legacy" in found["what"]
    assert any("both are in force" in note for note in told.data["notes"])


def test_a_table_of_nftables_and_rules_beside_it(pod: Pod, spec_file: str) -> None:
    here = ("--netns", pod.name)
    meshnet("apply", spec_file, *here, "--backend", "iptables-nft")
    held = {4: run(pod.pod, "iptables-nft-save"), 6: run(pod.pod, "ip6tables-nft-save")}
    meshnet("apply", spec_file, *here, "--backend", "nftables")
    run(pod.pod, "nft", "add table inet somebody")
    alone = meshnet("doctor", *here, "-o", "json")
    assert (alone.code, alone.data["notes"]) == (0, ["table inet somebody is somebody else's and isn't looked at"])
    run(pod.pod, "iptables-nft-restore", text=held[4])
    told = meshnet("doctor", *here, "-o", "json")
    assert [(one["kind"], one["family"]) for one in told.data["findings"]] == [("two-backends", 4)]
    assert any("no text tells which comes first" in note for note in told.data["notes"]), told.data["notes"]


def test_our_table_with_a_rule_out_of_reach(pod: Pod, spec_file: str) -> None:
    """What stands behind a verdict for everybody is found, and what only is there for a sidecar that is away isn't."""
    here = ("--netns", pod.name)
    meshnet("apply", spec_file, *here, "--backend", "nftables")
    run(pod.pod, "nft", "add rule inet meshnet nat_out ip daddr 10.9.9.9 return")
    told = meshnet("doctor", *here, "-o", "json")
    found = [(one["kind"], one["family"], one["where"]["rule"]) for one in told.data["findings"]]
    assert found == [], "UDP goes on behind the capture of TCP"
    run(pod.pod, "nft", "add rule inet meshnet nat_out meta l4proto tcp ip daddr 10.9.9.9 return")
    told = meshnet("doctor", *here, "-o", "json")
    found = [(one["kind"], one["family"], one["where"]["rule"]) for one in told.data["findings"]]
    assert found == [("shadowed", 4, "meta l4proto tcp ip daddr 10.9.9.9 return")], found
    (finding,) = told.data["findings"]
    assert finding["where"]["table"] == "inet meshnet"
    assert finding["taken_by"][-1]["rule"] == "meta l4proto tcp redirect to :15001"


@pytest.mark.parametrize("words", [("--netns", "no-such-namespace"), ("--pid", "4194304")])
def test_no_such_namespace(words: tuple[str, ...]) -> None:
    told = meshnet("doctor", *words)
    assert told.code == 3 and "Traceback" not in told.err


@pytest.fixture(scope="module", params=["nft", "legacy"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    made = fuzz.World(4, request.param)
    yield made
    made.close()


def load(world: World, held: RuleSet) -> None:
    here = {table.name for table in held.tables}
    emptied = "".join(f"*{table}\nCOMMIT\n" for table in randomrules.TABLES if table not in here)
    world.setup(SETTINGS, emptied + text_of(held))


@pytest.mark.conformance
@pytest.mark.parametrize("name", NAMES)
def test_the_kernel_meets_no_such_rule_and_doesn_t_miss_it(world: World, name: str) -> None:
    """Random packets: the counters of these rules stay where they are, and with all of them deleted every packet ends
    where it ended before."""
    held = dict(goldens())[name]
    told = [item for item in unreached(held, [world.host(SETTINGS)]) if not item.doubt]
    assert any(item.takers for item in told)
    places = {(item.place.table, item.place.chain, item.place.number) for item in told}
    seed = random.Random(name)
    flows = [fuzz.random_flow(seed, 4, 0) for _ in range(FLOWS)]
    ends = []
    load(world, held)
    for flow in flows:
        world.port += 1
        landed = world.send(replace(flow, source_port=world.port))
        assert not places & {hit[:3] for hit in landed.hits}
        ends.append(end_of(landed))
    shorter = held
    for table, chain, number in sorted(places, reverse=True):
        tables = [one.name for one in shorter.tables]
        chains = [one.name for one in shorter.tables[tables.index(table)].chains]
        shorter = without(shorter, tables.index(table), chains.index(chain), number - 1)
    load(world, shorter)
    for flow, end in zip(flows, ends, strict=True):
        world.port += 1
        assert end_of(world.send(replace(flow, source_port=world.port))) == end, str(flow)


def end_of(landed: fuzz.Landed) -> tuple[object, ...]:
    """Without source ports, which are each packet's own."""
    where = landed.where
    return landed.end, *(where if landed.end != "left" else (where[0], where[1], where[3], where[4]))
