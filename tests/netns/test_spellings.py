"""Addresses that the tools print otherwise than they were written: ``::7f00:35`` comes back as ``::127.0.0.53``."""

from __future__ import annotations

import pytest

from meshnet.apply.session import Session
from meshnet.kernel import netns
from meshnet.kernel.netns import Namespace, Where
from meshnet.spec.load import load_text
from tests.netns.snapshot import snapshot

ODD = """\
apiVersion: meshnet/v1
kind: Interception
passthrough: {ipv6: "::1.2.3.4"}
inbound: {excludeSources: ["::ffff:0:0/96", "64:ff9b::1.2.3.4"]}
dns: {capture: resolvers, resolvers: [127.0.0.53, "::127.0.0.53"]}
outbound: {excludeCidrs: ["::ffff:10.0.0.0/104"]}
"""


@pytest.mark.parametrize("backend", ["iptables-nft", "iptables-legacy", "libiptc"])
def test_what_is_printed_otherwise_is_neither_drift_nor_left_behind(namespace: Namespace, backend: str) -> None:
    spec = load_text(ODD, "odd.yaml").spec
    place = Where("path", f"/proc/self/fd/{namespace.fd}")
    before = snapshot(namespace)
    with Session(place, backend) as session:  # type: ignore[arg-type]
        assert session.apply(spec).changes.steps
        assert session.changes(spec).differences == ()
        assert session.remove().changes.steps
    assert snapshot(namespace) == before
    assert netns.in_birthplace()
