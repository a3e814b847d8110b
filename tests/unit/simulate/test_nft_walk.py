"""What nftables does and iptables doesn't: base chains at any place, and words that differ where nobody expects it."""

from __future__ import annotations

import pytest

from meshnet.model.errors import RulesError
from meshnet.model.host import Listener
from meshnet.model.ruleset import together
from meshnet.model.value import replace
from meshnet.parse import nft_ruleset, ruleset
from meshnet.simulate.compare import Side, compare
from meshnet.simulate.reach import unreached
from meshnet.simulate.walk import Pod
from tests.unit.simulate.pods import host, inward, outward, path, table

OWNER = "*raw\n-A OUTPUT -m owner --uid-owner 0 -j ACCEPT\nCOMMIT\n"


def tables(*chains: str) -> str:
    return "\n".join(("table inet t {", *chains, "}"))


def chain(name: str, head: str, *rules: str) -> str:
    return "\n".join((f"chain {name} {{", *([f"type {head}; policy accept;"] if head else []), *rules, "}"))


def pod(*chains: str, on=None) -> Pod:
    return Pod(nft_ruleset.read(tables(*chains)), on or host())


def test_the_order_is_that_of_priorities_and_accept_ends_a_base_chain_alone() -> None:
    made = pod(
        chain("late", "filter hook output priority 0", "meta mark 0x7 drop"),
        chain("early", "filter hook output priority -300", "meta mark set 0x7 "),
        chain("middle", "route hook output priority -150", "accept", "drop"),
    )
    trace = made.walk(outward())
    assert path(trace) == ["inet t early 1", "inet t middle 1", "inet t late 1"]
    assert trace.reason == "is dropped by rule 1 of inet t late"


@pytest.mark.parametrize(("kind", "end"), [("route", "delivered"), ("filter", "left")])
def test_a_mark_leads_elsewhere_behind_a_chain_of_type_route_alone(kind: str, end: str) -> None:
    trace = pod(chain("a", f"{kind} hook output priority -150", "meta mark set 0x539")).walk(outward())
    assert trace.end == end


def test_the_second_chain_of_nat_is_asked_until_one_translates() -> None:
    first = chain("a", "nat hook output priority -100", "udp dport 53 redirect to :1", "accept")
    second = chain("b", "nat hook output priority -90", "meta l4proto tcp redirect to :2", "")
    third = chain("c", "nat hook output priority -80", "redirect to :3")
    assert path(pod(third, second, first).walk(outward()))[:3] == ["inet t a 2", "inet t b 1"]
    assert pod(third, second, first).walk(outward()).port == 2


@pytest.mark.parametrize(("priority", "end"), [(0, "dropped"), (-150, "delivered")])
def test_a_chain_behind_translation_sees_the_new_port(priority: int, end: str) -> None:
    captured = chain("a", "nat hook prerouting priority -100", "tcp dport 80 redirect to :15006")
    asking = chain("b", f"filter hook prerouting priority {priority}", "tcp dport 15006 drop")
    assert pod(captured, asking).walk(inward()).end == end


def test_tproxy_without_a_listener_goes_on() -> None:
    rules = chain("a", "filter hook prerouting priority -150", "meta l4proto tcp tproxy to :15006 accept", "drop")
    alone = replace(host(), assume=False)
    assert pod(rules, on=alone).walk(inward()).reason == "is dropped by rule 2 of inet t a"
    listening = replace(alone, listeners=(Listener("sidecar", "tcp", 15006, transparent=True),))
    assert pod(rules, on=listening).walk(inward()).captured


def test_what_no_process_sends_has_no_owner() -> None:
    rules = chain("a", "filter hook prerouting priority -150", "meta skuid != 5 drop", "meta skgid 0 drop")
    assert pod(rules).walk(inward()).end == "delivered"
    out = chain("a", "filter hook output priority 0", "meta skuid != 5 drop")
    assert pod(out).walk(outward(uid=5)).end == "left" and pod(out).walk(outward(uid=6)).end == "dropped"


