"""The proof itself: right where the rules are, wrong where somebody has taken one away, and gone without a trace."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest

from meshnet.apply.session import Session
from meshnet.compile.resolve import resolve
from meshnet.kernel import links
from meshnet.kernel.netns import where
from meshnet.model.errors import BusyError, UsageError
from meshnet.probe.verify import verify
from tests.netns import foreign
from tests.netns.pods import INET
from tests.netns.snapshot import run, snapshot
from tests.netns.specs import pod_spec, spec

if TYPE_CHECKING:
    from typing import Any

    from meshnet.kernel.netns import Namespace
    from meshnet.model.spec import Spec
    from meshnet.probe.verify import Verified
    from tests.netns.pods import Pod, Scratch

BACKENDS = ("iptables-nft", "iptables-legacy", "nftables")
MODES = ("redirect", "tproxy")
RICH = """\
families: [ipv4, ipv6]
sidecar: {uids: [1337, 1338], gids: [1337], mark: 0x53b}
inbound:
  mode: MODE
  ports: [80, "9000-9100", 15090]
  excludePorts: [9050, 15090]
  excludeSources: [198.51.100.0/24, "2001:db8:5::/64"]
  tunnelPort: 15008
outbound:
  cidrs: [10.96.0.0/12, "fd00:96::/64", 127.0.0.128/25]
  excludeCidrs: [10.96.5.0/24, "fd00:96::5:0/112"]
  ports: [443]
  excludePorts: [9443, "9500-9600"]
  groups: [0, 2000]
  excludeGroups: [3000]
