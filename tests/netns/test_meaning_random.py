"""Any valid spec, applied and proven: the rules in the kernel and the spec's meaning say the same of every flow."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings

from meshnet.apply.session import Session
from meshnet.compile.resolve import resolve
from meshnet.kernel.netns import where
from meshnet.model.cidr import read_cidr
from meshnet.model.value import replace
from meshnet.probe.verify import verify
from tests.netns.pods import Scratch
from tests.strategies import specs

if TYPE_CHECKING:
    from meshnet.model.spec import Spec

SOME = settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    database=None,
    print_blob=False,
    suppress_health_check=list(HealthCheck),
)
RESOLVERS = (read_cidr("10.96.0.10/32"), read_cidr("fd00:96::a/128"))


def wrong(spec: Spec, backend: str) -> list[str]:
    """Apply a spec in a namespace of its own, and tell which probes landed elsewhere."""
    scratch = Scratch()
    try:
        namespace = scratch()
        with Session(where(namespace.where.text), backend) as session:
            session.facts = replace(session.facts, resolvers=RESOLVERS)
            session.apply(spec)
            settled, families = resolve(spec, session.facts)
            found = verify(session.namespace, settled, families)
    finally:
        scratch.clean()
    return [
        f"{item.probe.name}: {item.probe.flow}: {item.seen}, not {item.probe.predicted.disposition} "
        f"by {item.probe.predicted.because}"
        for item in found.seen
        if not item.ok
    ]


@pytest.mark.parametrize("backend", ["iptables-nft", "nftables"])
def test_rules_and_meaning_agree(backend: str) -> None:
    @SOME
    @given(specs())
    def each(spec: Spec) -> None:
        assert wrong(spec, backend) == []

    each()
