from __future__ import annotations

import pytest

from meshnet.model.plan import BEHIND, ChainText, EntryText, Plan, RouteText, TableText
from meshnet.render.tracing import log_rule, with_log_rules

LOG = "-j NFLOG --nflog-prefix nat.out.a --nflog-group 1337 --nflog-size 20"


@pytest.mark.parametrize("matches", ["", "-p tcp -m tcp --dport 80 ", "! -d 10.0.0.0/8 -m owner ! --uid-owner 7 "])
@pytest.mark.parametrize("target", ["A_CHAIN", "MARK --set-xmark 0x1/0x1", "REDIRECT --to-ports 1-2", "CT --zone 1"])
def test_a_log_rule_has_the_same_matches(matches: str, target: str) -> None:
    about = f'{matches}-m comment --comment "meshnet:nat.out.a"'
    assert log_rule(f"{about} -j {target}") == f"{about} {LOG}"


def test_a_prefix_is_no_longer_than_the_kernel_takes() -> None:
    logged = log_rule(f'-m comment --comment "meshnet:{"x" * 99}" -j RETURN')
    assert f" {'x' * 63} " in logged
    assert logged.count("x" * 64) == 1


def rule(name: str) -> str:
    return f'-m comment --comment "meshnet:{name}" -j RETURN'


def test_one_stands_in_front_of_each_rule() -> None:
    entries = (
        EntryText("PREROUTING", rule("first"), 1),
        EntryText("PREROUTING", rule("second"), 2),
        EntryText("OUTPUT", rule("behind"), BEHIND),
    )
    routing = (RouteText(4, "rule", "pref 1"),)
    plan = with_log_rules(
        Plan((TableText(4, "nat", (ChainText("A", (rule("a"), rule("b"))), ChainText("B", ())), entries),), routing)
    )
    (table,) = plan.tables
    assert [chain.name for chain in table.chains] == ["A", "B"]
    assert table.chains[0].rules == (log_rule(rule("a")), rule("a"), log_rule(rule("b")), rule("b"))
    assert table.chains[1].rules == ()
    assert [(entry.place, entry.rule) for entry in table.entries] == [
        (1, log_rule(rule("first"))),
        (2, rule("first")),
        (3, log_rule(rule("second"))),
        (4, rule("second")),
        (BEHIND, log_rule(rule("behind"))),
        (BEHIND, rule("behind")),
    ]
    assert plan.routing == routing
