"""Each verb with pods that are lists: who gets rules, what is kept of them, who may take them away."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from meshnet.cni import verbs
from meshnet.cni.attachments import Attachment, Attachments
from meshnet.cni.config import read_config
from meshnet.cni.journal import Journal
from meshnet.cni.protocol import BAD_NAMESPACE, Call, CniError, OwnNamespace
from meshnet.cni.verbs import VERBS
from meshnet.model.errors import BusyError, ToolError
from tests.unit.cni.pods import FakePod, Pods

if TYPE_CHECKING:
    from pathlib import Path


class Plugin:
    """The verbs with a configuration that keeps its things in the test's folder."""

    def __init__(self, folder: Path, pods: Pods) -> None:
        self._folder = folder
        self._pods = pods
        self.kept = Attachments(str(folder / "state"))
        self.logged: list[str] = []

    def __call__(self, verb: str, container: str = "one", netns: str = "/one", **more: Any) -> Any:
        plain = {
            "cniVersion": "1.1.0",
            "name": "net",
            "interception": {"name": "web"},
            "prevResult": {"cniVersion": "1.1.0", "ips": []},
            "stateDir": str(self._folder / "state"),
        }
        interface = more.pop("interface", "eth0")
        arguments = more.pop("arguments", {})
        raw = {key: word for key, word in (plain | more).items() if word is not ...}
        config = read_config(verb, raw)
        log = self._folder / "log"
        said = VERBS[verb](Call(verb, container, netns, interface, arguments), config, Journal("", "debug", str(log)))
        self.logged = log.read_text().splitlines() if log.exists() else []
        return json.loads(said) if said else None

    def refused(self, verb: str, *words: str, **more: Any) -> CniError:
        with pytest.raises(CniError) as caught:
            self(verb, *words, **more)
        return caught.value

    @property
    def containers(self) -> list[str]:
        return sorted(item.container for item in self.kept.of_network("net"))


@pytest.fixture
def pods(monkeypatch: pytest.MonkeyPatch) -> Pods:
    made = Pods()
    monkeypatch.setattr(verbs, "open_pod", made.open)
    monkeypatch.setattr(verbs, "visit", made.visit)
    monkeypatch.setattr(verbs, "require_mapped", lambda _: None)
    return made


@pytest.fixture
def plugin(tmp_path: Path, pods: Pods) -> Plugin:
    return Plugin(tmp_path, pods)


@pytest.fixture
def one(pods: Pods) -> FakePod:
    return pods.add("/one")


def listed(*containers: str) -> dict[str, Any]:
    return {"cni.dev/valid-attachments": [{"containerID": name, "ifname": "eth0"} for name in containers]}


def test_add_writes_keeps_and_hands_the_result_on(plugin: Plugin, one: FakePod) -> None:
    result = {"cniVersion": "1.0.0", "ips": [{"address": "10.0.0.2/24"}], "dns": {}, "x": 1}
    assert plugin("ADD", prevResult=result) == {**result, "cniVersion": "1.1.0"}
    assert one.rules == ["web"]
    found = plugin.kept.find("net", "one", "eth0")
    assert found is not None
    assert (found.netns, found.inode) == ("/one", one.inode)
    assert any("one: a notice" in line for line in plugin.logged)


def test_add_in_an_older_version(plugin: Plugin, one: FakePod) -> None:
    result = {"cniVersion": "1.0.0", "ips": [{"address": "10.0.0.2/24"}, {"address": "fd00::2/64"}]}
    said = plugin("ADD", prevResult=result, cniVersion="0.3.1")
    assert [item["version"] for item in said["ips"]] == ["4", "6"]
    assert said["cniVersion"] == "0.3.1"


def test_add_of_a_pod_that_is_not_selected_touches_nothing(plugin: Plugin) -> None:
    arguments = {"K8S_POD_NAMESPACE": "kube-system", "K8S_POD_NAME": "dns"}
    assert plugin("ADD", arguments=arguments, excludeNamespaces=["kube-system"]) == {"cniVersion": "1.1.0", "ips": []}
    assert plugin.containers == []
    assert any("kube-system/dns: not intercepted: excludeNamespaces" in line for line in plugin.logged)


