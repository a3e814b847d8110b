from __future__ import annotations

import pytest

from meshnet.apply.apply import apply, changes, remove, remove_rules, side_by_side
from meshnet.model.errors import ToolError
from meshnet.model.plan import Plan, Step
from meshnet.render.plan import render
from tests.unit.apply.memory import MemoryHost
from tests.unit.compile.compiling import program

REDIRECT = render(program("inbound: {mode: redirect}\ndns: {capture: all}\n"))
TPROXY = render(program("routing: {table: 77}\ninterfaces: {exclude: [eth9]}\n"))
BACKENDS = ["iptables-nft", "iptables-legacy"]
FOREIGN = "*filter\n:THEIRS - [0:0]\n-A INPUT -j THEIRS\nCOMMIT\n"


@pytest.fixture(params=BACKENDS)
def host(request: pytest.FixtureRequest) -> MemoryHost:
    return MemoryHost(request.param)


@pytest.mark.parametrize("plan", [REDIRECT, TPROXY], ids=["redirect", "tproxy"])
def test_a_second_apply_finds_nothing_to_do(host, plan):
    assert not apply(host, plan).changes.empty
    assert apply(host, plan).changes.empty
    assert apply(host, plan).changes.differences == ()


def test_changes_change_nothing(host):
    before = host.state()
    assert not changes(host, TPROXY).empty
    assert host.state() == before


@pytest.mark.parametrize("work", [changes, apply])
def test_who_wants_to_know_hears_ahead_what_is_there(host, work):
    heard = []
    apply(host, REDIRECT)
    work(host, REDIRECT, ahead=heard.append)
    assert heard == [], "nothing to do"
    before = host.state()
    work(host, TPROXY, ahead=lambda plan: heard.append((plan, host.state() == before)))
    ((there, untouched),) = heard
    assert untouched and "--to-ports 15006" in "".join(there.rules())


@pytest.mark.parametrize(("first", "then"), [(REDIRECT, TPROXY), (TPROXY, REDIRECT)])
def test_what_is_replaced_leaves_nothing_behind(host, first, then):
    fresh = MemoryHost(host.name)
    apply(fresh, then)
    apply(host, first)
    apply(host, then)
    assert changes(host, then).empty
    assert host.state()[2] == fresh.state()[2]


def test_remove_takes_all_that_is_ours_and_nothing_else():
    host = MemoryHost()
    host.fake.restore(4, FOREIGN)
    before = host.state()
    apply(host, TPROXY)
    remove(host)
    assert host.state() == before


def test_remove_rules_leaves_routing_to_the_other_backend(host):
    apply(host, TPROXY)
    routing = host.state()[2]
    remove_rules(host)
    assert host.state()[2] == routing
    assert "meshnet:" not in "".join(host.save().values())


@pytest.mark.parametrize("before", [Plan(), REDIRECT], ids=["nothing", "redirect"])
@pytest.mark.parametrize("error", [ToolError("no"), KeyboardInterrupt()], ids=["refused", "Ctrl-C"])
def test_whichever_step_fails_the_namespace_is_as_it_was(before, error):
    trial = MemoryHost()
    apply(trial, before)
    steps = len(changes(trial, TPROXY).steps)
    assert steps > 3
    for step in range(1, steps + 1):
        host = MemoryHost()
        apply(host, before)
        there = host.state()
        host.fail_at, host.error = {len(host.done) + step}, error
        with pytest.raises(type(error)):
            apply(host, TPROXY)
        assert host.state() == there, f"step {step}"


def test_the_error_says_that_it_was_taken_back():
    host = MemoryHost()
    host.fail_at = {2}
    with pytest.raises(ToolError, match="the namespace is as it was"):
        apply(host, TPROXY)


def test_a_roll_back_that_fails_says_both():
    host = MemoryHost()
    host.fail_at, host.error = {3, 5}, ToolError("first of all", detail="the kernel's words")
    with pytest.raises(ToolError, match="could not be taken back") as caught:
        apply(host, TPROXY)
    assert "first of all" in caught.value.detail
    assert "meshnet diff" in caught.value.hint


@pytest.mark.parametrize("failing", [4, 6])
@pytest.mark.parametrize("before", [Plan(), REDIRECT], ids=["nothing", "redirect"])
def test_one_family_refused_while_the_other_goes_in(before, failing):
    """Both are under way: the one that succeeds is taken back, whichever of them it is."""
    host = MemoryHost()
    apply(host, before)
    there, real, asked, done = host.state(), host.fake.restore, [], []

    def restore(family, text, *, test=False):
        asked.append(family)
        if asked == [4, 6][: len(asked)] and family == failing:
            raise ToolError(f"IPv{family} refused")
        real(family, text, test=test)
        done.append(family)

    host.fake.restore = restore
    with pytest.raises(ToolError, match=f"IPv{failing} refused; the namespace is as it was"):
        apply(host, TPROXY)
    assert asked[:2] == [4, 6] and done[0] == 10 - failing
    assert host.state() == there


def test_steps_of_one_tool_for_different_families_go_side_by_side():
    steps = [Step(tool, family, "") for tool, family in (("ip", 4), ("ip", 6), ("restore", 6), ("ip", 4), ("drop", 4))]
    one, two, three, four, five = steps
    assert side_by_side((*steps, five)) == [(one, two), (three,), (four,), (five,), (five,)]
