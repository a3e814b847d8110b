"""What istio-iptables leaves with settings that no golden file has, cleaned up beside rules of others of like form."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from meshnet.apply.reconcile import fresh_steps
from meshnet.compile.pipeline import compile_spec
from meshnet.model.cidr import read_cidr
from meshnet.model.errors import ToolError
from meshnet.model.facts import Facts
from meshnet.render.plan import render
from meshnet.spec.dialects.istio import spec_of
from meshnet.spec.dialects.istio_options import Word
from tests.netns import foreign, golden
from tests.netns.commands import meshnet, meshnet_init
from tests.netns.interrupted import refuse, stopped_session
from tests.netns.snapshot import run, snapshot
from tests.netns.specs import pod_spec

if TYPE_CHECKING:
    from meshnet.kernel.netns import Namespace

FACTS = Facts(resolvers=tuple(map(read_cidr, ("10.96.0.10/32", "10.96.0.11/32", "fd00:96::a/128"))))
TPROXY = {"istio-inbound-interception-mode": "TPROXY", "istio-inbound-ports": "*", "istio-service-cidr": "*"}
REDIRECT = TPROXY | {"istio-inbound-interception-mode": "REDIRECT"}
SETTINGS = {
    "another mark": TPROXY | {"istio-inbound-tproxy-mark": "2000"},
    "another mark and table": TPROXY | {"istio-inbound-tproxy-mark": "2000", "istio-inbound-tproxy-route-table": "200"},
    "guests": REDIRECT | {"kube-virt-interfaces": "vm0,vm1"},
    "guests under tproxy": TPROXY | {"kube-virt-interfaces": "vm0"},
    "guests and blocks": REDIRECT | {"kube-virt-interfaces": "vm0,vm1", "istio-service-cidr": "10.0.0.0/8,fd00::/8"},
    "guests and nothing captured": {"kube-virt-interfaces": "vm0,vm1"},
    "interfaces": TPROXY | {"istio-exclude-interfaces": "eth8,eth9"},
    "guests and interfaces": REDIRECT | {"kube-virt-interfaces": "vm0", "istio-exclude-interfaces": "eth8"},
    "invalid": TPROXY | {"drop-invalid": "true"},
    "all dns": REDIRECT | {"redirect-dns": "true", "capture-all-dns": "true"},
    "resolvers": TPROXY | {"redirect-dns": "true", "drop-invalid": "true"},
    "several users": TPROXY | {"proxy-uid": "0,7", "proxy-gid": "9"},
    "another loopback": TPROXY | {"istio-outbound-ipv4-loopback-cidr": "127.0.0.0/8"},
}
OTHERS = """\
*mangle
-A PREROUTING -p tcp -m mark --mark 0x4000 -j CONNMARK --save-mark
-A OUTPUT -p tcp -m connmark --mark 0x4000 -j CONNMARK --restore-mark
-A OUTPUT -o lo -p tcp -m mark --mark 0x4000 -j RETURN
-A OUTPUT -o eth7 -j RETURN
-A PREROUTING -i eth6 -j RETURN
-A PREROUTING -p tcp -j NFLOG --nflog-group 5
COMMIT
*nat
-A PREROUTING -p tcp -i eth6 -j RETURN
-A OUTPUT -o eth7 -j RETURN
-A OUTPUT -p udp -m udp --dport 53 -d 192.0.2.9/32 -j DNAT --to-destination 192.0.2.10
-A OUTPUT -p udp -m udp --dport 53 -d 192.0.2.8/32 -j REDIRECT --to-ports 5353
COMMIT
*raw
-A OUTPUT -p udp -m udp --dport 53 -j CT --zone 7
-A OUTPUT -p udp -m udp --dport 54 -j CT --zone 1
-A PREROUTING -i eth6 -p udp -m udp --sport 53 -j CT --zone 1
COMMIT
"""


@pytest.fixture(params=golden.VARIANTS)
def variant(request: pytest.FixtureRequest) -> str:
    return request.param


def leave(namespace: Namespace, variant: str, options: dict[str, str], *, runs: int = 1, traced: bool = False) -> None:
    """What runs of the original leave: the rules of profile istio without a tag, a policy rule for each run."""
    given = {name: Word(text, name) for name, text in options.items()}
    plan = render(compile_spec(spec_of(given, families=(4, 6)), FACTS), traced=traced)
    for step in fresh_steps(plan):
        text = re.sub(r' -m comment --comment "meshnet:[^"]*"', "", step.text)
        text = re.sub(r" pref \d+ protocol \d+", "", text).replace(" proto 109", "")
        if step.tool == "restore":
            golden.load(namespace, variant, step.family, text)
            continue
        lines = [line for line in text.splitlines() if not line.startswith("route add local ::6 ")]
        again = [line for line in lines if line.startswith("rule")] * (runs - 1)
        run(namespace, "ip", f"-{step.family}", "-batch", "-", text="\n".join([*lines, *again, ""]))


def others(namespace: Namespace, variant: str) -> None:
    foreign.settle(namespace, f"iptables-{variant}")
    foreign.restore(namespace, f"iptables-{variant}", 4, OTHERS)
    run(namespace, "ip", "rule", "add", "fwmark", "0x539/0xfff", "lookup", "77", "pref", "50")
    run(namespace, "ip", "rule", "add", "fwmark", "0x7d1", "lookup", "77", "pref", "51")
    run(namespace, "ip", "route", "add", "local", "default", "dev", "lo", "table", "78")


def clean(namespace: Namespace) -> None:
    answer = meshnet_init("--network-namespace", namespace.where.text, "--cleanup-only")
    assert answer.code == 0, answer.err


@pytest.mark.parametrize("name", SETTINGS)
def test_clean_up_takes_it_all_and_nothing_else(namespace: Namespace, variant: str, name: str) -> None:
    others(namespace, variant)
    before = snapshot(namespace)
    leave(namespace, variant, SETTINGS[name], runs=3)
    assert snapshot(namespace) != before
    clean(namespace)
    assert snapshot(namespace) == before


def test_log_rules_of_the_original_go_too(namespace: Namespace, variant: str) -> None:
    others(namespace, variant)
    before = snapshot(namespace)
    leave(namespace, variant, SETTINGS["guests under tproxy"], traced=True)
    clean(namespace)
    assert snapshot(namespace) == before


EARLIER = """\
*nat
:ISTIO_OUTPUT - [0:0]
:ISTIO_REDIRECT - [0:0]
-A OUTPUT -p tcp -j ISTIO_OUTPUT
-A OUTPUT -p udp --dport 53 -m owner --uid-owner 1337 -j RETURN
-A OUTPUT -p udp --dport 53 -m owner --gid-owner 1337 -j RETURN
-A OUTPUT -p udp --dport 53 -m owner ! --gid-owner 203 -m owner ! --gid-owner 202 -j RETURN
-A OUTPUT -p udp --dport 53{to} -j REDIRECT --to-port 15053
-A ISTIO_OUTPUT -j ISTIO_REDIRECT
COMMIT
*raw
-A OUTPUT -p udp --dport 53 -m owner --uid-owner 1337 -j CT --zone 1
-A OUTPUT -p udp --sport 15053 -m owner --uid-owner 1337 -j CT --zone 2
-A OUTPUT -p udp --dport 53 -m owner --gid-owner 1337 -j CT --zone 1
-A OUTPUT -p udp --sport 15053 -m owner --gid-owner 1337 -j CT --zone 2
-A OUTPUT -p udp --dport 53{to} -j CT --zone 2
-A PREROUTING -p udp --sport 53{of} -j CT --zone 1
COMMIT
"""


@pytest.mark.parametrize("listed", [True, False], ids=["resolvers", "all dns"])
def test_dns_rules_of_earlier_releases(namespace: Namespace, variant: str, listed: bool) -> None:
    """Left behind in built-in chains they would lead the pod's queries to a listener that is gone."""
    others(namespace, variant)
    before = snapshot(namespace)
    for family, address in ((4, "10.96.0.10/32"), (6, "fd00:96::a/128")):
        to, of = (f" -d {address}", f" -s {address}") if listed else ("", "")
        foreign.restore(namespace, f"iptables-{variant}", family, EARLIER.format(to=to, of=of))
    clean(namespace)
    assert snapshot(namespace) == before


