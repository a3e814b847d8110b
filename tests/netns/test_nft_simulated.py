"""What the simulator walks is what the kernel has: a table as nft prints it, and as it is read out of the kernel."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from meshnet.compile.pipeline import compile_spec
from meshnet.kernel import nft_read
from meshnet.model.facts import Facts
from meshnet.model.value import replace
from meshnet.parse.nft_ruleset import of_table, read
from meshnet.parse.nftables import understand
from meshnet.render import nftables
from meshnet.render.nft_text import transaction
from meshnet.spec.load import load_text
from tests.netns.commands import meshnet
from tests.netns.pods import POD, REMOTE
from tests.netns.snapshot import run

if TYPE_CHECKING:
    from meshnet.kernel.netns import Namespace
    from meshnet.model.nft import NftTable
    from meshnet.model.ruleset import RuleSet
    from tests.netns.pods import Pod, Scratch

CASES = sorted((Path(__file__).resolve().parents[1] / "cases").iterdir())


def held(namespace: Namespace, name: str) -> NftTable:
    with namespace.entered():
        (table,) = (table for table in nft_read.tables() if table.name == name)
        return understand(nft_read.content(table)).table


def by_chain(rules: RuleSet) -> dict[str, object]:
    """nft drops what another phrase says already, ``meta l4proto tcp`` ahead of a port of TCP; order and rest stay."""
    (table,) = rules.tables
    return {
        chain.name: (chain.base, chain.policy, [(set(rule.conditions), rule.action) for rule in chain.rules])
        for chain in table.chains
    }


@pytest.mark.parametrize("profile", ["meshnet", "istio"])
def test_every_case_as_nft_prints_it_and_as_the_kernel_has_it(scratch: Scratch, profile: str) -> None:
    namespace = scratch()
    for path in CASES:
        spec = load_text((path / "spec.yaml").read_text(), "").spec
        table = nftables.render(compile_spec(replace(spec, profile=profile), Facts()), "pod")
        run(namespace, "nft", "-f", "-", text=transaction([table], ["pod"]))
        wanted = of_table(table)
        assert of_table(held(namespace, "pod")) == wanted, path.name
        printed = read(run(namespace, "nft", "list table inet pod"))
        assert [by_chain(rules) for rules in printed] == [by_chain(rules) for rules in wanted], path.name


def test_explain_follows_the_table_in_force(pod: Pod, tmp_path: Path) -> None:
    spec = tmp_path / "pod.yaml"
    spec.write_text("apiVersion: meshnet/v1\nkind: Interception\ninbound: {mode: tproxy}\n")
    here = ("--netns", pod.name)
    out = ("--out", "--uid", "1000", "--dst", REMOTE[4], "--dport", "443", "-o", "json")
    assert meshnet("explain", *here, *out).data["disposition"] == "direct"
    meshnet("apply", str(spec), *here, "--backend", "nftables")
    found = meshnet("explain", *here, *out)
    last = [hop for hop in found.data["hops"] if hop["rule"]][2]
    assert found.data["disposition"] == "outbound-proxy"
    assert (last["table"], last["chain"], last["rule"]) == (
        "inet meshnet",
        "nat_out",
        "meta l4proto tcp redirect to :15001",
    )
    assert last["comment"] == "meshnet:nat.out.capture.all"
    told = meshnet("explain", *here, "--conversation", "--in", "--dst", POD[6], "--dport", "80", "-o", "json")
    assert told.data["disposition"] == "inbound-proxy", told.out
    assert meshnet("explain", str(spec), *here, "--out").code == 2
    assert meshnet("explain", *here, "--out", "--address", "10.0.0.1").code == 2
    listed = tmp_path / "listed.nft"
    listed.write_text(run(pod.pod, "nft", "list table inet meshnet"))
    assert meshnet("compare", str(spec), str(listed)).code == 0
    run(pod.pod, "nft", "add rule inet meshnet nat_out limit rate 5/second drop")
    udp = ("--out", "--uid", "1000", "--dst", REMOTE[4], "--dport", "443", "--proto", "udp")
    unsure = meshnet("explain", *here, *udp, "-o", "json")
    assert unsure.data["disposition"] == "undecided", json.dumps(unsure.data)
    assert "limit" in unsure.data["hops"][-1]["rule"]
