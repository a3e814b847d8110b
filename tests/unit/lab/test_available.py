from __future__ import annotations

import pytest

from meshnet.lab import available
from meshnet.model.errors import MissingToolError, UnsupportedError, UsageError
from tests.unit.lab.runs import scenario

ALL = (scenario("source-hidden"), scenario("source-kept"))


def missing():
    raise MissingToolError("nginx is not installed", hint="apt-get install nginx-light")


@pytest.fixture
def lab(monkeypatch):
    monkeypatch.setattr(available, "shipped", lambda: ALL)
    monkeypatch.setattr(available.measured, "scenarios", lambda: ())
    monkeypatch.setattr(available, "single_user", lambda: False)
    monkeypatch.delenv("CI", raising=False)
    return monkeypatch


def test_measured_rule_sets_come_behind_the_shipped_ones(lab):
    lab.setattr(available.measured, "scenarios", lambda: (scenario("current"),))
    assert [item.name for item in available.everything()] == ["source-hidden", "source-kept", "current"]
    assert available.absent() == ""


def test_that_they_are_absent_is_said_and_in_ci_refused(lab):
    assert "MESHNET_CONFORMANCE" in available.absent()
    lab.setenv("CI", "true")
    with pytest.raises(UnsupportedError):
        available.absent()


def test_scenarios_by_name_in_their_order_and_once(lab):
    found = available.named(["source-kept", "source-hidden", "source-kept"])
    assert [item.name for item in found] == ["source-kept", "source-hidden"]


@pytest.mark.parametrize(
    ("name", "hint"), [("source-keptt", "source-kept?"), ("zzz", "meshnet lab list shows what there is")]
)
def test_a_name_that_nobody_has(lab, name, hint):
    with pytest.raises(UsageError) as refused:
        available.named(["source-kept", name])
    assert (name in refused.value.message, refused.value.hint) == (True, hint)


def test_what_a_scenario_needs_is_looked_for(lab):
    lab.setattr(available, "NEEDS", {"envoy": (lambda: "/envoy",)})
    assert available.why_not(ALL[0]) == ""
    lab.setattr(available, "NEEDS", {"envoy": (lambda: "/envoy", missing)})
    assert available.why_not(ALL[0]) == "nginx is not installed: apt-get install nginx-light"
    lab.setattr(available, "single_user", lambda: True)
    lab.setattr(available, "NEEDS", {"envoy": (lambda: "/envoy",)})
    assert "users other than one's own" in available.why_not(ALL[0])


@pytest.mark.parametrize(
    ("text", "alone"),
    [("0 1000 1\n", True), ("0 0 4294967295\n", False), ("0 1000 1\n1 100000 65536\n", False), ("", False)],
)
def test_a_namespace_with_one_user(monkeypatch, text, alone):
    monkeypatch.setattr(available.Path, "read_text", lambda *_, **__: text)
    assert available.single_user() is alone
