"""What each action does to a packet and to the walk; that a kernel does the same is tests/netns/test_ruleset.py."""

from __future__ import annotations

import pytest

from meshnet.model.host import Listener
from tests.unit.simulate.pods import POD, POD6, host, inward, number, outward, path, table, walk


def mangled(*rules, flow=None, on=None):
    return walk(table("mangle", *(f"-A PREROUTING {rule}" for rule in rules)), flow or inward(), on)


@pytest.mark.parametrize(
    ("target", "end"),
    [
        ("DROP", "dropped"),
        ("ACCEPT", "delivered"),
        ("RETURN", "delivered"),
        ("NFQUEUE --queue-num 1", "undecided"),
        ("LOG", "delivered"),
    ],
)
def test_how_it_ends(target, end):
    assert mangled(f"-j {target}").end == end


def test_a_reject_is_told_apart_from_a_drop():
    assert walk(table("filter", "-A INPUT -p tcp -j REJECT --reject-with tcp-reset"), inward()).end == "rejected"


def test_what_goes_on_is_a_hop_all_the_same():
    assert path(mangled("-j LOG", "-p tcp", "-j ACCEPT", "-j DROP")) == [f"mangle PREROUTING {n}" for n in (1, 2, 3)]


@pytest.mark.parametrize(
    ("target", "before", "after"),
    [
        ("--set-mark 0x10", 0xF0F, 0x10),
        ("--set-mark 0x10/0x1f", 0xF0F, 0xF10),
        ("--set-xmark 0x10/0xff", 0xF0F, 0xF10),
        ("--and-mark 0xf", 0xF0F, 0xF),
        ("--or-mark 0x10", 0xF0F, 0xF1F),
        ("--xor-mark 0xff", 0xF0F, 0xFF0),
    ],
)
def test_marks(target, before, after):
    assert mangled(f"-j MARK {target}", flow=inward(mark=before)).hops[0].mark == after


def test_a_mark_goes_to_the_connection_and_back_under_both_masks():
    found = mangled(
        "-j CONNMARK --save-mark --nfmask 0xff --ctmask 0xff",
        "-j MARK --set-mark 0",
        "-j CONNMARK --restore-mark --nfmask 0xf --ctmask 0xf",
        "-m connmark --mark 0x39 -j DROP",
        flow=inward(mark=0x539),
    )
    assert (found.end, found.hops[-1].mark) == ("dropped", 9)


def test_a_connection_s_mark_is_put_without_touching_the_packet_s():
    found = mangled("-j CONNMARK --set-xmark 0x5/0xf", "-m connmark --mark 5 -j DROP", flow=inward(mark=1))
    assert (found.end, found.hops[-1].mark) == ("dropped", 1)


def test_what_isn_t_tracked_has_no_connection():
    rules = table("raw", "-A PREROUTING -j CT --notrack") + table(
        "mangle", "-A PREROUTING -m conntrack --ctstate UNTRACKED -j DROP"
    )
    assert walk(rules, inward()).end == "dropped"
    rules = table("raw", "-A PREROUTING -j NOTRACK") + table("nat", "-A PREROUTING -p tcp -j REDIRECT --to-ports 1")
    assert walk(rules, inward()).port == 80


TPROXY = "-p tcp -j TPROXY --on-port 15006 --on-ip {} --tproxy-mark 0x539"


@pytest.mark.parametrize(("to", "any_address"), [(POD, "0.0.0.0"), (POD6, "::")])
def test_tproxy_gives_the_packet_to_a_socket_and_leaves_its_ends(to, any_address):
    found = mangled(TPROXY.format(any_address), flow=inward(to, source="10.1.0.1" if to == POD else "fd01::1"))
    assert (found.end, found.captured, found.to, found.mark) == ("delivered", True, number(to), 0x539)


def test_tproxy_without_a_listener_drops():
    deaf = host(assume=False, listeners=(Listener("app", "tcp", 80),))
    assert mangled(TPROXY.format("0.0.0.0"), on=deaf).end == "dropped"
    plain = host(assume=False, listeners=(Listener("proxy", "tcp", 15006),))
    assert mangled(TPROXY.format("0.0.0.0"), on=plain).end in ("dropped", "rejected", "delivered")


def test_an_action_behind_a_doubtful_condition_is_undecided_but_for_what_changes_nothing():
    assert mangled("-m limit --limit 1/min -j DROP").end == "undecided"
    assert mangled("-m limit --limit 1/min -j LOG").end == "delivered"
    assert mangled("-m limit --limit 1/min -p udp -j DROP").end == "delivered"


def test_a_target_of_nat_is_done_once_for_a_connection():
    rules = table("nat", "-A OUTPUT -p tcp -j REDIRECT --to-ports 1", "-A OUTPUT -p tcp -j REDIRECT --to-ports 2")
    assert (walk(rules, outward()).port, path(walk(rules, outward()))) == (1, ["nat OUTPUT 1"])
