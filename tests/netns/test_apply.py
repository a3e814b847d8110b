"""Apply, re-apply, tamper, repair, replace and remove on the real kernel, beside what others have there."""

from __future__ import annotations

import multiprocessing
from typing import TYPE_CHECKING

import pytest

from meshnet.apply.session import Session
from meshnet.kernel.netns import where
from tests.netns import foreign
from tests.netns.snapshot import foreign_lines, run, snapshot
from tests.netns.specs import pod_spec, spec

if TYPE_CHECKING:
    from meshnet.kernel.netns import Namespace
    from meshnet.model.plan import ChangeSet, Receipt
    from meshnet.model.spec import Spec

BACKENDS = ("iptables-nft", "iptables-legacy", "libiptc", "nftables")
FEATURES = (
    "dns: {capture: all}\nsidecar: {uids: [1337, 1338], gids: [1337]}\n"
    "interfaces: {exclude: [eth5, eth7, tun+], guest: [vm0, vm1]}\ndropInvalid: true\n"
    'outbound: {excludeCidrs: BLOCKS, excludePorts: [1, 3, 5, "7-9"], groups: [0, 5]}\n'
)
TWO_INTERFACES = "interfaces: {exclude: [eth5, eth7]}\n"
"""For which nftables has a set."""

BLOCKS = {"4": "[10.1.0.0/16]", "6": '["fd01::/16"]', "both": '[10.1.0.0/16, "fd01::/16"]'}


def features(families: str = "both") -> str:
    """Something of everything that has rules."""
    return FEATURES.replace("BLOCKS", BLOCKS[families])


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest) -> str:
    return request.param


def apply(namespace: Namespace, wanted: Spec, backend: str = "auto") -> Receipt:
    with Session(where(namespace.where.text), backend) as session:
        return session.apply(wanted)


def changes(namespace: Namespace, wanted: Spec, backend: str) -> ChangeSet:
    with Session(where(namespace.where.text), backend) as session:
        return session.changes(wanted)


def remove(namespace: Namespace, backend: str = "auto") -> Receipt:
    with Session(where(namespace.where.text), backend) as session:
        return session.remove()


def at_routing(family: int) -> dict[str, list[list[str]]]:
    """What somebody does to our policy rule and route, each as command lines."""
    rule = ["pref", "109", "fwmark", "0x539/0xfff"]
    other = ["pref", "108", "fwmark", "0x539/0xfff", "lookup", "133", "protocol", "109"]
    route = ["local", "default", "dev", "lo", "table", "133"]
    return {
        "the policy rule deleted": [["ip", f"-{family}", "rule", "del", *rule]],
        "the policy rule doubled": [["ip", f"-{family}", "rule", "add", *other]],
        "the route deleted": [["ip", f"-{family}", "route", "del", *route]],
    }


def at_nft(mode: str) -> dict[str, list[list[str]]]:
    """What somebody does to our table with nft, each as command lines."""
    table = "nat" if mode == "redirect" else "mangle"
    inbound, base = f"inet meshnet {table}_inbound", f"inet meshnet {table}_prerouting"

    def first(chain: str) -> str:
        return f"$(nft -a list chain {chain} | sed -n 's/.*counter.* # handle //p' | head -1)"

    def shell(*lines: str) -> list[list[str]]:
        return [["sh", "-ec", line] for line in lines]

    entry = f'comment \\"meshnet:{table}.in.exclude.tunnel\\"'
    return {
        "a rule deleted": shell(f"nft delete rule {inbound} handle {first(inbound)}"),
        "a rule changed, under its own comment": shell(
            f'nft replace rule {inbound} handle {first(inbound)} "tcp dport 15007 counter return {entry}"'
        ),
        "a rule added": shell(f"nft insert rule {inbound} meta l4proto tcp return"),
        "a rule added of words that we never write": shell(f"nft insert rule {inbound} limit rate 5/second accept"),
        "a rule without its counter": shell(
            f'nft replace rule {inbound} handle {first(inbound)} "tcp dport 15008 return {entry}"'
        ),
        "a rule's comment gone": shell(
            f"nft replace rule {inbound} handle {first(inbound)} tcp dport 15008 counter return"
        ),
        "two rules in the other order": shell(
            f"n={first(inbound)}; nft delete rule {inbound} handle $n; "
            f'nft "add rule {inbound} tcp dport 15008 counter return {entry}"'
        ),
        "a jump deleted": shell(f"nft delete rule {base} handle {first(base)}"),
        "a jump doubled": shell(
            f'nft "add rule {base} counter jump {table}_pre comment \\"meshnet:{table}.in.entry\\""'
        ),
        "a chain flushed": shell(f"nft flush chain {inbound}"),
        "a chain that nobody knows": shell("nft add chain inet meshnet old"),
        "a chain of somebody's that is hooked": shell(
            'nft "add chain inet meshnet other { type filter hook input priority 0; }"'
        ),
        "a policy": shell(f'nft "chain {base} {{ policy drop; }}"') if mode == "tproxy" else [],
        "a port taken out of a set": shell('nft "delete element inet meshnet inbound_excludePorts { 15090 }"'),
        "a port put into a set": shell('nft "add element inet meshnet inbound_excludePorts { 81-90 }"'),
        "an interface taken out of a set": shell('nft "delete element inet meshnet interfaces_exclude { eth7 }"'),
        "an interface put into a set": shell('nft "add element inet meshnet interfaces_exclude { eth8 }"'),
        "a set added": shell('nft "add set inet meshnet more { type ipv4_addr; flags interval; }"'),
        "a counter added": shell("nft add counter inet meshnet seen"),
        "the table asleep": shell('nft "add table inet meshnet { flags dormant; }"'),
        "all rules gone": shell("nft flush table inet meshnet"),
        "the table gone": shell("nft delete table inet meshnet"),
    }


