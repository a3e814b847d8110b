"""``--run-validation`` on the kernel: what is redirected is said to be, what isn't ends with 126 and a reason."""

from __future__ import annotations

import socket
import subprocess
import time
from typing import TYPE_CHECKING, Any

import pytest

from tests.netns.commands import meshnet_init
from tests.netns.pods import POD, Pod
from tests.netns.snapshot import run

if TYPE_CHECKING:
    from collections.abc import Callable

    from meshnet.kernel.netns import Namespace
    from tests.netns.commands import Answer

ALL = ("-b", "*", "-i", "*", "--dual-stack")
VALIDATE = ("--run-validation", "--probe-timeout", "2s")
LOOK = ("--skip-rule-apply", *VALIDATE)
MODES = ("REDIRECT", "TPROXY")
PROFILES = ("istio", "meshnet")
BACKENDS: tuple[tuple[str, ...], ...] = ((), ("--native-nftables",))


def init(namespace: Namespace, *words: str, around: tuple[str, ...] = ()) -> Answer:
    return meshnet_init("--network-namespace", namespace.where.text, *words, before=around)


def inside(pod: Pod, *words: str, uid: int = 1337) -> Answer:
    """As a container runs it: in the pod's namespace, as a user, and with no capability at all."""
    as_user = (
        "setpriv",
        f"--reuid={uid}",
        f"--regid={uid}",
        "--clear-groups",
        "--bounding-set=-all",
        "--inh-caps=-all",
    )
    return meshnet_init(*words, before=("ip", "netns", "exec", pod.name, *as_user))


def nothing_is_left(namespace: Namespace) -> bool:
    sockets = run(namespace, "ss", "-Htuln").strip()
    pids = subprocess.run(("ip", "netns", "pids", namespace.where.text), capture_output=True, text=True, check=True)
    return not sockets and not pids.stdout.strip()


@pytest.mark.parametrize("backend", BACKENDS, ids=["iptables", "nftables"])
@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("mode", MODES)
def test_a_redirected_connection_is_seen_in_both_families(
    pod: Pod, mode: str, profile: str, backend: tuple[str, ...]
) -> None:
    answer = init(pod.pod, *ALL, *backend, "-m", mode, "--profile", profile, *VALIDATE, "--output", "json")
    assert answer.code == 0, answer.err
    found = answer.data["validation"]
    assert [(item["family"], item["redirected"]) for item in found["families"]] == [(4, True), (6, True)], found
    for item in found["families"]:
        assert POD[item["family"]] in item["said"]
        assert "15006" in item["said"]
    assert nothing_is_left(pod.pod)


@pytest.mark.parametrize("backend", BACKENDS, ids=["iptables", "nftables"])
@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("mode", MODES)
def test_as_the_sidecar_s_user_without_a_capability(
    pod: Pod, mode: str, profile: str, backend: tuple[str, ...]
) -> None:
    """As Istio's validation container runs beside its CNI plugin. It has root's rules to look at, and none to write."""
    words = (*ALL, *backend, "-m", mode, "--profile", profile)
    assert init(pod.pod, *words).code == 0
    answer = inside(pod, *words, *LOOK)
    assert (answer.code, answer.out.count("validated")) == (0, 2), answer.err
    assert nothing_is_left(pod.pod)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("profile", PROFILES)
def test_without_a_capability_a_filter_isn_t_taken_for_the_rules(pod: Pod, mode: str, profile: str) -> None:
    words = (*ALL, "-m", mode, "--profile", profile)
    assert init(pod.pod, *words).code == 0
    for tool in ("iptables-nft", "ip6tables-nft"):
        run(pod.pod, tool, "-I", "INPUT", "-p", "tcp", "-j", "DROP")
    answer = inside(pod, *words, "--skip-rule-apply", "--run-validation", "--probe-timeout", "500ms")
    assert (answer.code, answer.err.count("no answer in time")) == (126, 2), answer.err


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("mode", MODES)
def test_without_rules_it_fails_and_says_what_to_do(pod: Pod, mode: str, profile: str) -> None:
    for answer in (
        init(pod.pod, *ALL, "-m", mode, "--profile", profile, *LOOK),
        inside(pod, *ALL, "-m", mode, "--profile", profile, *LOOK),
    ):
        assert answer.code == 126, answer.out
        assert answer.err.count("no rule redirects it") == 2, answer.err
        assert answer.words[-1].startswith("meshnet-init: next: ")
    assert nothing_is_left(pod.pod)


@pytest.mark.parametrize("mode", MODES)
def test_a_filter_in_the_way_is_waited_for_no_longer_than_asked(pod: Pod, mode: str) -> None:
    assert init(pod.pod, *ALL, "-m", mode).code == 0
    for tool in ("iptables-nft", "ip6tables-nft"):
        run(pod.pod, tool, "-I", "INPUT", "-p", "tcp", "-j", "DROP")
    began = time.monotonic()
    answer = init(pod.pod, *ALL, "-m", mode, "--skip-rule-apply", "--run-validation", "--probe-timeout", "300ms")
    assert time.monotonic() - began < 2
    assert (answer.code, answer.err.count("no answer in time")) == (126, 2), answer.err
    assert nothing_is_left(pod.pod)


def test_a_reject_in_the_way_is_told_at_once(pod: Pod) -> None:
    assert init(pod.pod, *ALL).code == 0
    run(pod.pod, "iptables-nft", "-I", "INPUT", "-p", "tcp", "--syn", "-j", "REJECT")
    began = time.monotonic()
    answer = init(pod.pod, "-b", "*", "--skip-rule-apply", "--run-validation", "--probe-timeout", "30s")
    assert time.monotonic() - began < 5
    assert (answer.code, "Connection refused" in answer.err) == (126, True), answer.err


