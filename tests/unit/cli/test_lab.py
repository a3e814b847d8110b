"""The lab's commands without a lab: what is chosen, what is told, and with which code it ends."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from meshnet.kernel import netns
from meshnet.kernel.netns import where
from meshnet.lab import available, installed, keeper, runner
from meshnet.model.errors import NamespaceError, UsageError
from tests.unit.cli.commands import HEAD, data
from tests.unit.cli.places import FakePlace
from tests.unit.lab.runs import ran, record, scenario

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from meshnet.kernel.netns import Where
    from meshnet.lab.runner import Ran
    from meshnet.lab.scenario import Scenario

ALL = (scenario("one"), scenario("two"), scenario("three"))


class Lab:
    """``reasons``: which scenarios can't run here. ``found``: what a run finds, by the scenario's name."""

    def __init__(self) -> None:
        self.reasons: dict[str, str] = {}
        self.note = ""
        self.found: dict[str, Ran] = {}
        self.asked: dict[str, Any] = {}

    def why_not(self, item: Scenario) -> str:
        return self.reasons.get(item.name, "")

    def run(self, scenarios: tuple[Scenario, ...], hear: Callable[..., None], **more: Any) -> tuple[Ran, ...]:
        self.asked = {"names": [item.name for item in scenarios], **more}
        result = tuple(self.found.get(item.name, ran(item.name, record("ipv4"))) for item in scenarios)
        for item in result:
            for row in item.records:
                hear(item.scenario.name, row["name"], row["ok"])
        return result


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch) -> Lab:
    made = Lab()
    monkeypatch.setattr(netns, "require_capabilities", lambda *_: None)
    monkeypatch.setattr(available, "everything", lambda: ALL)
    monkeypatch.setattr(available, "absent", lambda: made.note)
    monkeypatch.setattr(available, "why_not", made.why_not)
    monkeypatch.setattr(runner, "run", made.run)
    return made


def test_the_list_says_what_can_t_run_here(called: Any, lab: Lab) -> None:
    lab.reasons, lab.note = {"two": "nginx is not installed"}, "left out"
    code, out, err = called("lab", "list")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == ["scenario", "one", "two", "three"]
    assert err.splitlines() == ["note: left out", "note: two can't run here: nginx is not installed"]
    found = data(called("lab", "list", "-o", "json")[1])["scenarios"]
    assert [(item["rows"], item["why_not"]) for item in found] == [(2, ""), (2, "nginx is not installed"), (2, "")]


def test_named_scenarios_run_in_their_order(called: Any, lab: Lab) -> None:
    code, out, _ = called("lab", "run", "two", "one", "two", "--at-once", "2")
    assert (code, lab.asked) == (0, {"names": ["two", "one"], "at_once": 2, "folder": None})
    assert out.splitlines()[-1] == "2 of 2 scenarios as expected"
    assert "1 of 1" in out


@pytest.mark.parametrize("words", [(), ("one", "--all"), ("--at-once", "0", "one"), ("four",), ("one", "twoo")])
def test_what_can_t_be_asked(called: Any, lab: Lab, words: tuple[str, ...]) -> None:
    assert called("lab", "run", *words)[0] == 2
    assert lab.asked == {}


def test_a_scenario_that_was_named_and_can_t_run_is_refused(called: Any, lab: Lab) -> None:
    lab.reasons = {"two": "no nginx"}
    code, _, err = called("lab", "run", "one", "two")
    assert (code, lab.asked) == (4, {})
    assert "two: no nginx" in err


def test_of_all_those_that_can_t_run_are_left_out_and_that_shows_in_the_code(called: Any, lab: Lab) -> None:
    lab.reasons = {"two": "no nginx"}
    code, out, err = called("lab", "run", "--all", "-o", "json")
    assert (code, lab.asked["names"]) == (4, ["one", "three"])
    assert data(out)["left_out"] == {"two": "no nginx"}
    assert "note: two is left out: no nginx" in err


def test_what_differs_is_told_with_its_evidence(called: Any, lab: Lab) -> None:
    wrong = record("ipv6", "127.0.0.6", trouble="a line\nanother", sockets=["tcp x"])
    lab.found = {"two": ran("two", record("ipv4"), wrong)}
    code, out, err = called("lab", "run", "one", "two")
    assert code == 1
    assert err == "two, ipv6: not as expected\n"
    assert "two, ipv6:\n  a line\n  another\n  sockets:" in out
    assert "two, ipv4:" not in out
    assert out.splitlines()[-1] == "1 of 2 scenarios as expected"


def test_a_difference_wins_over_what_was_left_out_and_trouble_over_a_difference(called: Any, lab: Lab) -> None:
    lab.reasons = {"three": "no nginx"}
    lab.found = {"one": ran("one", record("ipv4", "other"))}
    assert called("lab", "run", "--all")[0] == 1
    lab.found["two"] = ran("two", record("ipv4", "", ok=False, exit_code=3, trouble="no server"))
    assert called("lab", "run", "--all")[0] == 3


def test_verbose_tells_every_row(called: Any, lab: Lab) -> None:
    out = called("lab", "run", "one", "-v")[1]
    assert "== one: about one" in out
    assert "expected 10.0.0.1, predicted 10.0.0.1, measured 10.0.0.1" in out


def test_a_report_s_folder_is_made(called: Any, lab: Lab, tmp_path: Path) -> None:
    code, _, err = called("lab", "run", "one", "--report", str(tmp_path / "a" / "b"))
    assert (code, lab.asked["folder"]) == (0, tmp_path / "a" / "b")
    assert {path.name for path in (tmp_path / "a" / "b").iterdir()} == {"index.html", "report.json", "report.txt"}
    assert f"written: {tmp_path / 'a' / 'b' / 'index.html'}" in err


class Kept:
    pid = 77


@pytest.mark.parametrize(
    ("words", "asked"),
    [
        ((), ("envoy", "echo", "iptables-nft", "mnlab-")),
        (
            ("--sidecar", "embedded", "--application", "nginx", "--backend", "nftables", "--prefix", "un-"),
            ("embedded", "nginx", "nftables", "un-"),
        ),
    ],
)
def test_up_hands_the_spec_s_text_to_a_keeper(
    called: Any, lab: Lab, spec_file: str, monkeypatch: pytest.MonkeyPatch, words: Any, asked: tuple[str, ...]
) -> None:
    given: list[Any] = []

    def up(*what: str) -> Kept:
        given.extend(what)
        return Kept()

    monkeypatch.setattr(keeper, "up", up)
    monkeypatch.setattr(installed, "has_envoy", lambda: True)
    code, out, _ = called("lab", "up", spec_file, *words)
    assert (code, tuple(given[1:])) == (0, asked)
    assert given[0].startswith(HEAD)
    assert f"{asked[-1]}pod" in out
    found = data(called("lab", "up", spec_file, *words, "-o", "json")[1])
    assert (found["keeper"], found["places"]["client"]["namespace"]) == (77, f"{asked[-1]}client")


def test_a_wrong_spec_is_said_before_an_earlier_lab_goes(
    called: Any, lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper, "up", lambda *_: pytest.fail("it was built"))
    (tmp_path / "pod.yaml").write_text(f"{HEAD}inbound: {{mode: sideways}}\n")
    code, _, err = called("lab", "up", str(tmp_path / "pod.yaml"))
    assert (code, "pod.yaml:3" in err) == (2, True)


@pytest.mark.parametrize(
    ("cleared", "said"),
    [((0, []), "there was no lab"), ((1, []), "the lab is gone"), ((0, ["mnlab-pod"]), "the lab is gone")],
)
def test_down(
    called: Any, lab: Lab, monkeypatch: pytest.MonkeyPatch, cleared: tuple[int, list[str]], said: str
) -> None:
    monkeypatch.setattr(keeper, "clear", lambda prefix: cleared)
    assert called("lab", "down")[:2] == (0, f"{said}\n")
    assert data(called("lab", "down", "-o", "json")[1]) == {"keepers": cleared[0], "leftovers": cleared[1]}


class Place(FakePlace):
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self.ran: list[str] = []
        monkeypatch.setattr(netns, "open_namespace", self.open)
        monkeypatch.setattr(os, "execvp", self.exec)

    def exec(self, program: str, words: list[str]) -> None:
        assert self.inside
        if program == "absent":
            raise FileNotFoundError(2, "No such file or directory")
        self.ran = words


@pytest.mark.parametrize(
    ("words", "place", "ran_there"),
    [
        ((), "mnlab-pod", ["/bin/zz"]),
        (("client",), "mnlab-client", ["/bin/zz"]),
        (("client", "--prefix", "un-", "--", "curl", "-s", "x"), "un-client", ["curl", "-s", "x"]),
    ],
)
def test_a_shell_or_a_command_in_a_place(
    called: Any, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], place: str, ran_there: list[str]
) -> None:
    monkeypatch.setenv("SHELL", "/bin/zz")
    made = Place(monkeypatch)
    assert called("lab", "shell", *words)[0] == 0
    assert (made.opened, made.ran) == ([where(place)], ran_there)


def test_without_a_shell_of_one_s_own(called: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHELL", "")
    made = Place(monkeypatch)
    called("lab", "shell")
    assert made.ran == ["/bin/sh"]


def test_a_program_or_a_place_that_is_not_there(called: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    Place(monkeypatch)
    code, _, err = called("lab", "shell", "pod", "--", "absent")
    assert (code, "there is no program absent" in err) == (2, True)
    assert called("lab", "shell", "server")[0] == 2

    def gone(place: Where) -> Place:
        raise NamespaceError(f"there is no network namespace {place}")

    monkeypatch.setattr(netns, "open_namespace", gone)
    assert called("lab", "shell")[0] == 3


def test_available_s_own_words_are_used(lab: Lab) -> None:
    with pytest.raises(UsageError, match="there is no scenario four"):
        available.named(("four",))


def test_a_report_s_folder_is_made_before_anything_runs(
    called: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("meshnet.kernel.netns.require_capabilities", lambda *_: None)
    monkeypatch.setattr(runner, "run", lambda *_, **__: pytest.fail("ran"))
    taken = tmp_path / "report"
    taken.write_text("")
    code, _, err = called("lab", "run", "without-rules", "--report", str(taken))
    assert code == 2 and f"can't write into {taken}: File exists" in err


def test_a_shell_without_a_lab_names_what_builds_one(called: Any) -> None:
    code, _, err = called("lab", "shell", "--prefix", "no-such-lab-")
    assert code == 3 and "meshnet lab up SPEC builds one" in err