def test_a_return_of_others_behind_the_guests_stays(namespace: Namespace, variant: str) -> None:
    """The original puts its own at the head, right in front of whatever was there."""
    for family in (4, 6):
        text = "*nat\n-A PREROUTING -i docker0 -j RETURN\n-A PREROUTING -i docker1 -j RETURN\nCOMMIT\n"
        foreign.restore(namespace, f"iptables-{variant}", family, text)
    before = snapshot(namespace)
    leave(namespace, variant, SETTINGS["guests"])
    for family in (4, 6):  # and somebody came later, who inserts
        text = "*nat\n-I PREROUTING 1 -p tcp --dport 9 -j ACCEPT\nCOMMIT\n"
        foreign.restore(namespace, f"iptables-{variant}", family, text)
    clean(namespace)
    for family in (4, 6):
        text = "*nat\n-D PREROUTING -p tcp --dport 9 -j ACCEPT\nCOMMIT\n"
        foreign.restore(namespace, f"iptables-{variant}", family, text)
    assert snapshot(namespace) == before


@pytest.mark.parametrize("words", [("0x539", "133"), ("0x539", "200"), ("2000", "133")], ids="-".join)
def test_what_the_original_s_own_clean_up_leaves(namespace: Namespace, words: tuple[str, str]) -> None:
    """Its chains are gone, and nothing tells of a mark but where it leads."""
    others(namespace, "nft")
    before = snapshot(namespace)
    mark, table = words
    for family in ("-4", "-6"):
        run(namespace, "ip", family, "rule", "add", "fwmark", mark, "lookup", table)
        run(namespace, "ip", family, "route", "add", "local", "default", "dev", "lo", "table", table)
    run(namespace, "ip", "-6", "addr", "add", "::6/128", "dev", "lo")
    clean(namespace)
    assert snapshot(namespace) == before


