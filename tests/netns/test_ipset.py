"""Long lists on the iptables backends: sets in place of rules, with the same meaning, ours alone, and gone with us."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from meshnet.apply.session import Session
from meshnet.kernel import ipsets
from meshnet.kernel.netns import where
from meshnet.model.errors import ToolError
from tests.netns import foreign, landing
from tests.netns.commands import meshnet
from tests.netns.interrupted import killed_at, refuse, stopped_session
from tests.netns.landing import call
from tests.netns.pods import CLIENT, ELSEWHERE, POD, REMOTE
from tests.netns.snapshot import run, snapshot
from tests.netns.specs import spec

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from meshnet.kernel.netns import Namespace
    from meshnet.model.plan import Receipt
    from meshnet.model.spec import Spec
    from tests.netns.landing import Listeners
    from tests.netns.pods import Pod

BACKENDS = ("iptables-nft", "iptables-legacy", "libiptc")
FOREIGN = "create OTHERS hash:net family inet\nadd OTHERS 10.9.0.0/16\ncreate MESHNETWORK hash:ip family inet\n"

HIDE = (
    'for tool in /usr/sbin/ipset /sbin/ipset; do [ -f "$tool" ] && '
    'mount --bind /dev/null "$(readlink -f "$tool")"; done; exec "$@"'
)
WITHOUT_IPSET = ("unshare", "-m", "sh", "-c", HIDE, "sh")


def long(more: tuple[str, ...] = (), *, count: int = 150, field: str = "outbound: {excludeCidrs: BLOCKS") -> Spec:
    """A spec with a list of both families' blocks that no neighbours join, and a list of ports."""
    blocks = [f"10.{n}.0.0/17" for n in range(count)] + [f'"fd00:{n:x}::/33"' for n in range(count)]
    ports = ", ".join(str(20000 + 2 * n) for n in range(count))
    words = field.replace("BLOCKS", f"[{', '.join([*blocks, *more])}]").replace("PORTS", f"[{ports}]")
    return spec(f"families: [ipv4, ipv6]\n{words}}}\n")


WANTED = long(("198.51.100.0/24", '"2001:db8:2::/64"'), field="outbound: {excludeCidrs: BLOCKS, excludePorts: PORTS")


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def listeners(pod: Pod) -> Iterator[Listeners]:
    made = landing.usual(pod)
    for family in (4, 6):
        made.tcp(pod.client, "remote", family, 20004)
        made.tcp(pod.client, "remote", family, 20005)
    made.start()
    yield made
    made.stop()


def apply(namespace: Namespace, wanted: Spec, backend: str) -> Receipt:
    with Session(where(namespace.where.text), backend) as session:  # type: ignore[arg-type]
        return session.apply(wanted)


def in_sync(namespace: Namespace, wanted: Spec, backend: str) -> bool:
    with Session(where(namespace.where.text), backend) as session:  # type: ignore[arg-type]
        return session.changes(wanted).empty


def names(namespace: Namespace) -> list[str]:
    return run(namespace, "ipset", "list", "-n").split()


def test_a_set_takes_the_place_of_a_rule_for_each(namespace: Namespace, backend: str) -> None:
    run(namespace, "ipset", "restore", text=FOREIGN)
    before = snapshot(namespace)
    apply(namespace, WANTED, backend)
    now = snapshot(namespace)
    assert len([name for name in names(namespace) if name.startswith("MESHNET_")]) == 3
    assert now["iptables-nft" if backend == "iptables-nft" else "iptables-legacy"].count("-A MESHNET") < 40
    assert in_sync(namespace, WANTED, backend)
    apply(namespace, WANTED, backend)
    assert snapshot(namespace) == now
    with Session(where(namespace.where.text)) as session:
        session.remove()
    assert snapshot(namespace) == before


def test_below_the_threshold_there_is_none(namespace: Namespace, backend: str) -> None:
    apply(namespace, long(count=99, field="outbound: {excludeCidrs: BLOCKS, excludePorts: PORTS"), backend)
    assert names(namespace) == []


