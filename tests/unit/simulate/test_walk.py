"""What the kernel does with one packet."""

from __future__ import annotations

import pytest

from meshnet.model.cidr import Cidr, address_text, read_address, read_cidr
from meshnet.model.errors import RulesError
from meshnet.model.host import AddressSet, Listener, Lookup, Member, Route
from meshnet.model.value import replace
from meshnet.simulate.routing import Routing
from tests.unit.simulate.pods import (
    CLIENT,
    CLIENT6,
    POD,
    POD6,
    REMOTE,
    REMOTE6,
    host,
    inward,
    link,
    number,
    outward,
    path,
    pod,
    table,
    walk,
)

REDIRECT = table(
    "nat", "-A PREROUTING -p tcp -j REDIRECT --to-ports 15006", "-A OUTPUT -p tcp -j REDIRECT --to-ports 15001"
)
TPROXY = table("mangle", "-A PREROUTING -p tcp -j TPROXY --on-port 15006 --tproxy-mark 0x539")


def test_without_rules_everything_is_direct() -> None:
    assert walk("", inward()).end == "delivered"
    assert walk("", outward()).link == "eth0"
    assert {walk("", flow).disposition for flow in (inward(), outward())} == {"direct"}


@pytest.mark.parametrize(("to", "source", "family"), [(POD, CLIENT, 4), (POD6, CLIENT6, 6)])
def test_redirect_inbound_takes_the_link_s_address(to, source, family) -> None:
    trace = walk(REDIRECT, inward(to, source=source))
    assert (trace.disposition, trace.port, address_text(family, trace.to)) == ("inbound-proxy", 15006, to)
    assert path(trace) == ["nat PREROUTING 1"]


@pytest.mark.parametrize(("to", "family", "expected"), [(REMOTE, 4, "127.0.0.1"), (REMOTE6, 6, "::1")])
def test_redirect_outbound_goes_to_loopback(to, family, expected) -> None:
    trace = walk(REDIRECT, outward(to))
    assert (trace.disposition, trace.port, address_text(family, trace.to)) == ("outbound-proxy", 15001, expected)
    assert [hop.hook for hop in trace.hops if hop.table == "nat"] == ["OUTPUT"], "nat isn't asked again on lo"


def test_redirect_by_a_link_without_an_address_drops() -> None:
    assert walk(REDIRECT, inward(to=POD, interface="tap0"), host(link(), link("tap0", "fd02::1/64"))).end == "dropped"


def test_tproxy_keeps_the_destination_and_marks() -> None:
    trace = walk(TPROXY, inward())
    assert (trace.disposition, trace.port, trace.mark, trace.to) == ("inbound-proxy", 15006, 0x539, number(POD))


def test_tproxy_to_nobody_and_to_an_ordinary_socket_drops() -> None:
    for listeners in ((), (Listener("sidecar", "tcp", 15006),)):
        assert walk(TPROXY, inward(), host(listeners=listeners, assume=False)).end == "dropped"
    transparent = host(listeners=(Listener("sidecar", "tcp", 15006, transparent=True),), assume=False)
    assert walk(TPROXY, inward(), transparent).socket == "sidecar"


def test_tproxy_drops_what_belongs_to_an_open_connection() -> None:
    trace = walk(TPROXY, inward(state="ESTABLISHED"))
    assert (trace.end, "not transparent" in trace.hops[-1].verdict) == ("dropped", True)


def test_tproxy_of_what_is_for_others_needs_the_policy_route() -> None:
    flow = inward(REMOTE)
    assert walk(TPROXY, flow).disposition == "inbound-proxy"
    trace = walk(TPROXY, flow, host(policy=False))
    assert (trace.end, trace.reason) == ("dropped", "is dropped: it isn't for the pod, and the pod doesn't forward")


def test_tproxy_without_a_way_to_the_socket_is_never_forwarded() -> None:
    trace = walk(TPROXY.replace("0x539", "0x1"), inward(REMOTE), host(forwards=(4,)))
    assert trace.end == "dropped" and "no local route" in trace.reason