def test_a_zone_has_what_was_let_go_tracked() -> None:
    let_go = chain("a", "filter hook prerouting priority -300", "notrack", "ct zone set 1")
    state = chain("b", "filter hook input priority 0", "ct state new drop")
    assert pod(let_go, state).walk(inward()).end == "dropped"
    theirs = table("raw", "-A PREROUTING -j NOTRACK", "-A PREROUTING -j CT --zone 1")
    theirs += table("filter", "-A INPUT -m conntrack --ctstate NEW -j DROP")
    assert Pod([ruleset.read(theirs, 4)], host()).walk(inward()).end == "delivered"


def test_what_isn_t_known_is_undecided() -> None:
    rules = chain("a", "filter hook output priority 0", "tcp dport 80 limit rate 5/second drop", "accept")
    assert pod(rules).walk(outward(port=81)).end == "left"
    assert pod(rules).walk(outward()).disposition == "undecided"
    assert pod(chain("a", "filter hook output priority 0", "ct helper set x")).walk(outward()).end == "undecided"


def test_beside_iptables_tables() -> None:
    """In order where there is one; refused where no text tells."""
    ours = nft_ruleset.read(tables(chain("a", "route hook output priority -150", "drop")))
    both = together((ruleset.read(OWNER, 4), *ours))
    assert [held.family for held in both] == [4, 6]
    assert path(Pod(both, host()).walk(outward())) == ["raw OUTPUT 1", "inet t a 1"]
    tied = together((ruleset.read(table("mangle", "-A OUTPUT -j ACCEPT"), 4), *ours))
    with pytest.raises(RulesError, match="no text tells which comes first"):
        Pod(tied, host())
    with pytest.raises(RulesError, match="conntrack"):
        pod(chain("a", "filter hook output priority -200", "drop"))


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("ip saddr { 10.0.0.0/8, 192.168.0.0/16 } drop", ["-s 10.0.0.0/8 -j DROP", "-s 192.168.0.0/16 -j DROP"]),
        ("iifname { eth0, lo } drop", ["-i eth0 -j DROP", "-i lo -j DROP"]),
        ("tcp dport { 80, 443 } drop", ["-p tcp -m multiport --dports 80,443 -j DROP"]),
        ("meta mark { 0x1, 0x2 } drop", ["-m mark --mark 1 -j DROP", "-m mark --mark 2 -j DROP"]),
        ("ct state != new drop", ["-m conntrack ! --ctstate NEW -j DROP"]),
        ("fib daddr type local drop", ["-m addrtype --dst-type LOCAL -j DROP"]),
    ],
)
def test_sets_are_what_several_rules_are(ours: str, theirs: list[str]) -> None:
    held = nft_ruleset.read(tables(chain("a", "filter hook prerouting priority -150", ours)))[0]
    rules = [f"-A PREROUTING {rule}" for rule in theirs]
    found = compare(Side(ruleset.read(table("mangle", *rules), 4), host()), Side(held, host()))
    assert found.difference is None
    fewer = compare(Side(ruleset.read(table("mangle", *rules[:-1]), 4), host()), Side(held, host()))
    assert fewer.difference is not None


def test_out_of_reach_in_a_table_with_several_base_chains() -> None:
    """An end in one base chain keeps nothing from another; a chain that a verdict map names may be reached."""
    held = nft_ruleset.read(
        tables(
            chain("a", "filter hook output priority -150", "accept"),
            chain("b", "nat hook output priority -100", "meta l4proto tcp accept", "tcp dport 80 drop", "jump c"),
            chain("c", "", "drop"),
            chain("d", "filter hook input priority 0", "tcp dport vmap { 80 : jump e }"),
            chain("e", "", "drop"),
            chain("f", "", "drop"),
        )
    )[0]
    found = {f"{item.place.chain} {item.place.number}": item for item in unreached(held, [host()])}
    assert set(found) == {"b 2", "e 1", "f 1"}
    assert [taker.number for taker in found["b 2"].takers] == [1]
    assert found["e 1"].doubt and found["f 1"].loose


def test_what_finds_no_listener_is_reached() -> None:
    rules = chain(
        "a", "filter hook prerouting priority -150", "meta l4proto tcp tproxy to :1 accept", "meta l4proto tcp drop"
    )
    held = nft_ruleset.read(tables(rules))[0]
    assert unreached(held, [host()]) == ()