def test_where_packets_land(pod: Pod, listeners: Listeners, backend: str) -> None:
    apply(pod.pod, WANTED, backend)
    for family in (4, 6):
        assert call(pod.pod, family, ELSEWHERE[family], 443)[0] == "remote", "an excluded block"
        assert call(pod.pod, family, REMOTE[family], 443)[0] == "outbound-proxy"
        assert call(pod.pod, family, REMOTE[family], 20004)[0] == "remote", "an excluded port"
        assert call(pod.pod, family, REMOTE[family], 20005)[0] == "outbound-proxy"
    apply(pod.pod, long(('"203.0.113.0/24"', '"2001:db8:1::/64"'), field="outbound: {cidrs: BLOCKS"), backend)
    for family in (4, 6):
        assert call(pod.pod, family, REMOTE[family], 443)[0] == "outbound-proxy", "a captured block"
        assert call(pod.pod, family, ELSEWHERE[family], 443)[0] == "remote"
    sources = long((f"{CLIENT[4]}/32", f'"{CLIENT[6]}/128"'), field="inbound: {excludeSources: BLOCKS")
    apply(pod.pod, sources, backend)
    for family in (4, 6):
        assert call(pod.client, family, POD[family], 80)[0] == "application", "an excluded source"


TAMPERINGS = {
    "a member deleted": "ipset del {0} 10.3.0.0/17",
    "a member added": "ipset add {0} 192.0.2.0/24",
    "a set emptied": "ipset flush {0}",
    "a port deleted": "ipset del {2} 20004",
    "a port added": "ipset add {2} 443",
    "an IPv6 member deleted": "ipset del {1} fd00:3::/33",
    "a set of ours that nobody knows": "ipset create MESHNET_4_00000000 hash:net",
    "what a killed exchange left": "ipset create MESHNET_BESIDE hash:net",
}


@pytest.mark.parametrize("what", TAMPERINGS)
def test_repair(namespace: Namespace, backend: str, what: str) -> None:
    apply(namespace, WANTED, backend)
    applied = snapshot(namespace)
    four, six, ports = (
        next(name for name in names(namespace) if name.startswith(f"MESHNET_{kind}_")) for kind in ("4", "6", "P")
    )
    run(namespace, *TAMPERINGS[what].format(four, six, ports).split())
    assert not in_sync(namespace, WANTED, backend), "seen"
    apply(namespace, WANTED, backend)
    assert snapshot(namespace) == applied
    assert in_sync(namespace, WANTED, backend)


def test_a_set_of_ours_that_somebody_made_of_another_kind(namespace: Namespace, backend: str) -> None:
    apply(namespace, WANTED, backend)
    applied, made = snapshot(namespace), names(namespace)
    with Session(where(namespace.where.text)) as session:
        session.remove()
    for name in made:
        other = "hash:ip" if "_4_" in name else "hash:net"
        run(namespace, "ipset", "create", name, other, "family", "inet")
    apply(namespace, WANTED, backend)
    assert snapshot(namespace) == applied
    assert in_sync(namespace, WANTED, backend)


def test_another_list_takes_its_place(namespace: Namespace, backend: str) -> None:
    apply(namespace, WANTED, backend)
    first = set(names(namespace))
    other = long(("203.0.113.0/24",), count=120)
    apply(namespace, other, backend)
    assert in_sync(namespace, other, backend)
    assert len(names(namespace)) == 2 and not first & set(names(namespace))
    apply(namespace, spec(), backend)
    assert names(namespace) == []


@pytest.mark.parametrize("after", [False, True], ids=["ahead", "after"])
def test_any_step_fails(namespace: Namespace, backend: str, after: bool) -> None:
    apply(namespace, long(count=110), backend)
    before = snapshot(namespace)
    for at in range(100):
        with stopped_session(namespace, backend, at, refuse, after) as session:
            try:
                session.apply(WANTED)
            except ToolError as error:
                assert "the namespace is as it was" in error.message
                assert snapshot(namespace) == before, f"step {at}"
            else:
                break
    assert at > 2


def test_killed_at_any_step(scratch, backend: str) -> None:
    for at in range(100):
        namespace = scratch()
        before = snapshot(namespace)
        apply(namespace, long(count=110), backend)
        killed = killed_at(namespace, backend, at, lambda session: session.apply(WANTED))
        with Session(where(namespace.where.text), backend) as session:
            session.apply(WANTED)
            assert session.changes(WANTED).empty
            session.remove()
        assert snapshot(namespace) == before, f"killed ahead of step {at}"
        if not killed:
            break
    assert at > 2


