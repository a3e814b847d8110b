"""The verbs in each version of the specification, behind Debian's plugins."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from meshnet.cni.protocol import SINCE, VERSIONS
from tests.cni.conftest import path_of
from tests.cni.runner import Refused, Runtime, call
from tests.netns.commands import meshnet
from tests.netns.snapshot import run, snapshot

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from meshnet.kernel.netns import Namespace
    from tests.netns.pods import Scratch

BODY = {"inbound": {"mode": "tproxy", "excludePorts": [15021]}, "dns": {"capture": "all"}}


def chain(first: str, version: str, folder: Path, kept: dict[str, str]) -> dict[str, Any]:
    ipam = {"type": "host-local", "ranges": [[{"subnet": "10.88.0.0/24"}], [{"subnet": "fd88::/64"}]]}
    ipam |= {"dataDir": str(folder / "ipam"), "routes": [{"dst": "0.0.0.0/0"}, {"dst": "::/0"}]}
    makers = {"bridge": {"type": "bridge", "bridge": "cni0", "isGateway": True}, "ptp": {"type": "ptp"}}
    return {
        "cniVersion": version,
        "name": "chain",
        "plugins": [
            {**makers[first], "ipMasq": True, "ipam": ipam},
            {"type": "portmap", "capabilities": {"portMappings": True}, "snat": True},
            {"type": "tuning", "sysctl": {"net.core.somaxconn": "500"}, "dataDir": str(folder / "tuning")},
            {"type": "firewall", "backend": "iptables"},
            {"type": "meshnet-cni", "interception": BODY, **kept},
        ],
    }


def knows(version: str, verb: str) -> bool:
    return VERSIONS.index(version) >= VERSIONS.index(SINCE[verb])


@pytest.fixture(params=["bridge", "ptp"])
def runtime(request: pytest.FixtureRequest, node: Namespace, tmp_path: Path, kept: dict[str, str]) -> Runtime:
    portmap = {"portMappings": [{"hostPort": 8080, "containerPort": 80, "protocol": "tcp"}]}
    return Runtime(node, chain(request.param, "0.3.1", tmp_path, kept), portmap)


@pytest.mark.parametrize("version", VERSIONS)
def test_every_verb_that_a_version_has(runtime: Runtime, pod: Namespace, version: str, tmp_path: Path) -> None:
    runtime.network["cniVersion"] = version
    if version == "0.3.1":
        runtime.network["plugins"] = [
            item for item in runtime.network["plugins"] if item["type"] != "firewall"
        ]  # begins with 0.4.0
    where = path_of(pod)
    lo = run(pod, "ip", "-o", "addr", "show", "lo")
    if knows(version, "STATUS"):
        runtime.status()
    result = runtime.add("one", where)
    assert result["cniVersion"] == version
    assert {address["address"].partition("/")[2] for address in result["ips"]} == {"24", "64"}
    assert all(("version" in address) == (version in ("0.3.1", "0.4.0")) for address in result["ips"])
    assert [link["name"] for link in result["interfaces"] if link.get("sandbox")] == ["eth0"]
    assert in_sync(where, tmp_path)
    if knows(version, "CHECK"):
        runtime.check("one", where)
    if knows(version, "GC"):
        runtime.collect(["one"])
        assert in_sync(where, tmp_path)
    runtime.delete("one", where)
    assert "MESHNET" not in "".join(snapshot(pod).values())
    assert run(pod, "ip", "-o", "addr", "show", "lo") == lo
    assert "MESHNET" not in "".join(snapshot(runtime.node).values())
    assert not list((tmp_path / "state" / "chain").iterdir())
    runtime.delete("one", where)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("verb", SINCE)
def test_a_verb_that_a_version_lacks_is_refused(config: Callable[..., Any], verb: str, version: str) -> None:
    if knows(version, verb):
        return
    with pytest.raises(Refused) as refused:
        call(verb, "meshnet-cni", config(version), netns="/run/netns/none")
    assert (refused.value.code, refused.value.answer["cniVersion"]) == (1, version)


@pytest.mark.parametrize("version", VERSIONS)
def test_version(version: str) -> None:
    said = call("VERSION", "meshnet-cni", {"cniVersion": version})
    assert said == {"cniVersion": version, "supportedVersions": list(VERSIONS)}


def test_gc_takes_what_is_not_listed_and_nothing_else(
    config: Callable[..., Any], scratch: Scratch, tmp_path: Path
) -> None:
    live, dead, gone, other = scratch(), scratch(), scratch(), scratch()
    for name, namespace in (("live", live), ("dead", dead), ("gone", gone)):
        call("ADD", "meshnet-cni", config(), name, path_of(namespace))
    call("ADD", "meshnet-cni", config(name="other-network"), "elsewhere", path_of(other))
    where = path_of(gone)
    run(gone, "umount", "--lazy", where)
    before = snapshot(live), snapshot(other)
    call("GC", "meshnet-cni", config(**{"cni.dev/valid-attachments": [{"containerID": "live", "ifname": "eth0"}]}))
    assert (snapshot(live), snapshot(other)) == before
    assert "MESHNET" in "".join(snapshot(live).values())
    assert "MESHNET" not in "".join(snapshot(dead).values())
    left = sorted(path.name.partition("@")[0].rpartition(".")[2] for path in (tmp_path / "state").rglob("*@*"))
    assert left == ["elsewhere", "live"]


def test_gc_without_a_list_is_refused_and_with_null_takes_all(config: Callable[..., Any], pod: Namespace) -> None:
    call("ADD", "meshnet-cni", config(), "one", path_of(pod))
    with pytest.raises(Refused) as refused:
        call("GC", "meshnet-cni", config())
    assert refused.value.code == 7
    assert "MESHNET" in "".join(snapshot(pod).values())
    call("GC", "meshnet-cni", config(**{"cni.dev/valid-attachments": None}))
    assert "MESHNET" not in "".join(snapshot(pod).values())


def in_sync(where: str, folder: Path) -> bool:
    spec = folder / "spec.json"
    spec.write_text(json.dumps({"apiVersion": "meshnet/v1", "kind": "Interception", **BODY}))
    answer = meshnet("diff", str(spec), "--netns", where)
    assert answer.code in (0, 1), answer.err
    return answer.code == 0