@pytest.mark.parametrize(("error", "code"), [(ToolError("no such table"), 100), (BusyError("at work"), 11)])
def test_add_fails_closed_and_knows_the_attachment(plugin: Plugin, one: FakePod, error: ToolError, code: int) -> None:
    """What was half written has to be found again by GC, also when the runtime never calls DEL."""
    one.refusal = error
    assert plugin.refused("ADD").code == code
    assert plugin.containers == ["one"]


@pytest.mark.parametrize("verb", ["ADD", "CHECK"])
def test_without_a_result_before_it_nothing_is_done(plugin: Plugin, one: FakePod, verb: str) -> None:
    assert plugin.refused(verb, prevResult=...).code == 7
    assert (one.rules, plugin.containers) == ([], [])


@pytest.mark.parametrize("verb", ["ADD", "CHECK"])
def test_a_namespace_of_another_container_is_refused(plugin: Plugin, one: FakePod, verb: str) -> None:
    plugin("ADD")
    assert plugin.refused(verb, "two").code == 8
    assert one.rules == ["web"]


def test_a_second_interface_of_the_same_container_is_none_of_them(plugin: Plugin, one: FakePod) -> None:
    plugin("ADD")
    plugin("ADD", interface="net1")
    plugin("DEL")
    assert one.rules == ["web"]
    plugin("DEL", interface="net1")
    assert one.rules == []


def test_an_inode_that_comes_again_under_another_path_is_no_other_container_s(
    plugin: Plugin, one: FakePod, pods: Pods
) -> None:
    plugin("ADD")
    again = pods.add("/two")
    again.inode = one.inode
    plugin("ADD", "two", "/two")
    assert again.rules == ["web"]


def test_check_is_silent_about_what_is_as_it_was(plugin: Plugin, one: FakePod) -> None:
    plugin("ADD")
    assert plugin("CHECK") is None


def test_check_names_every_difference(plugin: Plugin, one: FakePod) -> None:
    plugin("ADD")
    one.drift = ("+ a", "- b")
    error = plugin.refused("CHECK")
    assert (error.code, error.details) == (101, "+ a\n- b")
    assert "2 differences" in error.message
    one.drift = ("+ a",)
    assert "1 difference " in plugin.refused("CHECK").message


def test_check_compares_with_what_was_kept_and_not_with_today_s_words(plugin: Plugin, one: FakePod) -> None:
    plugin("ADD")
    assert plugin("CHECK", interception={"name": "other"}) is None


def test_check_of_an_unknown_pod_decides_anew(plugin: Plugin, one: FakePod) -> None:
    assert plugin.refused("CHECK").details == "+ rules of web"
    arguments = {"K8S_POD_NAMESPACE": "free", "K8S_POD_NAME": "x"}
    assert plugin("CHECK", arguments=arguments, excludeNamespaces=["free"]) is None


def test_check_of_another_namespace_than_add_s(plugin: Plugin, one: FakePod) -> None:
    plugin("ADD")
    one.inode += 1
    assert plugin.refused("CHECK").code == 8


def test_check_of_a_namespace_that_is_gone(plugin: Plugin, one: FakePod, pods: Pods) -> None:
    plugin("ADD")
    del pods.by_path["/one"]
    assert plugin.refused("CHECK").code == 3


def test_del_takes_rules_and_what_was_kept(plugin: Plugin, one: FakePod) -> None:
    plugin("ADD")
    assert plugin("DEL") is None
    assert (one.rules, plugin.containers) == ([], [])
    assert plugin("DEL") is None


@pytest.mark.parametrize(
    "state", [None, CniError(BAD_NAMESPACE, "is no namespace")], ids=["path gone", "no namespace any more"]
)
@pytest.mark.parametrize("path", ["/one", ""])
def test_del_without_a_namespace_succeeds(
    plugin: Plugin, one: FakePod, pods: Pods, state: CniError | None, path: str
) -> None:
    plugin("ADD")
    del pods.by_path["/one"]
    if state is not None:
        pods.by_path["/one"] = state
    assert plugin("DEL", "one", path) is None
    assert plugin.containers == []


def test_del_with_half_a_configuration_forgets_the_container_in_every_network(plugin: Plugin, one: FakePod) -> None:
    plugin("ADD")
    plugin("DEL", name=..., interception=7, prevResult=..., cniVersion=...)
    assert (one.rules, plugin.containers) == ([], [])
    assert any("half a configuration" in line for line in plugin.logged)


