"""Any valid spec compiles and loads, and what the tools print back is what was meant: 500 of them on each variant."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, Phase, given, settings

from meshnet.apply import apply as work
from meshnet.apply.host import LiveHost
from meshnet.apply.nft_host import NftHost
from meshnet.compile.pipeline import compile_spec
from meshnet.kernel.xtables import Xtables
from meshnet.model.cidr import read_cidr
from meshnet.model.facts import Facts
from meshnet.render.plan import render
from tests.netns.pods import Scratch
from tests.strategies import specs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meshnet.apply.host import Host
    from meshnet.model.spec import Spec

MANY = settings(
    max_examples=500,
    deadline=None,
    derandomize=True,
    database=None,
    phases=(Phase.generate, Phase.shrink),
    suppress_health_check=list(HealthCheck),
)
FACTS = Facts(global_ipv6=True, resolvers=(read_cidr("10.96.0.10/32"), read_cidr("fd00:96::a/128")))


@pytest.fixture(scope="module")
def scratch_module() -> Iterator[Scratch]:
    made = Scratch()
    yield made
    made.clean()


def loads(host: Host, spec: Spec) -> None:
    """Each spec replaces the one before it, as ever new rules would in a pod; then nothing is left to do."""
    plan = render(compile_spec(spec, FACTS), host.name)
    work.apply(host, plan)
    assert work.changes(host, plan).empty


def test_500_specs_with_nft(scratch_module: Scratch) -> None:
    with scratch_module().entered():
        host = LiveHost(Xtables("nft"), (4, 6))

        @MANY
        @given(specs())
        def each(spec: Spec) -> None:
            loads(host, spec)

        each()


def test_500_specs_with_nftables(scratch_module: Scratch) -> None:
    with scratch_module().entered():
        host = NftHost((4, 6))

        @MANY
        @given(specs())
        def each(spec: Spec) -> None:
            loads(host, spec)

        each()


def test_500_specs_with_legacy(scratch_module: Scratch) -> None:
    with scratch_module().entered():
        host = LiveHost(Xtables("legacy"), (4, 6))

        @MANY
        @given(specs())
        def each(spec: Spec) -> None:
            loads(host, spec)

        each()