def test_types_of_ipv6_addresses_are_asked_for_all_at_once() -> None:
    """xt_addrtype.c: of what is listed each has to hold, and an own address is a unicast address as well."""
    for types, expected in (("LOCAL,MULTICAST", False), ("LOCAL", True), ("UNICAST", True), ("UNSPEC", False)):
        rules = table("filter", f"-A INPUT -m addrtype --dst-type {types} -j DROP")
        trace = walk(rules, inward(POD6, source=CLIENT6))
        assert (trace.end == "dropped") is expected, types


def test_src_valid_mark_makes_a_marked_packet_a_martian() -> None:
    trace = walk(TPROXY, inward(), host(link(src_valid_mark=True)))
    assert trace.end == "dropped" and "martian source" in trace.reason


def test_the_mark_leads_back_to_lo_and_is_kept() -> None:
    rules = table("mangle", "-A OUTPUT -j MARK --set-mark 0x539", "-A PREROUTING -i lo -m mark --mark 0x539 -j ACCEPT")
    trace = walk(rules, outward())
    assert (trace.end, trace.mark) == ("delivered", 0x539)
    assert path(trace) == ["mangle OUTPUT 1", "mangle PREROUTING 1"]


def test_output_rules_see_the_first_route_s_interface() -> None:
    rules = table("mangle", "-A OUTPUT -j MARK --set-mark 0x539") + table(
        "nat", "-A OUTPUT -o lo -p tcp -j REDIRECT --to-ports 1", "-A OUTPUT -o eth0 -p tcp -j REDIRECT --to-ports 2"
    )
    assert path(walk(rules, outward())) == ["mangle OUTPUT 1", "nat OUTPUT 2"]


def test_postrouting_sees_the_last_one() -> None:
    rules = table("mangle", "-A OUTPUT -j MARK --set-mark 0x539", "-A POSTROUTING -o lo", "-A POSTROUTING -o eth0")
    assert path(walk(rules, outward())) == ["mangle OUTPUT 1", "mangle POSTROUTING 1"]


def test_the_first_look_up_is_made_with_the_sender_s_mark() -> None:
    assert walk("", outward(mark=0x539)).end == "delivered"


def test_loopback_leaves_only_with_route_localnet() -> None:
    flow = outward(REMOTE, source="127.0.0.1")
    assert walk("", flow).end == "unsent"
    assert walk("", flow, host(link(route_localnet=True))).link == "eth0"
    marked = table("mangle", "-A OUTPUT -j MARK --set-mark 0x539")
    assert walk(marked, flow).end == "unsent", "the first route is looked up before mangle can mark anything"


def test_loopback_comes_in_only_with_route_localnet() -> None:
    for flow in (inward("127.0.0.1"), inward(source="127.0.0.1")):
        assert walk("", flow).reason.startswith("is dropped: martian")
    assert walk("", inward("127.0.0.1"), host(link(route_localnet=True))).end == "delivered"
    assert walk("", inward("::1", source=CLIENT6)).end == "dropped"


def test_ipv6_loopback_can_t_be_reached_from_a_link_by_translation_either() -> None:
    rules = table("nat", "-A PREROUTING -p tcp -j DNAT --to-destination [::1]:8080")
    assert walk(rules, inward(POD6, source=CLIENT6)).reason == "is dropped: there is no route to ::1 from a link"


def test_reverse_path_filter() -> None:
    links = (link(), link("eth1", "10.2.0.2/24"))
    flow = inward(source="10.1.0.77", interface="eth1")
    assert walk("", flow, host(*links)).end == "delivered"
    strict = (links[0], replace(links[1], rp_filter=1))
    assert "rp_filter=1" in walk("", flow, host(*strict)).reason
    loose = (links[0], replace(links[1], rp_filter=2))
    assert walk("", flow, host(*loose)).end == "delivered"


def test_an_own_address_from_outside_is_a_martian() -> None:
    assert walk("", inward(source=POD)).reason.startswith("is dropped: martian source")