def test_del_never_enters_the_node_s_own_namespace(plugin: Plugin, pods: Pods) -> None:
    pods.by_path["/one"] = OwnNamespace("/one")
    assert plugin.refused("DEL").code == 8


def test_del_that_can_t_take_the_rules_away_keeps_what_it_knows(plugin: Plugin, one: FakePod) -> None:
    plugin("ADD")
    one.refusal = BusyError("at work")
    assert plugin.refused("DEL").code == 11
    assert plugin.containers == ["one"]


def test_del_of_one_network_leaves_the_rules_to_the_other(plugin: Plugin, one: FakePod) -> None:
    plugin("ADD")
    plugin("ADD", name="second")
    plugin("DEL")
    assert one.rules == ["web"]
    plugin("DEL", name="second")
    assert one.rules == []


def test_gc_drops_what_is_not_listed_and_only_that(plugin: Plugin, pods: Pods) -> None:
    made = {name: pods.add(f"/{name}") for name in ("a", "b", "c")}
    for name in made:
        plugin("ADD", name, f"/{name}")
    plugin("ADD", "a", "/a", name="second")
    plugin("GC", "", "", **listed("b"))
    assert {name: pod.rules for name, pod in made.items()} == {"a": ["web"], "b": ["web"], "c": []}
    assert plugin.containers == ["b"]
    plugin("GC", "", "", **listed(), name="second")
    assert made["a"].rules == []


def test_gc_goes_on_after_a_failure_and_tells_it(plugin: Plugin, pods: Pods) -> None:
    first, second = pods.add("/a"), pods.add("/b")
    plugin("ADD", "a", "/a")
    plugin("ADD", "b", "/b")
    first.refusal = ToolError("no")
    error = plugin.refused("GC", "", "", **listed())
    assert (error.code, error.details) == (100, "a eth0: no")
    assert (second.rules, plugin.containers) == ([], ["a"])


def test_gc_leaves_a_namespace_alone_whose_path_is_somebody_else_s_by_now(plugin: Plugin, pods: Pods) -> None:
    plugin.kept.keep(Attachment("net", "old", "eth0", "/new", 4, 7, "", {}))
    new = pods.add("/new")
    new.rules = ["web"]
    plugin("GC", "", "", **listed())
    assert (new.rules, plugin.containers) == (["web"], [])


def test_gc_drops_what_has_no_namespace_any_more(plugin: Plugin, one: FakePod, pods: Pods) -> None:
    plugin("ADD")
    pods.by_path["/one"] = OwnNamespace("/one")
    plugin("GC", "", "", **listed())
    assert plugin.containers == []


def test_gc_s_list_may_be_null_which_is_go_s_empty_one(plugin: Plugin, one: FakePod) -> None:
    plugin("ADD")
    plugin("GC", "", "", **{"cni.dev/valid-attachments": None})
    assert one.rules == []


@pytest.mark.parametrize("key", ["cni.dev/valid-attachments", "cni.dev/attachments"])
@pytest.mark.parametrize(
    "words", [False, 0, "", {}, "one", [1], [{}], [{"containerID": "one"}], [{"containerID": 1, "ifname": "eth0"}]]
)
def test_gc_without_a_list_that_is_one_drops_nothing(plugin: Plugin, one: FakePod, key: str, words: object) -> None:
    plugin("ADD")
    assert plugin.refused("GC", "", "", **{key: words}).code == 7
    assert (one.rules, plugin.containers) == (["web"], ["one"])


def test_gc_needs_a_list(plugin: Plugin, one: FakePod) -> None:
    plugin("ADD")
    assert plugin.refused("GC", "", "").code == 7
    assert one.rules == ["web"]


def test_status_is_code_50_with_every_reason(plugin: Plugin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("meshnet.cni.readiness.missing", lambda _: ["no ip", "no table"])
    error = plugin.refused("STATUS", "", "")
    assert (error.code, error.details) == (50, "no ip\nno table")
    monkeypatch.setattr("meshnet.cni.readiness.missing", lambda _: [])
    assert plugin("STATUS", "", "") is None