def tampering(backend: str, family: int, mode: str) -> dict[str, list[list[str]]]:
    """What somebody does to our rules by hand, each as command lines."""
    if backend == "nftables":
        at_table = {what: commands for what, commands in at_nft(mode).items() if commands}
        return at_routing(family) if family == 6 else at_table | at_routing(family)
    tables = foreign.tool(backend, family)
    table, hook, chain = (
        ("nat", "PREROUTING", "MESHNET_PRE")
        if mode == "redirect"
        else (
            "mangle",
            "PREROUTING",
            "MESHNET_PRE",
        )
    )
    tool = [tables, *([] if backend == "iptables-nft" else ["-w", "5"]), "-t", table]
    entry = ["-m", "comment", "--comment", f"meshnet:{table}.in.entry", "-j", chain]
    return {
        "a rule deleted": [[*tool, "-D", "MESHNET_INBOUND", "1"]],
        "a jump deleted": [[*tool, "-D", hook, "1"]],
        "a rule added": [[*tool, "-I", "MESHNET_INBOUND", "1", "-p", "tcp", "-j", "RETURN"]],
        "a jump doubled": [[*tool, "-A", hook, *entry]],
        "a jump without comment": [[*tool, "-A", hook, "-j", chain]],
        "a chain flushed": [[*tool, "-F", "MESHNET_INBOUND"]],
        "a chain of ours that nobody knows": [[*tool, "-N", "MESHNET_OLD"], [*tool, "-A", "MESHNET_OLD", "-j", chain]],
        "a foreign chain leads to ours": [[*tool, "-N", "STRANGER"], [*tool, "-A", "STRANGER", "-j", chain]],
    } | at_routing(family)


TAMPERINGS = [(backend, what) for backend in ("iptables-nft", "nftables") for what in tampering(backend, 4, "tproxy")]


@pytest.mark.parametrize("families", ["4", "6", "both"])
@pytest.mark.parametrize("mode", ["redirect", "tproxy"])
def test_apply_reapply_replace_remove(namespace: Namespace, backend: str, mode: str, families: str) -> None:
    foreign.settle(namespace, backend)
    before = snapshot(namespace)
    first = pod_spec(mode, families)
    assert not apply(namespace, first, backend).changes.empty
    applied = snapshot(namespace)
    assert applied != before
    for tool in before:
        if tool.endswith(("nft", "legacy")):
            assert foreign_lines(applied[tool]) == foreign_lines(before[tool]), tool
        elif tool != "nft tables":
            assert set(before[tool].splitlines()) <= set(applied[tool].splitlines())

    again = apply(namespace, first, backend)
    assert again.changes.empty and snapshot(namespace) == applied

    other = pod_spec("tproxy" if mode == "redirect" else "redirect", families, more=features(families))
    assert not apply(namespace, other, backend).changes.empty
    assert changes(namespace, other, backend).empty
    apply(namespace, first, backend)
    assert snapshot(namespace) == applied, "back to the first spec, without a trace of the second"

    remove(namespace, backend)
    assert snapshot(namespace) == before
    assert remove(namespace, backend).changes.empty


@pytest.mark.parametrize("mode", ["redirect", "tproxy"])
def test_remove_leaves_an_untouched_namespace(namespace: Namespace, backend: str, mode: str) -> None:
    before = snapshot(namespace)
    apply(namespace, pod_spec(mode, more=features()), backend)
    remove(namespace)
    assert snapshot(namespace) == before


@pytest.mark.parametrize("mode", ["redirect", "tproxy"])
def test_remove_leaves_tables_that_others_have_in_part(namespace: Namespace, backend: str, mode: str) -> None:
    """One rule of somebody else's in nat: no other table and no other base chain may be there afterwards."""
    foreign.restore(namespace, backend, 4, "*nat\n-A POSTROUTING -o eth9 -j MASQUERADE\nCOMMIT\n")
    before = snapshot(namespace)
    apply(namespace, pod_spec(mode), backend)
    remove(namespace)
    assert snapshot(namespace) == before