def test_forwarding() -> None:
    links = (link(), link("vm0", "10.3.0.1/24"))
    flow = inward(REMOTE, source="10.3.0.2", interface="vm0")
    assert walk("", flow, host(*links)).end == "dropped"
    rules = table("filter", "-A FORWARD -i vm0 -o eth0 -j ACCEPT", ":FORWARD DROP [0:0]", "-A FORWARD -p udp -j ACCEPT")
    trace = walk(table("filter", "-A FORWARD -i vm0 -o eth0"), flow, host(*links, forwards=(4,)))
    assert (trace.end, trace.link, path(trace)) == ("forwarded", "eth0", ["filter FORWARD 1"])
    trace = walk(rules, flow, host(*links, forwards=(4,)))
    assert (trace.end, trace.reason) == ("dropped", "is dropped by the policy of filter FORWARD")


OWNERS = [
    ("--uid-owner 1337", 1337, 5, True),
    ("--uid-owner 1337", 1, 5, False),
    ("! --uid-owner 1337", 1, 5, True),
    ("--uid-owner 100-200", 150, 5, True),
    ("--gid-owner 7", 0, 7, True),
    ("--gid-owner 8", 0, 7, False),
    ("--gid-owner 8 --suppl-groups", 0, 7, True),
    ("! --gid-owner 8 --suppl-groups", 0, 7, False),
    ("--uid-owner 0 ! --gid-owner 7", 0, 7, False),
    ("--socket-exists", 0, 0, True),
    ("! --socket-exists", 0, 0, False),
]


@pytest.mark.parametrize(("words", "uid", "gid", "fits"), OWNERS)
def test_owners(words, uid, gid, fits) -> None:
    trace = walk(table("filter", f"-A OUTPUT -m owner {words} -j DROP"), outward(uid=uid, gid=gid, groups=(8, 9)))
    assert (trace.end == "dropped") is fits


@pytest.mark.parametrize(
    ("words", "fits"),
    [("! --uid-owner 1337", True), ("--uid-owner 0", False), ("! --uid-owner 1 --gid-owner 0", False)],
)
def test_what_has_no_socket_fits_only_what_is_negated(words, fits) -> None:
    rules = table("mangle", f"-A POSTROUTING -m owner {words} -j DROP")
    links = (link(), link("vm0", "10.3.0.1/24"))
    flow = inward(REMOTE, source="10.3.0.2", interface="vm0")
    assert (walk(rules, flow, host(*links, forwards=(4,))).end == "dropped") is fits


STATES = [
    ("--ctstate NEW", "NEW", True),
    ("--ctstate NEW", "ESTABLISHED", False),
    ("--ctstate RELATED,ESTABLISHED", "RELATED", True),
    ("! --ctstate INVALID", "INVALID", False),
    ("--ctstate UNTRACKED", "UNTRACKED", True),
    ("--ctstate DNAT", "NEW", False),
    ("--ctstate NEW --ctdir REPLY", "NEW", False),
    ("--ctdir ORIGINAL", "ESTABLISHED", True),
    ("--ctdir ORIGINAL", "INVALID", False),
    ("--ctstate INVALID --ctdir REPLY", "INVALID", True),
]


@pytest.mark.parametrize(("words", "state", "fits"), STATES)
def test_states(words, state, fits) -> None:
    trace = walk(table("filter", f"-A INPUT -m conntrack {words} -j DROP"), inward(state=state))
    assert (trace.end == "dropped") is fits


def test_nat_is_for_new_connections_only() -> None:
    for state in ("ESTABLISHED", "INVALID", "UNTRACKED"):
        trace = walk(REDIRECT, inward(state=state))
        assert (trace.disposition, path(trace)) == ("direct", [])


def test_notrack_keeps_nat_away_and_the_first_ct_target_holds() -> None:
    raw = table("raw", "-A PREROUTING -j CT --notrack", "-A PREROUTING -j CT --zone 3")
    trace = walk(raw + REDIRECT, inward())
    assert (trace.disposition, trace.hops[1].verdict) == ("direct", "tracked already")