dns: {capture: resolvers, resolvers: [10.96.0.10, "fd00:96::a"]}
interfaces: {exclude: [net5], guest: [tap+]}
dropInvalid: true
"""

EXPLAINED = {
    # For what is no first packet of a connection: the probes send nothing else.
    "nat.in.guard.mid-stream",
    "nat.out.guard.mid-stream",
    "mangle.in.guard.invalid",
    "mangle.in.tproxy.mid-stream",
    # For connections that a REDIRECT set translated before TPROXY took its place.
    "mangle.in.tproxy.translated",
    # For calls while nobody listens; the probes' listeners do.
    "mangle.in.tproxy.capture.no-listener",
    # For what no process sent; the probes are all sent by one.
    "nat.out.groups.others.no-owner",
    "raw.out.groups.others.no-owner",
    # For a sidecar's call to a pod address that lies in an excluded block; this pod has none there.
    "mangle.self.exclude.cidrs",
}
"""Rules that may stay untouched, each for a reason."""


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest) -> str:
    return request.param


def apply(namespace: Namespace, wanted: Spec, backend: str) -> None:
    with Session(where(namespace.where.text), backend) as session:
        session.apply(wanted)


def proof(
    namespace: Namespace, wanted: Spec, backend: str, peer: Namespace | None = None
) -> tuple[Verified, tuple[dict[str, Any], ...]]:
    """What the probes saw, and the rules that none of them touched."""
    with Session(where(namespace.where.text), backend) as session:
        settled, families = resolve(wanted, session.facts)
        before = session.counters()
        found = verify(session.namespace, settled, families, peer=peer)
        return found, session.untouched(before)


def wrong(found: Verified) -> list[str]:
    return [
        f"{item.probe.name}: {item.probe.flow}: {item.seen}, not {item.probe.predicted.disposition}"
        for item in found.seen
        if not item.ok
    ]


def everything(namespace: Namespace) -> dict[str, str]:
    """All that a probe might leave: rules and routes, and also links, their addresses and neighbours."""
    return snapshot(namespace) | {
        "links": run(namespace, "ip", "-o", "link", "show"),
        "addresses": run(namespace, "ip", "-o", "addr", "show"),
        "neighbours": run(namespace, "ip", "neigh", "show", "nud", "permanent"),
    }


def ids(untouched: tuple[dict[str, Any], ...]) -> set[str]:
    return {rule["id"] for rule in untouched}


def test_the_usual_spec_is_proven(namespace: Namespace, backend: str, mode: str) -> None:
    wanted = pod_spec(mode)
    apply(namespace, wanted, backend)
    before = everything(namespace)
    found, untouched = proof(namespace, wanted, backend)
    assert found.ok, "\n".join(wrong(found))
    assert {item.probe.flow.family for item in found.seen} == {4, 6}
    assert found.absent == ()
    assert EXPLAINED.issuperset(ids(untouched)), sorted(ids(untouched))
    assert everything(namespace) == before


def test_a_rich_spec_is_proven(namespace: Namespace, backend: str, mode: str) -> None:
    """Exclusions of every kind, groups, resolvers, another's interface, a guest's, a sidecar known in three ways."""
    wanted = spec(RICH.replace("MODE", mode))
    apply(namespace, wanted, backend)
    before = everything(namespace)
    found, untouched = proof(namespace, wanted, backend)
    assert found.ok, "\n".join(wrong(found))
    names = " ".join(item.probe.name for item in found.seen)
    for word in ("guest tap0", "excluded interface net5", "uid 1338", "gid 1337", "mark 0x53b", "group 3000", "DNS"):
        assert word in names
    assert EXPLAINED.issuperset(ids(untouched)), sorted(ids(untouched))
    assert everything(namespace) == before


@pytest.mark.parametrize("family", [4, 6])
def test_one_family_alone(namespace: Namespace, backend: str, mode: str, family: int) -> None:
    wanted = pod_spec(mode, str(family))
    apply(namespace, wanted, backend)
    found, _ = proof(namespace, wanted, backend)
    assert found.ok, "\n".join(wrong(found))
    assert {item.probe.flow.family for item in found.seen} == {family}


def test_nothing_applied(namespace: Namespace, mode: str) -> None:
    """Without rules all is direct, and each flow that ought to be captured is found out."""
    found, untouched = proof(namespace, pod_spec(mode), "iptables-nft")
    assert not found.ok and untouched == ()
    captured = [item for item in found.seen if item.probe.predicted.disposition != "direct"]
    assert captured and all(item.seen == "direct" and not item.ok for item in captured)


def take_rule(namespace: Namespace, backend: str, family: int, rule_id: str) -> None:
    """Take a rule of ours away for one family."""
    if backend == "nftables":
        take_nft_rule(namespace, family, rule_id)
        return
    table = rule_id.partition(".")[0]
    save = run(namespace, foreign.tool(backend, family, "save"), "-t", table)
    comment = f'"meshnet:{rule_id}"'
    line = next(line for line in save.splitlines() if line.startswith("-A MESHNET") and comment in line)
    foreign.restore(namespace, backend, family, f"*{table}\n-D{line[2:]}\nCOMMIT\n")


def take_nft_rule(namespace: Namespace, family: int, rule_id: str) -> None:
    """A rule for both families stays for the other one; what drops behind TPROXY goes with it."""
    others_word, other = ("ip6", "ipv6") if family == 4 else ("ip", "ipv4")
    chain, commands = "", []
    for line in run(namespace, "nft", "-a", "-s", "list", "table", "inet", "meshnet").splitlines():
        words = line.strip()
        chain = words.split()[1] if words.startswith("chain ") else chain
        rule, found, rest = words.partition(' comment "meshnet:')
        if not found or rest.partition('"')[0].removesuffix(".no-listener") != rule_id:
            continue
        place = f"inet meshnet {chain} handle {rest.rpartition(' handle ')[2]}"
        if rule.split()[0] not in ("ip", "ip6"):
            rule = rule.replace("tproxy to", f"tproxy {others_word} to")
            commands.append(f'replace rule {place} meta nfproto {other} {rule} comment "meshnet:{rule_id}"')
        elif rule.split()[0] != others_word:
            commands.append(f"delete rule {place}")
    assert commands, rule_id
    run(namespace, "nft", "-f", "-", text="\n".join(commands) + "\n")


@pytest.mark.parametrize("family", [4, 6])
def test_a_taken_capture_rule_shows(namespace: Namespace, backend: str, mode: str, family: int) -> None:
    """The rule that hands inbound traffic to the proxy is gone in one family: what comes in lands at the application,
    and the other family is as it was."""
    wanted = pod_spec(mode)
    apply(namespace, wanted, backend)
    rule = "nat.in.redirect.capture" if mode == "redirect" else "mangle.in.tproxy.capture"
    take_rule(namespace, backend, family, rule)
    found, _ = proof(namespace, wanted, backend)
    lost = [item for item in found.seen if not item.ok]
    assert any(item.probe.name == "inbound: a port in no list" and item.seen == "direct" for item in lost)
    assert {item.probe.flow.family for item in lost} == {family}
    assert all(item.probe.predicted.disposition == "inbound-proxy" for item in lost), wrong(found)


@pytest.mark.parametrize("family", [4, 6])
def test_a_taken_outbound_capture_shows(namespace: Namespace, backend: str, family: int) -> None:
    wanted = pod_spec("tproxy")
    apply(namespace, wanted, backend)
    take_rule(namespace, backend, family, "nat.out.capture.all")
    found, _ = proof(namespace, wanted, backend)
    lost = {(item.probe.name, item.seen, item.probe.flow.family) for item in found.seen if not item.ok}
    assert lost == {("outbound: application to outside", "direct", family)}


@pytest.mark.parametrize("family", [4, 6])
def test_a_taken_passthrough_shows(namespace: Namespace, backend: str, mode: str, family: int) -> None:
    """Without its bypass the sidecar's call to the application from 127.0.0.6 or ::6 comes back to the sidecar."""
    wanted = pod_spec(mode)
    apply(namespace, wanted, backend)
    table = "nat" if mode == "redirect" else "mangle"
    take_rule(namespace, backend, family, f"{table}.out.passthrough.bypass")
    found, _ = proof(namespace, wanted, backend)
    lost = [item for item in found.seen if not item.ok]
    assert lost and all("passthrough" in item.probe.name for item in lost), wrong(found)
    assert all(item.seen == "inbound-proxy" and item.probe.flow.family == family for item in lost)


