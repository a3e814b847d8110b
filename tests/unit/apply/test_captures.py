from __future__ import annotations

import pytest

from meshnet.apply.captures import _undone, carried, lost, stale, udp_ports, without_captures
from meshnet.kernel.conntrack import TCP, UDP, Entry
from meshnet.model.plan import ChainText, EntryText, Plan, TableText
from meshnet.render.plan import render
from tests.unit.compile.compiling import program

BACKENDS = ("iptables", "nftables")
TRANSLATED = 0x20
TIME_WAIT = 7


def entry(protocol=UDP, port=53, answered_from=53, *, translated=False, mark=0, state=3):
    return Entry(4, protocol, port, answered_from, TRANSLATED if translated else 0, mark, 0, state, b"", b"")


@pytest.fixture(params=BACKENDS)
def backend(request):
    return request.param


def plan(text, backend):
    return render(program(text), backend)


def test_where_connections_were_led(backend):
    found = carried(plan("inbound: {mode: redirect, port: 15006-15009}\ndns: {capture: all}\n", backend))
    assert found.ports == {15001, 15006, 15007, 15008, 15009, 15053}
    assert found.marks == {(0x539, 0xFFF)}
    assert carried(plan("inbound: {mode: tproxy, originalSource: false}\n", backend)).marks == frozenset()


def test_which_connections_were(backend):
    found = carried(plan("inbound: {mode: redirect}\n", backend))
    assert found.holds(entry(TCP, 80, 15006, translated=True))
    assert found.holds(entry(TCP, 80, 80, mark=0x7539))
    assert not found.holds(entry(TCP, 80, 80))
    assert not found.holds(entry(TCP, 80, 8080, translated=True)), "somebody else's translation"
    assert not found.holds(entry(TCP, 80, 80, mark=0x53A))


def test_whose_answers_are_led_back(backend):
    found = carried(plan("inbound: {mode: redirect}\n", backend))
    assert found.leads_back(entry(TCP, 80, 80, mark=0x7539))
    assert not found.leads_back(entry(TCP, 80, 15006, translated=True)), "its answers need no mark"


SOURCE = "inbound: {mode: redirect}\n"


def test_connections_that_other_rules_do_not_lead_back(backend):
    """Those of the old mark that are open, and neither somebody else's nor what is merely translated."""
    seen = (
        entry(TCP, 80, 80, mark=0x539),
        entry(TCP, 80, 80, mark=0x539, state=TIME_WAIT),
        entry(UDP, 80, 80, mark=0x539),
        entry(TCP, 80, 80),
        entry(TCP, 80, 15006, translated=True),
    )
    held = (Plan(), plan(SOURCE, backend))
    for text in ("inbound: {originalSource: false}\n", "marks: {inbound: 0x53b}\n"):
        assert lost(held, plan(text, backend), lambda: seen) == 1


@pytest.mark.parametrize("then", [SOURCE, "inbound: {mode: tproxy, port: 16006}\n"])
def test_conntrack_is_not_asked_where_every_mark_stays(backend, then):
    def never():
        raise AssertionError("asked")

    assert lost((plan(SOURCE, backend),), plan(then, backend), never) == 0
    assert lost((plan("inbound: {originalSource: false}\n", backend), Plan()), plan(then, backend), never) == 0


def test_only_dns_captures_udp(backend):
    assert udp_ports(plan("", backend)) == frozenset()
    assert udp_ports(plan("dns: {capture: all, port: 5300}\n", backend)) == {5300}
    assert udp_ports(plan('dns: {capture: resolvers, resolvers: [10.0.0.1, "fd00::1"]}\n', backend)) == {15053}


def test_what_istio_left_captures_udp_too():
    """Its rules bear no comment, and those of earlier releases stand in nat's own OUTPUT."""
    entry = EntryText("OUTPUT", "-p udp -m udp --dport 53 -j REDIRECT --to-ports 15053", 1)
    chain = ChainText("ISTIO_OUTPUT_DNS", ("-p udp -m udp --dport 53 -j REDIRECT --to-ports 15054",))
    assert udp_ports(Plan((TableText(4, "nat", (chain,), (entry,)),))) == {15053, 15054}


NONE: frozenset[int] = frozenset()
OLD, NEW = frozenset({15053}), frozenset({15054})


@pytest.mark.parametrize(
    ("remembered", "before", "after", "expected"),
    [
        (entry(), NONE, NEW, True),
        (entry(), OLD, OLD, True),
        (entry(), OLD, NONE, False),
        (entry(answered_from=15053, translated=True), OLD, NEW, True),
        (entry(answered_from=15053, translated=True), OLD, OLD, False),
        (entry(answered_from=15053, translated=True), OLD, NONE, True),
        (entry(answered_from=5353, translated=True), OLD, NONE, False),
        (entry(port=123), NONE, NEW, False),
        (entry(TCP), NONE, NEW, False),
    ],
)
def test_which_queries_are_stale(remembered, before, after, expected):
    assert stale(remembered, before, after) is expected


@pytest.mark.parametrize("mode", ["redirect", "tproxy"])
@pytest.mark.parametrize("profile", ["meshnet", "istio"])
def test_what_is_left_captures_nothing_and_carries_on(backend, mode, profile):
    source = "originalSource: false" if (profile, mode) == ("istio", "redirect") else "originalSource: true"
    full = plan(f"profile: {profile}\ninbound: {{mode: {mode}, {source}}}\nmarks: {{mask: 0xffffffff}}\n", backend)
    left = without_captures(full)
    rules = list(left.rules())
    assert not [rule for rule in rules if "REDIRECT --to" in rule or "redirect to" in rule or "tproxy to" in rule]
    assert not [rule for rule in rules if "no-listener" in rule], "nobody listens for what isn't captured any more"
    assert left.routing == full.routing
    gone = set(full.rules()) - set(rules)
    assert gone and all("capture" in rule or "tproxy" in rule or "redirect" in rule for rule in gone)
    assert carried(left) == carried(full), "who drains again knows the same"
    assert without_captures(left) == left


@pytest.mark.parametrize(
    ("rule", "left"),
    [
        (
            '-p tcp -m comment --comment "meshnet:nat.x" -j REDIRECT --to-ports 15006-15009',
            '-p tcp -m comment --comment "meshnet:drained.15006-15009" -j RETURN',
        ),
        (
            'meta l4proto tcp counter redirect to :15001 comment "meshnet:nat.x"',
            'meta l4proto tcp counter return comment "meshnet:drained.15001-15001"',
        ),
        ('-p tcp -m comment --comment "meshnet:x" -j TPROXY --on-port 1 --on-ip :: --tproxy-mark 0x1', ""),
        ('counter tproxy to :1 meta mark set 0x1 accept comment "meshnet:x"', ""),
        ('counter drop comment "meshnet:x.no-listener"', ""),
        ('counter drop comment "meshnet:x"', 'counter drop comment "meshnet:x"'),
        ("-p tcp -j REDIRECT --to-ports 1", "-p tcp -j REDIRECT --to-ports 1"),
    ],
)
def test_what_is_left_of_a_rule(rule, left):
    assert _undone(rule) == left