def test_gotos_returns_and_policies() -> None:
    rules = table(
        "filter",
        ":A - [0:0]",
        ":B - [0:0]",
        ":INPUT DROP [0:0]",
        "-A INPUT -j A",
        "-A INPUT -p tcp",
        "-A A -g B",
        "-A A -j ACCEPT",
        "-A B -j RETURN",
        "-A B -j ACCEPT",
    )
    trace = walk(rules, inward())
    assert path(trace) == ["filter INPUT 1", "filter A 1", "filter B 1", "filter INPUT 2"]
    assert trace.reason == "is dropped by the policy of filter INPUT"


def test_marks_and_connection_marks() -> None:
    rules = table(
        "mangle",
        "-A PREROUTING -j MARK --set-mark 0xf0",
        "-A PREROUTING -j MARK --or-mark 0x1",
        "-A PREROUTING -j MARK --and-mark 0xf1",
        "-A PREROUTING -j MARK --xor-mark 0xff",
        "-A PREROUTING -j CONNMARK --save-mark --mask 0xf",
        "-A PREROUTING -j MARK --set-xmark 0x0/0xffffffff",
        "-A PREROUTING -m connmark --mark 0xe -j CONNMARK --restore-mark",
    )
    assert [hop.mark for hop in walk(rules, inward()).hops if hop.rule] == [0xF0, 0xF1, 0xF1, 0xE, 0xE, 0, 0xE]


def test_dnat_elsewhere_is_a_capture() -> None:
    trace = walk(table("nat", "-A OUTPUT -p tcp -j DNAT --to-destination 198.51.100.1:8080"), outward())
    assert (trace.disposition, trace.end, trace.port, trace.link) == ("captured", "left", 8080, "eth0")
    assert address_text(4, trace.to) == "198.51.100.1"


def test_masquerade_and_snat() -> None:
    for target in ("MASQUERADE", f"SNAT --to-source {POD}"):
        trace = walk(table("nat", f"-A POSTROUTING -j {target}"), outward(source="127.0.0.1", to=POD))
        assert address_text(4, trace.source) == POD, "127.0.0.1 is of no use beyond the host (inet_select_addr)"


def test_masquerade_on_lo_takes_the_address_of_another_link() -> None:
    """IPv4 the first one, IPv6 the one that is most like the destination; both were seen in random packets."""
    links = (link(), link("eth1", "10.2.0.2/24", "fd02::2/64"))
    rules = table("mangle", "-A OUTPUT -j MARK --set-mark 0x539") + table("nat", "-A POSTROUTING -j MASQUERADE")
    assert address_text(4, walk(rules, outward("10.2.0.1"), host(*links)).source) == POD
    assert address_text(6, walk(rules, outward("fd02::1"), host(*links)).source) == "fd02::2"


def test_a_port_range_keeps_a_port_that_lies_in_it() -> None:
    rules = table("nat", "-A PREROUTING -p tcp -j REDIRECT --to-ports 80-90")
    assert walk(rules, inward(port=85)).port == 85
    assert walk(rules, inward(port=99)).port == 80


def test_sockets_and_address_types() -> None:
    rules = table("mangle", "-A PREROUTING -m socket -j DROP")
    assert walk(rules, inward()).end == "delivered"
    assert walk(rules, inward(state="ESTABLISHED")).end == "dropped"
    bound = host(listeners=(Listener("application", "tcp", 80, address=number(POD), family=4),))
    assert walk(rules, inward(), bound).end == "dropped"
    wild = host(listeners=(Listener("application", "tcp", 80),))
    assert walk(rules, inward(), wild).end == "delivered"
    assert walk(rules.replace("-m socket", "-m socket --nowildcard"), inward(), wild).end == "dropped"
    assert walk(rules.replace("-m socket", "-m socket --transparent"), inward(), bound).end == "delivered"
    local = table(
        "nat", "-A OUTPUT -m addrtype --dst-type LOCAL -j RETURN", "-A OUTPUT -p tcp -j REDIRECT --to-ports 1"
    )
    assert [walk(local, outward(to)).disposition for to in (POD, "127.0.0.9", REMOTE)] == [
        "direct",
        "direct",
        "captured",
    ]


