"""CHECK says what differs, object by object; ADD and CHECK say in the protocol's words what is wrong with a call."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest

from meshnet.kernel.netns import held
from tests.cni.conftest import path_of
from tests.cni.runner import Refused, call, start
from tests.netns.snapshot import run, snapshot

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from meshnet.kernel.netns import Namespace
    from tests.netns.pods import Scratch

    Made = Callable[..., dict[str, Any]]


def test_drift_is_named_object_by_object(config: Made, pod: Namespace) -> None:
    where = path_of(pod)
    call("ADD", "meshnet-cni", config(), "one", where)
    call("CHECK", "meshnet-cni", config(), "one", where)
    drifts = {
        "- iptables -t nat -A MESHNET_OUT -p tcp -m tcp --dport 22 ": "iptables-nft -t nat -A MESHNET_OUT -p tcp"
        " --dport 22 -j RETURN",
        "+ ip6tables -t mangle -A PREROUTING ": "ip6tables-nft -t mangle -D PREROUTING 1",
        "+ ip -4 rule fwmark 0x539/0xfff lookup 133": "ip rule del fwmark 0x539/0xfff lookup 133",
        "+ ip -6 route local default dev lo table 133": "ip -6 route flush table 133",
        "+ ip -6 addr ::6/128 dev lo": "ip -6 addr del ::6/128 dev lo",
    }
    for command in drifts.values():
        run(pod, *command.split())
    with pytest.raises(Refused) as refused:
        call("CHECK", "meshnet-cni", config(), "one", where)
    assert refused.value.code == 101
    details = refused.value.answer["details"]
    for named in drifts:
        assert any(line.startswith(named) for line in details.splitlines()), (named, details)
    call("ADD", "meshnet-cni", config(), "one", where)
    call("CHECK", "meshnet-cni", config(), "one", where)


def test_check_compares_with_what_add_was_asked_for(config: Made, pod: Namespace) -> None:
    call("ADD", "meshnet-cni", config(), "one", path_of(pod))
    call("CHECK", "meshnet-cni", config(interception={"dns": {"capture": "all"}}), "one", path_of(pod))


def test_check_of_a_pod_that_nobody_added_finds_everything_missing(config: Made, pod: Namespace) -> None:
    with pytest.raises(Refused) as refused:
        call("CHECK", "meshnet-cni", config(), "one", path_of(pod))
    assert refused.value.code == 101
    assert "MESHNET_OUT" in refused.value.answer["details"]


@pytest.mark.parametrize("verb", ["ADD", "CHECK"])
def test_without_a_result_before_it_is_code_7(config: Made, pod: Namespace, verb: str) -> None:
    settings = config()
    del settings["prevResult"]
    with pytest.raises(Refused) as refused:
        call(verb, "meshnet-cni", settings, "one", path_of(pod))
    assert refused.value.code == 7


@pytest.mark.parametrize("verb", ["ADD", "CHECK"])
def test_what_is_no_namespace(config: Made, tmp_path: Path, verb: str) -> None:
    plain, fifo = tmp_path / "plain", tmp_path / "fifo"
    plain.touch()
    os.mkfifo(fifo)
    for where, code in (
        (str(plain), 8),
        (str(fifo), 8),
        (str(tmp_path), 8),
        ("/proc/self/ns/mnt", 8),
        ("/dev/null", 8),
        (str(tmp_path / "none"), 3),
        ("/proc/999999999/ns/net", 3),
        ("relative", 4),
        ("", 4),
    ):
        with pytest.raises(Refused) as refused:
            call(verb, "meshnet-cni", config(), "one", where)
        assert refused.value.code == code, (where, refused.value.answer)


@pytest.mark.parametrize("verb", ["ADD", "CHECK", "DEL"])
def test_another_pod_s_namespace(config: Made, pod: Namespace, verb: str) -> None:
    where = path_of(pod)
    call("ADD", "meshnet-cni", config(), "one", where)
    before = snapshot(pod)
    if verb == "DEL":
        call(verb, "meshnet-cni", config(), "two", where)
    else:
        with pytest.raises(Refused) as refused:
            call(verb, "meshnet-cni", config(), "two", where)
        assert (refused.value.code, "container one" in refused.value.answer["msg"]) == (8, True)
    assert snapshot(pod) == before
    call("CHECK", "meshnet-cni", config(), "one", where)


def test_the_last_of_a_pod_s_networks_takes_the_rules_away(config: Made, pod: Namespace) -> None:
    where = path_of(pod)
    for network in ("first", "second"):
        call("ADD", "meshnet-cni", config(name=network), "one", where)
    call("DEL", "meshnet-cni", config(name="first"), "one", where)
    assert "MESHNET" in snapshot(pod)["iptables-nft"]
    call("DEL", "meshnet-cni", config(name="second"), "one", where)
    assert "MESHNET" not in "".join(snapshot(pod).values())


def test_add_fails_closed_and_leaves_the_namespace_as_it_was(config: Made, pod: Namespace, tmp_path: Path) -> None:
    """One table's restore is refused: nothing of the others stays, and the pod doesn't start."""
    tool = tmp_path / "iptables-nft-restore"
    tool.write_text("#!/bin/sh\necho 'iptables-nft-restore: line 3 failed' >&2; exit 1\n")
    tool.chmod(0o755)
    before = snapshot(pod)
    more = {"PATH": f"{tmp_path}:{os.environ['PATH']}:/usr/sbin"}
    done = start("ADD", "meshnet-cni", json.dumps(config()).encode(), "one", path_of(pod), more=more)
    assert (done.returncode, json.loads(done.stdout)["code"]) == (1, 100)
    assert "as it was" in json.loads(done.stdout)["msg"]
    assert snapshot(pod) == before


def test_status_says_which_tool_is_missing(config: Made, tmp_path: Path, scratch: Scratch) -> None:
    call("STATUS", "meshnet-cni", config())
    settings = config(kubernetes={"kubeconfig": str(tmp_path / "none")})
    with pytest.raises(Refused) as refused:
        call("STATUS", "meshnet-cni", settings)
    assert (refused.value.code, "kubeconfig" in refused.value.answer["details"]) == (50, True)
    tool = tmp_path / "ip6tables-nft-restore"
    tool.write_text('#!/bin/sh\necho "Extension TPROXY revision 0 not supported, missing kernel module?" >&2; exit 2\n')
    tool.chmod(0o755)
    more = {"PATH": f"{tmp_path}:{os.environ['PATH']}:/usr/sbin"}
    done = start("STATUS", "meshnet-cni", json.dumps(config()).encode(), more=more)
    said = json.loads(done.stdout)
    assert said["code"] == 50
    assert "TPROXY" in said["details"] and "missing kernel module" in said["details"]


def test_somebody_at_work_in_the_namespace_is_waited_for_and_then_told(config: Made, pod: Namespace) -> None:
    with held(pod), pytest.raises(Refused) as refused:
        call("ADD", "meshnet-cni", config(), "one", path_of(pod))
    assert (refused.value.code, path_of(pod) in refused.value.answer["msg"]) == (11, True), refused.value.answer