@pytest.mark.parametrize("other", ["iptables-nft", "iptables-legacy", "nftables"])
def test_moving_from_one_backend_to_another(namespace: Namespace, backend: str, other: str) -> None:
    before = snapshot(namespace)
    apply(namespace, long(count=110), backend)
    apply(namespace, WANTED, other)
    assert in_sync(namespace, WANTED, other)
    assert len(names(namespace)) == (0 if other == "nftables" else 3)
    apply(namespace, long(count=110), backend)
    assert in_sync(namespace, long(count=110), backend)
    with Session(where(namespace.where.text)) as session:
        session.remove()
    assert snapshot(namespace) == before


@pytest.mark.parametrize("other", ["iptables-nft", "iptables-legacy", "nftables"])
def test_a_move_takes_sets_away_behind_all_rules(
    namespace: Namespace, backend: str, other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel keeps a set that rules look into: asked ahead of that, both backends' rules stood for 1.5 s more."""
    destroy = ipsets.destroy

    def watched(going: tuple[str, ...]) -> None:
        held = "".join(run(namespace, f"{tool}-save") for tool in ("iptables-nft", "iptables-legacy"))
        assert not [name for name in going if name in held]
        destroy(going)

    monkeypatch.setattr(ipsets, "destroy", watched)
    apply(namespace, long(count=110), backend)
    apply(namespace, WANTED, other)
    assert in_sync(namespace, WANTED, other)


def test_sets_go_without_ipset_too(namespace: Namespace, backend: str, tmp_path: Path) -> None:
    """Made from a host that has it, and taken away or replaced from an image that has not."""
    path = tmp_path / "spec.yaml"
    path.write_text(
        "apiVersion: meshnet/v1\nkind: Interception\nfamilies: [ipv4]\n"
        f"outbound: {{excludeCidrs: [{', '.join(f'10.{n}.0.0/17' for n in range(150))}]}}\n"
    )
    before = snapshot(namespace)
    here = ("--netns", namespace.where.text)
    for command in (("apply", str(path), "--backend", backend), ("remove",)):
        assert meshnet("apply", str(path), *here, "--backend", backend).code == 0
        run(namespace, "ipset", "create", "MESHNET_BESIDE", "hash:net")
        answer = meshnet(*command, *here, before=WITHOUT_IPSET)
        assert (answer.code, names(namespace)) == (0, []), answer.err
    assert snapshot(namespace) == before


def test_a_set_that_a_stranger_s_rule_looks_into_is_told(namespace: Namespace, backend: str) -> None:
    apply(namespace, long(), backend)
    name = next(name for name in names(namespace) if name.startswith("MESHNET_4_"))
    foreign.restore(namespace, backend, 4, f"*nat\n-A OUTPUT -m set --match-set {name} dst -j ACCEPT\nCOMMIT\n")
    for _ in range(2):
        answer = meshnet("remove", "--netns", namespace.where.text)
        assert (answer.code, f"the set {name} stays" in answer.err) == (0, True), answer.err
    assert names(namespace) == [name]


def test_without_ipset_each_entry_is_a_rule(pod: Pod, listeners: Listeners, backend: str, tmp_path: Path) -> None:
    path = tmp_path / "spec.yaml"
    blocks = ", ".join(f"10.{n}.0.0/17" for n in range(150))
    path.write_text(
        "apiVersion: meshnet/v1\nkind: Interception\nfamilies: [ipv4]\n"
        f"outbound: {{excludeCidrs: [{blocks}, 198.51.100.0/24]}}\n"
    )
    answer = meshnet("apply", str(path), "--netns", pod.name, "--backend", backend, before=WITHOUT_IPSET)
    assert answer.code == 0 and "ipset is missing" in answer.err, answer.err
    assert names(pod.pod) == []
    assert call(pod.pod, 4, ELSEWHERE[4], 443)[0] == "remote"
    assert call(pod.pod, 4, REMOTE[4], 443)[0] == "outbound-proxy"


def test_others_sets_are_left_alone(namespace: Namespace, backend: str) -> None:
    run(namespace, "ipset", "restore", text=FOREIGN)
    foreign.restore(namespace, backend, 4, "*nat\n-A OUTPUT -m set --match-set OTHERS dst -j ACCEPT\nCOMMIT\n")
    before = snapshot(namespace)
    apply(namespace, WANTED, backend)
    with Session(where(namespace.where.text)) as session:
        session.remove()
    assert snapshot(namespace) == before
