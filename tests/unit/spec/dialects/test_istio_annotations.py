from __future__ import annotations

from typing import Any

import pytest

from meshnet.model.errors import SpecError
from meshnet.model.ports import PortRange
from meshnet.model.spec import Spec
from meshnet.spec.check import problems
from meshnet.spec.dialects.istio_annotations import NotIntercepted, spec_of_pod

TRAFFIC = "traffic.sidecar.istio.io/"
STATUS = {"sidecar.istio.io/status": "injected"}


def pod(annotations: dict[str, Any] | None = None, proxy: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """A pod with a sidecar; ``more`` are fields of its spec."""
    containers = [{"name": "nginx"}, {"name": "istio-proxy", **(proxy or {})}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web-1", "annotations": {**STATUS, **(annotations or {})}},
        "spec": {"containers": containers, **more},
    }


def read(given: object, **how: Any) -> Spec:
    found = spec_of_pod(given, **how)
    assert isinstance(found, Spec), found
    assert problems(found) == []
    return found


def traffic(key: str, text: str) -> Spec:
    return read(pod({TRAFFIC + key: text}))


def env(name: str, text: str) -> dict[str, Any]:
    return {"env": [{"name": name, "value": text}]}


def said(given: object) -> list[str]:
    with pytest.raises(SpecError) as caught:
        spec_of_pod(given)
    return caught.value.lines()


def ports(*numbers: int) -> tuple[PortRange, ...]:
    return tuple(PortRange(number, number) for number in numbers)


def test_a_pod_without_annotations_about_traffic() -> None:
    spec = read(pod())
    assert (spec.name, spec.profile, spec.families) == ("web-1", "istio", "auto")
    assert (spec.inbound.mode, spec.inbound.ports, spec.inbound.exclude_ports) == (
        "redirect",
        "*",
        ports(15020, 15021, 15090),
    )
    assert (spec.outbound.cidrs, spec.outbound.exclude_ports) == ("*", ports(15020))
    assert (spec.sidecar.uids, spec.sidecar.gids, spec.dns.capture, spec.drop_invalid) == (
        (1337,),
        (1337,),
        "off",
        False,
    )


@pytest.mark.parametrize(
    ("key", "text", "section", "field", "found"),
    [
        ("includeInboundPorts", "80,443", "inbound", "ports", ports(80, 443)),
        ("includeInboundPorts", "", "inbound", "ports", ()),
        ("includeInboundPorts", "*", "inbound", "ports", "*"),
        ("excludeInboundPorts", "22", "inbound", "exclude_ports", ports(22, 15020, 15021, 15090)),
        ("excludeInboundPorts", "15090,22,", "inbound", "exclude_ports", ports(15090, 22, 15020, 15021)),
        ("excludeInboundPorts", "", "inbound", "exclude_ports", ports(15020, 15021, 15090)),
        ("includeOutboundPorts", "3306", "outbound", "ports", ports(3306)),
        ("excludeOutboundPorts", "5555, 6666", "outbound", "exclude_ports", ports(5555, 6666)),
        ("excludeOutboundPorts", "", "outbound", "exclude_ports", ()),
        ("includeOutboundIPRanges", "", "outbound", "cidrs", ()),
        ("excludeInterfaces", "net1,net2", "interfaces", "exclude", ("net1", "net2")),
        ("kubevirtInterfaces", "k6t-eth0", "interfaces", "guest", ("k6t-eth0",)),
    ],
)
def test_an_annotation_takes_its_default_s_place(key: str, text: str, section: str, field: str, found: object) -> None:
    assert getattr(getattr(traffic(key, text), section), field) == found


def test_blocks() -> None:
    spec = read(pod({f"{TRAFFIC}includeOutboundIPRanges": "10.0.0.0/8", f"{TRAFFIC}excludeOutboundIPRanges": "::1/64"}))
    assert [str(block) for block in (*spec.outbound.cidrs, *spec.outbound.exclude_cidrs)] == ["10.0.0.0/8", "::/64"]


@pytest.mark.parametrize("key", ["status.sidecar.istio.io/port", "sidecar.istio.io/statusPort"])
def test_the_status_port_is_left_alone(key: str) -> None:
    assert read(pod({key: "15099"})).inbound.exclude_ports == ports(15099, 15020, 15021, 15090)
    assert read(pod({key: "0"})).inbound.exclude_ports == ports(15020, 15021, 15090)


def test_the_newer_name_of_the_guests_counts() -> None:
    both = {"istio.io/reroute-virtual-interfaces": "net1", f"{TRAFFIC}kubevirtInterfaces": "net2"}
    assert read(pod(both)).interfaces.guest == ("net1",)


@pytest.mark.parametrize(
    ("own", "of_the_pod", "found"),
    [
        ({"runAsUser": 1000670000, "runAsGroup": 1000670001}, {}, (1000670000, 1000670001)),
        ({"runAsUser": 5}, {"runAsUser": 6, "runAsGroup": 7}, (5, 7)),
        ({"runAsUser": 0}, {"runAsUser": 6}, (1337, 1337)),
        ({}, {"runAsUser": 0}, (1337, 1337)),
        (None, {}, (1337, 1337)),
    ],
)
def test_whom_the_proxy_runs_as(own: Any, of_the_pod: dict[str, int], found: tuple[int, int]) -> None:
    spec = read(pod(proxy={"securityContext": own}, securityContext=of_the_pod))
    assert (spec.sidecar.uids, spec.sidecar.gids) == ((found[0],), (found[1],))


def test_a_native_sidecar() -> None:
    given = pod()
    proxy = given["spec"]["containers"].pop()
    given["spec"]["initContainers"] = [{**proxy, "restartPolicy": "Always", "securityContext": {"runAsUser": 8}}]
    assert read(given).sidecar.uids == (8,)
    given["spec"]["initContainers"][0].pop("restartPolicy")
    assert isinstance(spec_of_pod(given), NotIntercepted)


def test_what_the_proxy_s_environment_says() -> None:
    assert read(pod(proxy=env("ISTIO_META_DNS_CAPTURE", "true"))).dns.capture == "all"
    assert read(pod(proxy=env("ISTIO_META_DNS_CAPTURE", ""))).dns.capture == "off"
    assert read(pod(proxy=env("ISTIO_DUAL_STACK", "1"))).families == (4, 6)
    assert read(pod(proxy=env("INVALID_DROP", "true"))).drop_invalid is True


def test_the_other_profile_and_families() -> None:
    spec = read(pod({"sidecar.istio.io/interceptionMode": "TPROXY"}), profile="meshnet", families=(4,))
    assert (spec.profile, spec.families, spec.inbound.mode) == ("meshnet", (4,), "tproxy")


def test_a_name_that_is_no_label_is_left_out() -> None:
    given = pod()
    given["metadata"]["name"] = "web.1"
    assert read(given).name == "istio"


def test_a_pod_as_the_api_server_lists_it() -> None:
    given = pod()
    del given["kind"], given["apiVersion"]
    read(given)


def without(key: str) -> dict[str, Any]:
    given = pod()
    del given["metadata"]["annotations"][key]
    return given


def labelled(text: str, annotation: str) -> dict[str, Any]:
    given = pod({"sidecar.istio.io/inject": annotation})
    given["metadata"]["labels"] = {"sidecar.istio.io/inject": text}
    return given


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (pod(hostNetwork=True), "hostNetwork"),
        (pod(initContainers=[{"name": "istio-init"}]), "istio-init"),
        (pod(containers=[{"name": "nginx"}]), "no container istio-proxy"),
        (pod(proxy=env("DISABLE_ENVOY", "true")), "DISABLE_ENVOY"),
        (pod(proxy={"args": ["proxy", "router"]}), "router"),
        (pod({"sidecar.istio.io/inject": "false"}), "inject is false"),
        (labelled("false", "true"), "inject is false"),
        (without("sidecar.istio.io/status"), "no annotation sidecar.istio.io/status"),
        (pod({"sidecar.istio.io/interceptionMode": "NONE"}), "NONE"),
        (pod({"sidecar.istio.io/inject": "false", f"{TRAFFIC}includeInboundPorts": "x"}), "inject is false"),
    ],
)
def test_why_a_pod_is_not_intercepted(given: dict[str, Any], words: str) -> None:
    found = spec_of_pod(given)
    assert isinstance(found, NotIntercepted) and words in found.reason