@pytest.mark.parametrize(
    ("family", "kinds"),
    [
        (4, {8: "NEW", 13: "NEW", 0: "INVALID", 3: "INVALID", 80: "INVALID"}),
        (6, {128: "NEW", 129: "INVALID", 1: "INVALID", 135: "UNTRACKED", 143: "UNTRACKED"}),
    ],
)
def test_icmp_begins_with_a_question(family: int, kinds: dict[int, str]) -> None:
    to, source = (POD, CLIENT) if family == 4 else (POD6, CLIENT6)
    for kind, state in kinds.items():
        flow = inward(to, kind, source, transport="icmp")
        for asked in ("NEW", "INVALID", "UNTRACKED"):
            rules = table("filter", f"-A INPUT -m conntrack --ctstate {asked} -j DROP")
            assert (walk(rules, flow).end == "dropped") == (asked == state), (kind, asked)


@pytest.mark.parametrize(
    ("source", "to", "end"),
    [
        (CLIENT, "255.255.255.255", "delivered"),
        ("0.0.0.0", "255.255.255.255", "delivered"),
        (CLIENT, "224.0.0.1", "delivered"),
        ("0.0.0.0", "224.0.0.1", "delivered"),
        (CLIENT, "224.0.0.251", "dropped"),
        (POD, "224.0.0.1", "dropped"),
        (CLIENT, "0.0.0.0", "dropped"),
        ("0.0.0.0", POD, "dropped"),
        ("224.0.0.1", POD, "dropped"),
        ("0.1.2.3", POD, "delivered"),
        (CLIENT6, "ff02::1", "delivered"),
        (CLIENT6, "ff02::fb", "dropped"),
        ("ff02::1", POD6, "dropped"),
    ],
)
def test_groups_and_everybody(source: str, to: str, end: str) -> None:
    """Nothing of it is forwarded, as the default route would have it."""
    listens = Listener("udp", "udp", 53)
    on = host(forwards=(4, 6), assume=False, listeners=(listens,))
    assert walk("", inward(to, 53, source, transport="udp"), on).end == end


def test_a_group_is_taken_to_be_joined_where_nothing_is_known() -> None:
    assert walk("", inward("224.0.0.251", 5353, transport="udp"), host(forwards=(4,))).end == "delivered"


@pytest.mark.parametrize(
    ("to", "source"),
    [
        ("127.0.0.11", "127.0.0.1"),
        (POD, POD),
        (REMOTE, POD),
        ("::1", "::1"),
        (REMOTE6, POD6),
        ("fe80::9", "fe80::2"),
        ("fd99::1", POD6),
    ],
)
def test_the_source_that_the_kernel_chooses(to: str, source: str) -> None:
    family, destination = read_address(to)
    on = host(link("eth0", f"{POD}/24", "fe80::2/64", f"{POD6}/64"))
    assert Routing(on, family).source_of_call(destination, 0, 0) == number(source)


def test_sets() -> None:
    rules = table("filter", "-A OUTPUT -m set --match-set far dst,dst -j DROP")
    assert walk(rules, outward()).disposition == "undecided"
    members = (Member(read_cidr("203.0.113.0/24"), (80, 90), 6),)
    known = host(sets=(AddressSet("far", ("net", "port"), members),))
    assert walk(rules, outward(), known).end == "dropped"
    assert walk(rules, outward(port=91), known).end == "left"
    assert walk(rules, outward(to="198.51.100.1"), known).end == "left"


def test_what_has_no_ports_is_in_no_set_of_them() -> None:
    known = host(sets=(AddressSet("few", ("port",), (Member(ports=(0, 90)),)),))
    for no, ends in (("", ("dropped", "delivered")), ("! ", ("delivered", "dropped"))):
        rules = table("filter", f"-A INPUT -m set {no}--match-set few dst -j DROP")
        assert (walk(rules, inward(), known).end, walk(rules, inward(port=8, transport="icmp"), known).end) == ends


