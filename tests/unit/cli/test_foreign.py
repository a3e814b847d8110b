from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from meshnet.spec.load import load_text
from tests.unit.cli.commands import data

POD = """\
apiVersion: v1
kind: Pod
metadata:
  name: web-1
  annotations:
    sidecar.istio.io/status: injected
    traffic.sidecar.istio.io/includeInboundPorts: "{ports}"
spec:
  containers: [{{name: nginx}}, {{name: istio-proxy, securityContext: {{runAsUser: {uid}}}}}]
"""


@pytest.fixture
def written(tmp_path: Path) -> Any:
    def write(text: str) -> str:
        path = tmp_path / "given.yaml"
        path.write_text(text)
        return str(path)

    return write


def test_a_pod_s_rules_are_istio_s(called: Any, written: Any) -> None:
    code, out, err = called("compile", "--pod", written(POD.format(ports="80", uid=1337)), "--family", "4")
    assert (code, err) == (0, "")
    assert "-A ISTIO_INBOUND -p tcp -m tcp --dport 80 " in out and "MESHNET_PRE" not in out


def test_a_pod_under_the_other_profile(called: Any, written: Any) -> None:
    code, out, _ = called("compile", "--pod", written(POD.format(ports="80", uid=1337)), "--profile", "meshnet")
    assert code == 0 and "MESHNET_PRE" in out and "ISTIO_" not in out


def test_the_spec_of_a_pod(called: Any, written: Any) -> None:
    file = written(POD.format(ports="80", uid=5))
    code, out, _ = called("compile", "--pod", file, "--print-spec")
    spec = load_text(out, "printed").spec
    assert code == 0 and (spec.name, spec.sidecar.uids, spec.profile) == ("web-1", (5,), "istio")
    _, printed, _ = called("compile", "--pod", file, "--print-spec", "-o", "json")
    assert load_text(printed, "printed").spec == spec


def test_a_spec_with_all_its_defaults(called: Any, spec_file: str) -> None:
    code, out, _ = called("compile", spec_file, "--print-spec")
    assert code == 0 and "tunnelPort: 15008" in out


def test_a_pod_s_rules_as_json(called: Any, written: Any) -> None:
    code, out, _ = called("compile", "--pod", written(POD.format(ports="80", uid=5)), "-o", "json")
    answer = data(out)
    assert code == 0 and answer["intercepted"] is True and answer["name"] == "web-1"
    assert {rule["line"] for rule in answer["rules"]} == {None}


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_pod_that_is_not_intercepted(called: Any, written: Any, form: str) -> None:
    file = written(POD.format(ports="80", uid=5).replace("status: injected", "inject: 'false'"))
    code, out, err = called("compile", "--pod", file, "-o", form)
    assert code == 1 and err == "meshnet: not intercepted: sidecar.istio.io/inject is false\n"
    if form == "json":
        assert data(out) == {"intercepted": False, "reason": "sidecar.istio.io/inject is false"}
    else:
        assert out == ""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (POD.format(ports="http", uid=5), "includeInboundPorts]: not a port number (http)"),
        (POD.format(ports="80", uid=5) + "---\nkind: Pod\n", "2 documents: one Pod in a file"),
        ("kind: Deployment\nspec: {template: {}}\n", "kind: not a Pod (Deployment)"),
        ("", "nothing is written here: one Pod"),
        ("a: [", ":1: not YAML"),
        ("a: !!python/object:os.system x", "not YAML"),
        ("a: 2001-99-99", "not YAML"),
        ("[" * 2000, "not YAML (nested too deeply)"),
    ],
)
def test_a_manifest_that_is_none(called: Any, written: Any, text: str, words: str) -> None:
    file = written(text)
    code, out, err = called("compile", "--pod", file)
    assert (code, out) == (2, "") and words in err and err.startswith(file)


def test_a_list_that_holds_itself(called: Any, written: Any) -> None:
    code, _, err = called("compile", "--pod", written("kind: &a [*a]\n"))
    assert code == 2 and "kind: not a Pod (a list of 1)" in err
    assert called("compile", "--pod", written("a: &a [*a]\nspec: {containers: [{name: *a}]}\n"))[0] == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "no spec"),
        (("a.yaml", "b.yaml"), "2 specs (a.yaml b.yaml)"),
        (("a.yaml", "--pod", "b.yaml"), "both a spec (a.yaml) and --pod (b.yaml)"),
        (("a.yaml", "--profile", "istio"), "--profile without --pod"),
        (("--pod", "/nowhere/pod.yaml"), "can't read /nowhere/pod.yaml"),
        (("--pod", "b.yaml", "--dialect", "kuma"), "both --dialect kuma and --pod (b.yaml)"),
        (("--dialect", "kuma"), "no file with --dialect kuma"),
        (("--dialect", "kuma", "a", "b"), "2 files (a b) with --dialect kuma"),
        (("--dialect", "linkerd"), "--incoming-proxy-port (-p): missing"),
        (("--dialect", "kuma", "--profile", "istio", "a"), "--profile without --pod"),
    ],
)
def test_arguments_that_contradict_each_other(called: Any, words: tuple[str, ...], said: str) -> None:
    code, out, err = called("compile", *words)
    assert (code, out) == (2, "") and said in err


def test_linkerd_s_flags(called: Any) -> None:
    code, out, err = called("compile", "--dialect", "linkerd", "--", "-p", "4143", "-o", "4140", "-u", "2102", "-w")
    assert code == 0 and "--to-ports 4143" in out and "--uid-owner 2102" in out
    assert err == "meshnet: left aside, since they don't say which traffic is meant: --use-wait-flag\n"


def test_the_spec_of_linkerd_s_flags_means_the_same(called: Any, written: Any) -> None:
    flags = ("--dialect", "linkerd", "--", "-p", "4143", "-o", "4140", "-u", "2102")
    _, spec, _ = called("compile", "--print-spec", *flags)
    assert called("compile", written(spec))[1] == called("compile", *flags)[1]


def test_kuma_s_configuration(called: Any, written: Any) -> None:
    file = written('redirect: {outbound: {excludePortsForUIDs: [22:30]}, inbound: {excludePorts: "080"}}\n')
    code, out, err = called("compile", "--dialect", "kuma", file)
    assert (code, out) == (2, "") and err.startswith(f"{file}: redirect.inbound.excludePorts: not a port number (080)")
    file = written("wait: 5\nredirect: {outbound: {excludePortsForUIDs: [22:30]}}\n")
    code, out, err = called("compile", "--dialect", "kuma", file, "-o", "json")
    assert code == 0 and data(out)["aside"] == ["wait"] and err.endswith(": wait\n")
    assert any("--dport 22 -m owner --uid-owner 30 " in rule["rule"] for rule in data(out)["rules"])
