"""The objects against Kubernetes' own schemas, as an API server would judge them; without a network."""

from __future__ import annotations

import json
from typing import Any

import kubernetes_validate
import pytest
import yaml
from click.testing import CliRunner

from meshnet.cli.main import meshnet
from meshnet.cni.manifests import Cluster, init_container, manifests
from meshnet.cni.places import PROFILES
from meshnet.cni.repair import POLICIES

RELEASE = "1.31"


def judged(item: dict[str, Any]) -> None:
    kubernetes_validate.validate(item, RELEASE, strict=True)


@pytest.mark.parametrize("repair", ["", *POLICIES])
@pytest.mark.parametrize("taint", ["", "node.example.com/no-mesh"])
@pytest.mark.parametrize("profile", sorted(PROFILES))
def test_every_object_is_of_its_kind_s_form(profile: str, taint: str, repair: str) -> None:
    objects = manifests(Cluster("meshnet:1", places=PROFILES[profile], taint=taint, repair=repair))
    kinds = [item["kind"] for item in objects]
    assert kinds == [
        *("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "PriorityClass", "ConfigMap", "DaemonSet"),
    ]
    for item in objects:
        judged(item)


def test_the_judge_sees_a_misspelled_field() -> None:
    (*_, daemon_set) = manifests(Cluster("meshnet:1"))
    daemon_set["spec"]["template"]["spec"]["hostNetworks"] = True
    with pytest.raises(kubernetes_validate.ValidationError):
        judged(daemon_set)


def test_rights_are_those_that_are_used() -> None:
    def rights(**more: str) -> list[tuple[str, str]]:
        rules = manifests(Cluster("meshnet:1", **more))[1]["rules"]
        return [(rule["resources"][0], verb) for rule in rules for verb in rule["verbs"]]

    least = [("pods", "get"), ("pods", "list")]
    assert rights() == rights(repair="report") == rights(repair="apply") == least
    assert rights(repair="label") == [*least, ("pods", "patch")]
    assert rights(repair="delete") == [*least, ("pods", "delete")]
    assert rights(taint="a/b") == [*least, ("nodes", "get"), ("nodes", "patch")]


def test_the_snippet_makes_a_pod() -> None:
    snippet = init_container("meshnet:1", ["-p", "15001"])
    snippet["spec"]["containers"] = [{"name": "application", "image": "web:1"}]
    judged({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, **snippet})


def said(*words: str, code: int = 0) -> str:
    done = CliRunner().invoke(meshnet, words, catch_exceptions=False)
    assert done.exit_code == code, done.output
    return done.output


def test_the_commands_print_what_kubectl_takes(tmp_path: Any) -> None:
    defaults = tmp_path / "defaults.yaml"
    defaults.write_text("profile: meshnet\ninbound: {mode: tproxy}\n")
    text = said("cni", "manifests", "--interception", str(defaults), "--namespace", "mesh", "--profile", "k3s")
    assert "&id" not in text
    objects = list(yaml.safe_load_all(text))
    for item in objects:
        judged(item)
    entry = json.loads(next(item for item in objects if item["kind"] == "ConfigMap")["data"]["entry.json"])
    assert entry["interception"] == {"profile": "meshnet", "inbound": {"mode": "tproxy"}}
    assert entry["kubernetes"]["agent"] == "mesh/meshnet-cni"
    as_json = json.loads(said("cni", "manifests", "-o", "json"))
    assert [item["kind"] for item in as_json["items"]][-1] == "DaemonSet"
    snippet = yaml.safe_load(said("init-container", "--", "-p", "15001", "-m", "TPROXY"))
    assert snippet["spec"]["initContainers"][0]["command"] == ["meshnet-init", "-p", "15001", "-m", "TPROXY"]


def test_a_wrong_word_is_said_here_and_not_on_the_node(tmp_path: Any) -> None:
    from meshnet.model.errors import SpecError

    wrong = tmp_path / "wrong.yaml"
    wrong.write_text("inbound: {mode: sideways}\n")
    with pytest.raises(SpecError, match="problem"):
        said("cni", "manifests", "--interception", str(wrong))
    with pytest.raises(SpecError):
        said("init-container", "--", "--no-such-flag")