def test_another_s_mark_to_a_table_of_another_s_stays(namespace: Namespace) -> None:
    others(namespace, "nft")
    run(namespace, "ip", "rule", "add", "fwmark", "0x77", "lookup", "133", "pref", "52")
    before = snapshot(namespace)
    clean(namespace)
    assert snapshot(namespace) == before


def test_rules_on_the_other_variant_tell_of_the_mark(namespace: Namespace, variant: str) -> None:
    others(namespace, variant)
    before = snapshot(namespace)
    other = "legacy" if variant == "nft" else "nft"
    leave(namespace, other, SETTINGS["another mark"])
    clean(namespace)
    after = snapshot(namespace)
    del before["nft tables"], after["nft tables"]
    assert after == before


def test_ambient_mode_is_left_alone(namespace: Namespace, variant: str) -> None:
    """Its agent writes chains with some of the same names, and policy rules of its own."""
    text = """\
*mangle
:ISTIO_PRERT - [0:0]
:ISTIO_OUTPUT - [0:0]
-A PREROUTING -j ISTIO_PRERT
-A OUTPUT -j ISTIO_OUTPUT
-A ISTIO_OUTPUT -m connmark --mark 0x111/0xfff -j CONNMARK --restore-mark --nfmask 0xffffffff --ctmask 0xffffffff
-A ISTIO_PRERT -m mark --mark 0x539/0xfff -j CONNMARK --set-xmark 0x111/0xfff
COMMIT
*nat
:ISTIO_PRERT - [0:0]
:ISTIO_OUTPUT - [0:0]
-A PREROUTING -j ISTIO_PRERT
-A OUTPUT -j ISTIO_OUTPUT
-A ISTIO_OUTPUT -p tcp -m mark --mark 0x111/0xfff -j ACCEPT
COMMIT
"""
    for family in (4, 6):
        foreign.restore(namespace, f"iptables-{variant}", family, text)
        run(namespace, "ip", f"-{family}", "rule", "add", "fwmark", "0x111/0xfff", "lookup", "100", "pref", "32764")
        run(namespace, "ip", f"-{family}", "route", "add", "local", "default", "dev", "lo", "table", "100")
    before = snapshot(namespace)
    clean(namespace)
    assert snapshot(namespace) == before
    refused = meshnet_init("--network-namespace", namespace.where.text, "-b", "*", "-i", "*")
    assert (refused.code, "ambient mode" in refused.err) == (4, True), refused.err
    assert snapshot(namespace) == before