@pytest.mark.parametrize("profile", PROFILES)
def test_the_proxy_runs_already(pod: Pod, profile: str) -> None:
    assert init(pod.pod, *ALL, "--profile", profile).code == 0
    with pod.pod.entered(), socket.create_server(("", 15006)):
        pass_by = init(pod.pod, *ALL, "--profile", profile, *LOOK)
    assert pass_by.code == 126, pass_by.out
    assert "can't listen on port 15006" in pass_by.err
    assert "Address already in use" in pass_by.err


def test_another_user_is_told_whom_to_run_it_as(pod: Pod) -> None:
    assert init(pod.pod, *ALL).code == 0
    answer = inside(pod, *ALL, *LOOK, uid=1000)
    assert (answer.code, answer.err.count("run the validation as uid 1337")) == (126, 2), answer.err


def test_a_busy_probe_port_is_no_matter(pod: Pod) -> None:
    """Nothing has to listen there, and whoever does is to be passed by."""
    assert init(pod.pod, *ALL).code == 0
    with pod.pod.entered(), socket.create_server(("", 15002)), socket.create_server(("::", 15002), family=10):
        answer = init(pod.pod, *ALL, *LOOK)
    assert answer.code == 0, answer.err


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "ports",
    [
        ("-b", "*", "-d", "15002"),
        ("-b", "80,9000:9100"),
        ("-b", "*", "-d", "15000:15029"),
        ("-b", "*", "-e", "15002"),
        ("-b", "*", "-o", "15002,15030"),
    ],
    ids=" ".join,
)
def test_a_port_is_found_that_is_captured(pod: Pod, ports: tuple[str, ...], mode: str, profile: str) -> None:
    words = (*ports, "-m", mode, "--profile", profile, "--dual-stack")
    answer = init(pod.pod, *words, *VALIDATE)
    assert (answer.code, answer.out.count("validated")) == (0, 2), answer.err


def test_the_probe_port_can_be_chosen(pod: Pod) -> None:
    answer = init(pod.pod, *ALL, *VALIDATE, "--iptables-probe-port", "4711")
    assert (answer.code, answer.out.count(":4711 ")) == (0, 2), answer.err


def test_nothing_captured_is_nothing_to_validate(pod: Pod) -> None:
    answer = init(pod.pod, "-i", "*", "--profile", "meshnet", *VALIDATE)
    assert (answer.code, "nothing to validate" in answer.err) == (0, True), answer.err


@pytest.mark.parametrize("mode", MODES)
def test_an_excluded_address_of_the_pod_s_own(pod: Pod, mode: str) -> None:
    """A cluster's block is excluded, and the pod lies in it: profile istio captures its own calls all the same."""
    words = (*ALL, "-m", mode, "-x", "10.0.0.0/8,fd00::/8", *VALIDATE)
    captured = init(pod.pod, *words)
    assert (captured.code, captured.out.count("validated")) == (0, 2), captured.err
    left_alone = init(pod.pod, *words, "--profile", "meshnet")
    assert (left_alone.code, "nothing to validate" in left_alone.err) == (0, True), left_alone.err
    run(pod.pod, "ip", "addr", "add", "192.0.2.77/32", "dev", "eth0")
    another = init(pod.pod, *words, "--profile", "meshnet")
    assert (another.code, another.out.count("192.0.2.77:")) == (0, 1), another.err


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("mode", MODES)
def test_excluded_groups_of_root_and_of_the_sidecar(pod: Pod, mode: str, profile: str) -> None:
    words = (*ALL, "-m", mode, "--profile", profile, *VALIDATE, "--istio-outbound-owner-groups-exclude")
    of_root = init(pod.pod, *words, "0")
    assert (of_root.code, of_root.out.count("validated")) == (0, 2), of_root.err
    assert init(pod.pod, *words, "1337").code == 0


def test_one_family_without_an_address_is_passed_over(pod: Pod) -> None:
    run(pod.pod, "ip", "-6", "addr", "flush", "dev", "eth0")
    answer = init(pod.pod, *ALL, *VALIDATE, "--output", "json")
    assert answer.code == 0, answer.err
    assert [item["family"] for item in answer.data["validation"]["families"]] == [4]


def test_loopback_alone_gives_no_address_to_connect_to(namespace: Namespace) -> None:
    answer = init(namespace, *ALL, *VALIDATE)
    assert answer.code == 126
    assert "no interface has an address" in answer.err
    assert nothing_is_left(namespace)


def test_ports_in_use_by_many_users(pods: Callable[[], Pod]) -> None:
    """Two pods at once, as on a node that starts: neither looks into the other."""
    two = [pods(), pods()]
    assert init(two[0].pod, *ALL, *VALIDATE).code == 0
    answer: Any = init(two[1].pod, *ALL, *LOOK)
    assert answer.code == 126
    assert init(two[0].pod, *ALL, *LOOK).code == 0


@pytest.mark.parametrize("words", [("-u", "0"), ("-u", "7", "-g", "8"), ("-u", "7,9")], ids=" ".join)
@pytest.mark.parametrize("mode", MODES)
def test_whoever_the_sidecar_is(pod: Pod, mode: str, words: tuple[str, ...]) -> None:
    answer = init(pod.pod, *ALL, "-m", mode, *words, *VALIDATE)
    assert (answer.code, answer.out.count("validated")) == (0, 2), answer.err