@pytest.mark.parametrize("mode", ["redirect", "tproxy"])
def test_repair(namespace: Namespace, backend: str, mode: str) -> None:
    """Everything that somebody may do to our rules is seen by diff and put right by apply, and nothing else is."""
    wanted = pod_spec(mode, more=TWO_INTERFACES)
    apply(namespace, wanted, backend)
    applied = snapshot(namespace)
    for family in (4, 6):
        for what, commands in tampering(backend, family, mode).items():
            for command in commands:
                run(namespace, *command)
            assert not changes(namespace, wanted, backend).empty, f"{what}, IPv{family}: not seen"
            apply(namespace, wanted, backend)
            if what == "a foreign chain leads to ours":  # its jump goes with ours, the chain is theirs
                table = "nat" if mode == "redirect" else "mangle"
                run(namespace, foreign.tool(backend, family), "-t", table, "-X", "STRANGER")
            assert snapshot(namespace) == applied, f"{what}, IPv{family}: not repaired"
            assert changes(namespace, wanted, backend).empty


@pytest.mark.parametrize(("backend", "what"), TAMPERINGS)
def test_remove_what_was_tampered_with(namespace: Namespace, backend: str, what: str) -> None:
    before = snapshot(namespace)
    apply(namespace, pod_spec("tproxy", more=TWO_INTERFACES), backend)
    for family in (4, 6):
        for command in tampering(backend, family, "tproxy").get(what, ()):
            run(namespace, *command)
    remove(namespace)
    if what == "a foreign chain leads to ours":
        for tool in ("iptables-nft", "ip6tables-nft"):
            run(namespace, tool, "-t", "mangle", "-X", "STRANGER")
            run(namespace, "nft", "delete", "table", "ip6" if tool.startswith("ip6") else "ip", "mangle")
    assert snapshot(namespace) == before


def test_another_table_number_takes_the_address_along(namespace: Namespace) -> None:
    """The route that says that ::6 on lo is ours moves to the new table; without it remove would leave ::6 behind."""
    before = snapshot(namespace)
    apply(namespace, pod_spec("tproxy"), "iptables-nft")
    moved = pod_spec("tproxy", more="routing: {table: 200}")
    apply(namespace, moved, "iptables-nft")
    assert changes(namespace, moved, "iptables-nft").empty
    assert "table 133" not in snapshot(namespace)["ip -6 route show table all"]
    remove(namespace)
    assert snapshot(namespace) == before


def test_an_address_that_was_there_stays(namespace: Namespace) -> None:
    run(namespace, "ip", "addr", "add", "::6/128", "dev", "lo", "nodad")
    before = snapshot(namespace)
    wanted = pod_spec("tproxy")
    apply(namespace, wanted, "iptables-nft")
    assert changes(namespace, wanted, "iptables-nft").empty
    remove(namespace)
    assert snapshot(namespace) == before


def test_another_backend_takes_over(namespace: Namespace) -> None:
    """Both variants in force at once would leave the word to the hook registered last."""
    before = snapshot(namespace)
    wanted = pod_spec("tproxy")
    apply(namespace, wanted, "iptables-nft")
    receipt = apply(namespace, wanted, "iptables-legacy")
    assert any("iptables-nft" in notice for notice in receipt.notices)
    seen = snapshot(namespace)
    assert "MESHNET" not in seen["iptables-nft"] and "MESHNET_PRE" in seen["iptables-legacy"]
    assert "109" in seen["ip rule show"]
    apply(namespace, wanted, "iptables-nft")
    seen = snapshot(namespace)
    assert "MESHNET" not in seen["iptables-legacy"] and "MESHNET_PRE" in seen["iptables-nft"]
    apply(namespace, wanted, "iptables-legacy")
    remove(namespace)
    assert snapshot(namespace) == before


def test_auto_looks_without_making_tables(namespace: Namespace) -> None:
    changes(namespace, spec(), "auto")
    with namespace.entered():
        for names in ("ip_tables_names", "ip6_tables_names"):
            with open(f"/proc/thread-self/net/{names}") as file:
                assert file.read() == ""
    assert run(namespace, "nft", "list", "tables") == ""


def test_auto_goes_where_rules_are(namespace: Namespace) -> None:
    foreign.restore(namespace, "iptables-legacy", 4, "*nat\n-A POSTROUTING -o eth9 -j MASQUERADE\nCOMMIT\n")
    with Session(where(namespace.where.text)) as session:
        assert session.backend == "iptables-legacy" and "foreign rules" in session.reason


def test_two_at_once_leave_one_set(namespace: Namespace, backend: str) -> None:
    """Two processes apply at the same moment: one after the other, and the second finds nothing to do."""
    wanted = pod_spec("tproxy")
    spawn = multiprocessing.get_context("fork")
    start, answers = spawn.Barrier(2), spawn.Queue()

    def work() -> None:
        start.wait(30)
        answers.put(apply(namespace, wanted, backend).changes.empty)

    children = [spawn.Process(target=work) for _ in range(2)]
    for child in children:
        child.start()
    found = sorted(answers.get(timeout=60) for _ in children)
    for child in children:
        child.join(60)
        assert child.exitcode == 0
    assert found == [False, True]
    assert changes(namespace, wanted, backend).empty
    assert snapshot(namespace)["ip rule show"].count("0x539/0xfff") == 1