@pytest.mark.parametrize("profile", ["istio", "meshnet"])
@pytest.mark.parametrize("name", ["another mark and table", "guests", "resolvers"])
def test_it_is_replaced_in_one_go(namespace: Namespace, variant: str, name: str, profile: str) -> None:
    others(namespace, variant)
    before = snapshot(namespace)
    leave(namespace, variant, SETTINGS[name], runs=2)
    words = ("--network-namespace", namespace.where.text, "-b", "*", "-i", "*", "--dual-stack", "--profile", profile)
    assert meshnet_init(*words).code == 0
    again = meshnet_init(*words, "--output", "json").data
    assert again["differences"] == []
    clean(namespace)
    assert snapshot(namespace) == before


NATIVE = """\
table inet istio-proxy-nat {
\tchain prerouting {
\t\ttype nat hook prerouting priority -100; policy accept;
\t\tmeta l4proto tcp counter jump istio-inbound
\t}
\tchain istio-inbound {
\t\ttcp dport { 15008, 15020 } counter return
\t\tmeta l4proto tcp counter redirect to :15006
\t}
}
table inet istio-proxy-mangle {
\tchain prerouting {
\t\ttype filter hook prerouting priority -150; policy accept;
\t\tct state invalid counter drop
\t}
}
table inet istio-proxy-raw {
}
"""
OTHERS_NATIVE = """\
table inet istio-ambient-nat {
\tchain istio-output {
\t\tcounter accept
\t}
}
table ip istio-proxy-nat {
}
"""


def native(namespace: Namespace) -> None:
    """What the original leaves where it writes tables of nftables: those, its policy rule and its route."""
    run(namespace, "nft", "-f", "-", text=NATIVE)
    run(namespace, "ip", "rule", "add", "fwmark", "1337", "lookup", "133")
    run(namespace, "ip", "route", "add", "local", "default", "dev", "lo", "table", "133")


@pytest.mark.parametrize("words", [(), ("--native-nftables",), ("--force-iptables-binary", "legacy")], ids=str)
def test_tables_of_nftables_that_the_original_wrote(namespace: Namespace, words: tuple[str, ...]) -> None:
    """With them in force beside ours, the original's redirection would go on after its clean-up."""
    here = ("--network-namespace", namespace.where.text)
    run(namespace, "nft", "-f", "-", text=OTHERS_NATIVE)
    before = snapshot(namespace)
    meshnet_init(*here, *words, "-b", "*", "-i", "*")
    alone = snapshot(namespace)
    clean(namespace)
    native(namespace)
    assert meshnet("remove", "--netns", namespace.where.text).code == 0
    assert "istio-proxy-nat" in run(namespace, "nft", "list", "tables", "inet"), "nobody asked for that"
    answer = meshnet_init(*here, *words, "-b", "*", "-i", "*")
    assert answer.code == 0, answer.err
    assert snapshot(namespace) == alone
    native(namespace)
    answer = meshnet_init(*here, *words, "--cleanup-only")
    assert answer.code == 0, answer.err
    assert snapshot(namespace) == before


@pytest.mark.parametrize("after", [False, True], ids=["ahead", "after"])
def test_tables_of_the_original_come_back_when_a_step_fails(namespace: Namespace, after: bool) -> None:
    native(namespace)
    before = snapshot(namespace)
    wanted = pod_spec("tproxy", more="profile: istio\n", source=False)
    for at in range(20):
        with stopped_session(namespace, "nftables", at, refuse, after) as session:
            try:
                session.apply(wanted)
            except ToolError:
                assert snapshot(namespace) == before, f"step {at}"
            else:
                break
    assert at > 1 and "istio-proxy" not in run(namespace, "nft", "list", "tables", "inet")
