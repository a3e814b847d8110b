from __future__ import annotations

import pytest

from meshnet.apply.reconcile import fresh_steps, reconcile, table_differences
from meshnet.model.plan import ChainText, EntryText, Observed, Plan, RouteText, TableText
from tests.unit.apply.test_apply import REDIRECT, TPROXY

ADDRESS = RouteText(6, "addr", "::6/128 dev lo")
ROUTE = RouteText(6, "route", "local ::6 dev lo table 133 proto 109")


def table(*rules, name="A", entries=()):
    return TableText(4, "nat", (ChainText(name, rules),), entries)


def tables_in(steps):
    return [
        line[1:]
        for step in steps
        if step.tool == "restore" and step.family == 4
        for line in step.text.splitlines()
        if line[0] == "*"
    ]


@pytest.mark.parametrize(
    ("old", "new", "order"), [(TPROXY, REDIRECT, "nat raw mangle"), (REDIRECT, TPROXY, "mangle raw nat")]
)
def test_the_table_that_captures_from_now_on_is_written_first(old, new, order):
    assert tables_in(reconcile(new, Observed(old), disposable=False).steps) == order.split()


def test_routing_is_added_first_and_goes_last():
    steps = reconcile(TPROXY, Observed(REDIRECT), disposable=False).steps
    verbs = [step.text.split()[1] if step.tool == "ip" else step.tool for step in steps]
    assert verbs == ["add", "add", "restore", "restore", "del", "del"]


def test_what_leads_there_goes_before_what_it_led_to():
    gone = [step for step in reconcile(Plan(), Observed(TPROXY), disposable=False).steps if step.tool == "ip"]
    assert [line.split()[0] for line in gone[-1].text.splitlines()] == ["rule", "route", "addr", "route"]


def test_a_new_ipv6_address_can_be_bound_at_once():
    text = "".join(step.text for step in fresh_steps(Plan(routing=(ROUTE, ADDRESS))))
    assert text == "route add local ::6 dev lo table 133 proto 109\naddr add ::6/128 dev lo nodad\n"


def test_an_address_that_was_there_stays_its_owner_s():
    seen = Observed(on_loopback=frozenset({"::6/128 dev lo"}))
    assert reconcile(Plan(routing=(ROUTE, ADDRESS)), seen, disposable=True).empty


def test_a_second_copy_of_a_rule_goes():
    rule = RouteText(4, "rule", "fwmark 0x1/0x1 lookup 5 pref 109 protocol 109")
    (step,) = reconcile(Plan(routing=(rule,)), Observed(Plan(routing=(rule, rule))), disposable=True).steps
    assert step.text == f"rule del {rule.words}\n"


def test_only_tables_that_came_with_us_are_dropped():
    seen = Observed(present=frozenset({(4, "nat"), (4, "raw")}), made=frozenset({(4, "raw")}))
    assert [(step.tool, step.text) for step in reconcile(Plan(), seen, disposable=True).steps] == [("drop", "raw")]
    assert reconcile(Plan(), seen, disposable=False).empty


def test_differences_are_lines_with_a_sign():
    assert table_differences(table("-j B", "-j C"), table("-j B", "-j D")) == ["- -A A -j D", "+ -A A -j C"]
    assert table_differences(table("-p tcp -m tcp --dport 1"), table("-p tcp --dport 1")) == []


def test_the_order_of_rules_matters():
    assert table_differences(table("-j B", "-j C"), table("-j C", "-j B"))


def test_an_entry_that_stands_twice_loses_one():
    entry = EntryText("OUTPUT", "-j A")
    assert table_differences(table(entries=(entry,)), table(entries=(entry, entry))) == ["- -A OUTPUT -j A"]


def entries(*pairs, hook="OUTPUT"):
    return tuple(EntryText(hook, rule, place) for place, rule in pairs)


def written(new, old):
    """The lines about built-in chains, in their order."""
    before = Observed(Plan((old,)), frozenset({(4, "nat")}))
    steps = reconcile(Plan((new,)), before, disposable=False).steps
    return [line for step in steps for line in step.text.splitlines() if line[3:9] == "OUTPUT"]


def test_a_lone_entry_stays_where_it_is_when_its_table_changes():
    old, new = table("-j RETURN", entries=entries((3, "-j A"))), table("-j ACCEPT", entries=entries((0, "-j A")))
    assert written(new, old) == []


def test_a_lone_entry_that_has_a_place_goes_back_to_it():
    """As in a roll-back from several entries, which were all written behind others' rules."""
    old = table(entries=entries((4, "-o eth8 -j RETURN"), (5, "-j A")))
    assert written(table(entries=entries((1, "-j A"))), old) == [
        "-D OUTPUT -o eth8 -j RETURN",
        "-D OUTPUT -j A",
        "-I OUTPUT 1 -j A",
    ]


def test_several_entries_are_written_anew_in_their_order():
    old, new = table(entries=entries((1, "-j A"))), table(entries=entries((0, "-o eth8 -j RETURN"), (0, "-j A")))
    assert written(new, old) == ["-D OUTPUT -j A", "-A OUTPUT -o eth8 -j RETURN", "-A OUTPUT -j A"]
    # unless they are there, whoever stands between them
    there = table("-j RETURN", entries=entries((1, "-o eth8 -j RETURN"), (3, "-j A")))
    again = table("-j ACCEPT", entries=entries((0, "-o eth8 -j RETURN"), (0, "-j A")))
    assert written(again, there) == []


def test_a_roll_back_puts_several_where_they_stood():
    """From the first place to the last: each place is counted with all that stands ahead of it there again."""
    old = table("-j RETURN", entries=entries((4, "-o eth8 -j RETURN"), (5, "-j A")))
    new = table("-j ACCEPT", entries=entries((3, "-j A"), (1, "-o eth8 -j RETURN")))
    assert written(new, old)[2:] == ["-I OUTPUT 1 -o eth8 -j RETURN", "-I OUTPUT 3 -j A"]


def test_every_copy_of_an_entry_goes():
    old = table(entries=entries((1, "-j A"), (2, "-j A"), (3, "-j A")))
    assert written(table(entries=entries((0, "-j A"))), old) == ["-D OUTPUT -j A"] * 2
    assert written(table("-j RETURN"), old) == ["-D OUTPUT -j A"] * 3


def test_written_anew_is_written_even_if_nothing_differs():
    there = table("-j RETURN", entries=entries((1, "-j A")))
    wanted, before = table("-j RETURN", entries=entries((0, "-j A"))), Observed(Plan((there,)), frozenset({(4, "nat")}))
    assert reconcile(Plan((wanted,)), before, disposable=False).empty
    (step,) = reconcile(Plan((wanted,)), before, disposable=False, anew=True).steps
    assert "-A A -j RETURN" in step.text
    assert "OUTPUT" not in step.text