@pytest.mark.parametrize("family", [4, 6])
def test_a_taken_own_pod_rule_shows(namespace: Namespace, backend: str, mode: str, family: int) -> None:
    """The sidecar's call to its own pod no longer passes the inbound listener."""
    wanted = pod_spec(mode)
    apply(namespace, wanted, backend)
    chain = "nat.out" if mode == "redirect" else "mangle.self"
    for owner in ("uid", "gid"):
        take_rule(namespace, backend, family, f"{chain}.own-pod.{owner}-1337")
    found, _ = proof(namespace, wanted, backend)
    lost = [item for item in found.seen if not item.ok]
    assert {item.probe.name for item in lost} == {f"sidecar {kind} 1337: to its own pod" for kind in ("uid", "gid")}
    assert all(item.seen == "direct" for item in lost)
    assert all(item.probe.flow.family == family for item in lost)


def test_a_neighbour_as_peer(pod: Pod, backend: str, mode: str) -> None:
    """The probes come from a client that is there already, by its own cable; nothing of it differs afterwards."""
    wanted = pod_spec(mode)
    apply(pod.pod, wanted, backend)
    before = everything(pod.pod), everything(pod.client)
    found, _ = proof(pod.pod, wanted, backend, peer=pod.client)
    assert found.ok, "\n".join(wrong(found))
    assert {item.probe.flow.interface for item in found.seen if item.probe.flow.way == "in"} == {"eth0"}
    assert (everything(pod.pod), everything(pod.client)) == before


def test_a_stranger_as_peer(namespace: Namespace, scratch: Scratch) -> None:
    stranger = scratch()
    before = everything(namespace)
    with pytest.raises(UsageError, match="shares no"):
        proof(namespace, pod_spec("tproxy"), "iptables-nft", peer=stranger)
    assert everything(namespace) == before


@pytest.mark.parametrize("family", [4, 6])
@pytest.mark.parametrize("port", [15006, 15001, 80])
def test_a_port_in_use(namespace: Namespace, port: int, family: int) -> None:
    """A proxy or an application runs already: its port is named, and what was made for the probes goes again."""
    before = everything(namespace)
    with namespace.entered():
        taken = socket.create_server(("", port), family=INET[family])
    with taken, pytest.raises(BusyError, match=f"port {port}/tcp"):
        proof(namespace, pod_spec("redirect"), "iptables-nft")
    assert everything(namespace) == before


def test_an_interface_that_leads_elsewhere(pod: Pod) -> None:
    """The excluded interface is there and another's: it is left alone, and said to be unproven."""
    wanted = pod_spec("tproxy", more="interfaces: {exclude: [eth0]}\n")
    apply(pod.pod, wanted, "iptables-nft")
    before = everything(pod.pod)
    found, _ = proof(pod.pod, wanted, "iptables-nft")
    assert found.ok, "\n".join(wrong(found))
    assert [name for name, _ in found.absent] == ["eth0"]
    assert everything(pod.pod) == before


def test_the_names_of_the_links_are_free_again(namespace: Namespace) -> None:
    wanted = spec("families: [ipv4]\ninterfaces: {exclude: [net5], guest: [tap+]}\n")
    apply(namespace, wanted, "iptables-nft")
    for _ in range(2):
        found, _ = proof(namespace, wanted, "iptables-nft")
        assert found.ok, "\n".join(wrong(found))
        assert set(links.names(namespace)) == {"lo"}
