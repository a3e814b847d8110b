"""One spec on every backend: the same packet lands at the same place. The specs are istio-iptables' golden ones."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from meshnet.apply import apply as work
from meshnet.apply.host import LiveHost
from meshnet.apply.nft_host import NftHost
from meshnet.compile.pipeline import compile_spec
from meshnet.kernel.xtables import Xtables
from meshnet.model.cidr import read_cidr
from meshnet.model.value import replace
from meshnet.render.plan import render
from tests.netns.landing import call
from tests.netns.pods import ELSEWHERE, LOOPBACK, PASSTHROUGH, POD, REMOTE, RESOLVER
from tests.netns.test_istio_iptables import cases, inputs

if TYPE_CHECKING:
    from meshnet.apply.host import Host
    from meshnet.model.facts import Facts
    from meshnet.model.spec import Spec
    from tests.netns.landing import Listeners
    from tests.netns.pods import Pod

IDENTITIES = ((0, 0), (0, 203), (3, 3), (1337, 1337), (7777, 7))
PORTS_IN = (80, 81, 443, 9090, 15008, 15020)


def landings(pod: Pod, families: tuple[int, ...], guest: Any) -> dict[tuple[object, ...], tuple[str, str]]:
    """Where a battery of calls lands, and as whom each caller is seen."""
    found = {}
    for family in families:
        for port in PORTS_IN:
            found[family, "in", port] = call(pod.client, family, POD[family], port)
        for uid, gid in IDENTITIES:
            for to in (REMOTE, ELSEWHERE, POD, LOOPBACK):
                for port in (80, 443, 9090):
                    key = (family, "out", uid, gid, to[family], port)
                    found[key] = call(pod.pod, family, to[family], port, uid=uid, gid=gid)
            for transport in ("tcp", "udp"):
                key = (family, "dns", uid, gid, transport)
                found[key] = call(pod.pod, family, RESOLVER[family], 53, transport=transport, uid=uid, gid=gid)
        passed = call(pod.pod, family, POD[family], 80, source=PASSTHROUGH[family], uid=1337, gid=1337)
        found[family, "passthrough"] = passed
        found[family, "guest"] = call(guest, family, REMOTE[family], 443)
    return found


def configurations() -> list[Any]:
    """Every fourth one is in ``make test``; all of them send for minutes, and .ci/run does."""
    return [
        pytest.param(case, marks=[] if number % 4 == 0 else [pytest.mark.long], id=case["name"])
        for number, case in enumerate(cases())
    ]


@pytest.mark.conformance
@pytest.mark.parametrize("profile", ["istio", "meshnet"])
@pytest.mark.parametrize("case", configurations())
def test_golden_configurations_land_alike(pod: Pod, listeners: Listeners, case: dict[str, Any], profile: str) -> None:
    guest = pod.guest()
    spec, facts = inputs(case["config"])
    if profile == "meshnet":
        spec = replace(spec, profile="meshnet", marks=replace(spec.marks, mask=0xFFF))
        facts = replace(facts, resolvers=facts.resolvers or (read_cidr(RESOLVER[4]), read_cidr(RESOLVER[6])))
    wanted = None
    with pod.pod.entered():
        hosts: tuple[Host, ...] = (LiveHost(Xtables("nft"), (4, 6)), NftHost((4, 6)))
    for host in hosts:
        put(pod, host, spec, facts)
        found = landings(pod, facts.families, guest)
        with pod.pod.entered():
            work.remove(host)
        wanted = wanted or found
        assert found == wanted, {key: (wanted[key], found[key]) for key in found if found[key] != wanted[key]}
    assert len({name for name, _ in wanted.values()}) > 1


def put(pod: Pod, host: Host, spec: Spec, facts: Facts) -> None:
    with pod.pod.entered():
        work.apply(host, render(compile_spec(spec, facts), host.name))