@pytest.mark.parametrize(
    "given",
    [labelled("true", "false"), pod({"sidecar.istio.io/inject": "yes"}), pod(proxy={"args": ["proxy", "sidecar"]})],
)
def test_who_is_intercepted_all_the_same(given: dict[str, Any]) -> None:
    read(given)


def test_an_empty_item_is_left_out_as_in_the_options() -> None:
    """Templates leave them, as the original's do."""
    assert traffic("includeInboundPorts", "80,,443").inbound.ports == ports(80, 443)
    assert traffic("excludeInboundPorts", "80,,443").inbound.exclude_ports[:2] == ports(80, 443)


def test_every_wrong_word_at_once() -> None:
    annotations = {
        "sidecar.istio.io/interceptionMode": "tproxy",
        f"{TRAFFIC}includeInboundPorts": "80,http",
        f"{TRAFFIC}excludeInboundPort": "22",
        f"{TRAFFIC}includeOutboundIPRanges": "*,10.0.0.0/8",
        f"{TRAFFIC}excludeInterfaces": "lo",
        "status.sidecar.istio.io/port": "x",
    }
    lines = said(pod(annotations, {"securityContext": {"runAsUser": "root"}, **env("ISTIO_META_DNS_CAPTURE", "on")}))
    places = (
        "metadata.annotations[sidecar.istio.io/interceptionMode]: unknown word (tproxy): TPROXY",
        "metadata.annotations[traffic.sidecar.istio.io/includeInboundPorts]: not a port number (http)",
        "metadata.annotations[traffic.sidecar.istio.io/excludeInboundPort]: an unknown annotation about traffic: "
        "traffic.sidecar.istio.io/excludeInboundPorts",
        "metadata.annotations[traffic.sidecar.istio.io/includeOutboundIPRanges]: * beside other entries (*)",
        "metadata.annotations[traffic.sidecar.istio.io/excludeInterfaces]: the loopback interface (lo)",
        "metadata.annotations[status.sidecar.istio.io/port]: not a port number (x)",
        "spec.containers[1].securityContext.runAsUser: not a number (root)",
        "spec.containers[1].env[ISTIO_META_DNS_CAPTURE]: not true or false (on)",
    )
    assert len(lines) == len(places)
    for place in places:
        assert any(line.startswith(place) for line in lines), (place, lines)


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ([], "a list of 0 in place of a Pod: a manifest with kind: Pod"),
        ({"kind": "Service"}, "kind: not a Pod (Service): kind: Pod"),
        (
            {"kind": "Deployment", "spec": {"template": {}}},
            "kind: not a Pod (Deployment): the manifest of one Pod that is made from it (kubectl get pod -o yaml)",
        ),
        ({"kind": "Pod", "apiVersion": "v2"}, "apiVersion: unknown apiVersion (v2): v1"),
        (pod(containers={}), "spec.containers: no list (a mapping of 0): a list of containers"),
        (pod(containers=["x"]), "spec.containers[0]: no container (x): a mapping with a name"),
        (pod({"sidecar.istio.io/inject": True}), "metadata.annotations[sidecar.istio.io/inject]: not text (true): "),
        (pod({"sidecar.istio.io/inject": "perhaps"}), "metadata.annotations[sidecar.istio.io/inject]: not true or"),
        (
            pod(proxy={"env": [{"name": "INVALID_DROP", "valueFrom": {}}]}),
            "spec.containers[1].env[INVALID_DROP]: a value",
        ),
        ({"kind": "Pod", "metadata": {"annotations": []}}, "metadata.annotations: no keys and values (a list of 0)"),
    ],
)
def test_what_is_no_pod(given: object, line: str) -> None:
    assert any(text.startswith(line) for text in said(given)), said(given)