def test_what_isn_t_known_is_never_guessed() -> None:
    limited = table("filter", "-A INPUT -p udp -m limit --limit 1/s -j DROP", "-A INPUT -m limit --limit 1/s -j {}")
    trace = walk(limited.format("DROP"), inward())
    assert (trace.disposition, path(trace)) == ("undecided", ["filter INPUT 2"])
    assert "rule 2 of filter INPUT" in trace.reason
    assert walk(limited.format("LOG"), inward()).disposition == "direct", "either way it goes on"
    assert walk(table("filter", "-A INPUT -j NFQUEUE"), inward()).disposition == "undecided"
    assert walk(table("filter", "-A INPUT -m owner --gid-owner java -j DROP"), inward()).disposition == "undecided"


def test_rejected() -> None:
    assert (
        walk(table("filter", "-A INPUT -p tcp -j REJECT --reject-with tcp-reset"), inward()).disposition == "rejected"
    )


def test_policy_rules_ask_for_uids_blocks_and_nothing() -> None:
    extra = Route(read_cidr("0.0.0.0/0"), "eth1", 7)
    links = (link(), link("eth1", "10.2.0.2/24"))
    for lookup, leaves in (
        (Lookup(4, 50, 7, uids=(5, 9)), {5: "eth1", 4: "eth0"}),
        (Lookup(4, 50, 7, source=read_cidr(f"{POD}/32")), {5: "eth1"}),
        (Lookup(4, 50, 7, destination=read_cidr("198.51.100.0/24"), negated=True), {5: "eth1"}),
        (Lookup(4, 50, 0, kind="prohibit"), {5: ""}),
    ):
        on = replace(host(*links), routes=(*host().routes, extra), lookups=(lookup,))
        for uid, expected in leaves.items():
            assert walk("", outward(uid=uid), on).link == expected


def test_a_foreign_source_needs_a_transparent_socket() -> None:
    assert walk("", outward(POD, source=CLIENT)).end == "unsent"
    assert walk("", outward(POD, source=CLIENT, transparent=True)).end == "delivered"


def test_broadcasts_and_names_of_links() -> None:
    rules = table("filter", "-A INPUT -i eth+ -m addrtype --dst-type BROADCAST -j DROP")
    assert walk(rules, inward("10.1.0.255", transport="udp")).end == "dropped"


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        (
            ("-A INPUT -j NOWHERE",),
            "line 2: table filter: a rule of INPUT leads to NOWHERE, and there is no such chain",
        ),
        (
            (":A - [0:0]", ":B - [0:0]", "-A A -j B", "-A B -j A"),
            "table filter: its chains lead in a circle: A -> B -> A",
        ),
        ((":A - [0:0]", "-A A -j A"), "table filter: its chains lead in a circle: A -> A"),
        (
            (
                *(f":D{number} - [0:0]" for number in range(300)),
                *(f"-A D{number} -j D{number + 1}" for number in range(299)),
            ),
            "table filter: its chains call each other more than 200 deep",
        ),
        ((":A - [0:0]", ":INPUT ACCEPT", "-A A -j INPUT"), "leads to the built-in chain INPUT"),
    ],
)
def test_what_no_kernel_would_have_taken_is_said(lines, said) -> None:
    with pytest.raises(RulesError) as caught:
        pod(table("filter", *lines))
    assert said in caught.value.problems[0]


def test_a_later_packet_finds_what_an_earlier_one_left() -> None:
    """Without ``walk``, which forgets."""
    made = pod(REDIRECT)
    first = made.arrive(inward())
    assert first.sock is not None
    again = made.arrive(inward())
    assert again.packet.port == 15006
    assert [hop for hop in again.packet.hops if hop[1] == "nat"] == [], "its rules aren't asked a second time"


def test_two_connections_of_the_same_ends_get_different_ports() -> None:
    made = pod(REDIRECT)
    made.arrive(inward(port=80))
    second = made.arrive(inward(port=81))
    assert second.packet.source_port != 40000, "one socket can't tell them apart otherwise (nf_nat_core.c)"


def test_a_block_of_addresses_that_is_no_prefix() -> None:
    rules = table("filter", "-A INPUT -s 10.0.0.1/255.0.0.255 -j DROP")
    assert walk(rules, inward(source="10.9.9.1")).end == "dropped"
    assert walk(rules, inward(source="10.9.9.2")).end == "delivered"
    assert Cidr(4, 0, 0).everything
