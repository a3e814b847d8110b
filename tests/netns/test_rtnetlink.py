"""What is read by netlink is what ``ip -json`` says of the same rules, routes and addresses."""

from __future__ import annotations

import ipaddress
import json
import random
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from meshnet.kernel import facts, links, netns, rtnetlink
from meshnet.kernel.rtnetlink import SeenRoute, SeenRule
from meshnet.model.cidr import read_cidr
from meshnet.model.value import replace
from tests.netns.snapshot import run

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meshnet.kernel.netns import Namespace
    from meshnet.model.cidr import Family

TABLES = (5, 133, 252, 255, 256, 7000, 0xFFFFFFFF)
PROTOCOLS = (2, 4, 109, 186)
KINDS = {4: ("unicast", "local", "broadcast", "blackhole", "unreachable", "prohibit", "throw")}
KINDS[6] = tuple(kind for kind in KINDS[4] if kind != "broadcast")


@pytest.fixture(params=[4, 6])
def family(request: pytest.FixtureRequest) -> Family:
    return request.param


@pytest.fixture
def pod(namespace: Namespace) -> Namespace:
    links.veth(namespace, "eth0", namespace, "far0")
    for address in ("10.0.0.1/24", "2001:db8::1/64"):
        links.address(namespace, "eth0", address)
    links.up(namespace, "lo", "eth0", "far0")
    return namespace


def blocks(dice: random.Random, family: Family) -> str:
    bits = 32 if family == 4 else 128
    length = dice.choice((0, 1, 8, 24, bits - 1, bits, bits))
    number = dice.getrandbits(bits) if dice.random() < 0.8 else dice.getrandbits(24)  # ``ip`` prints ::1.2.3.4
    network = ipaddress.IPv4Network if family == 4 else ipaddress.IPv6Network
    return str(network((number >> bits - length << bits - length, length)))


def rule_line(dice: random.Random, family: Family, place: int) -> str:
    number, mask = dice.getrandbits(32), dice.choice((0xFFF, 0xFFFFFFFF, dice.getrandbits(32)))
    words = (
        ("not", 0.3),
        (f"from {blocks(dice, family)}", 0.5),
        (f"to {blocks(dice, family)}", 0.5),
        (f"fwmark {number & mask:#x}/{mask:#x}", 0.6),
        (f"fwmark {number:#x}", 0.1),
        (f"iif {dice.choice(('eth0', 'lo', 'absent0'))}", 0.3),
        (f"oif {dice.choice(('eth0', 'lo', 'absent0'))}", 0.3),
        (f"protocol {dice.choice(PROTOCOLS)}", 0.8),
    )
    chosen = [text for text, chance in words if dice.random() < chance]
    return f"rule add {' '.join(chosen)} lookup {dice.choice(TABLES)} pref {dice.choice((0, 1, place + 2, 2**31))}"


def route_line(dice: random.Random, family: Family) -> str:
    kind = dice.choice(KINDS[family])
    way = " dev lo" if kind in ("local", "broadcast") else ""
    if kind == "unicast":
        via = f" via {'10.0.0.9' if family == 4 else '2001:db8::9'}"
        way = f"{via if dice.random() < 0.5 else ''} dev eth0"
    metric = f" metric {dice.choice((1, 7, 1024, 2**32 - 1))}" if dice.random() < 0.5 else ""
    return (
        f"route add {kind} {blocks(dice, family)}{way} table {dice.choice(TABLES)} "
        f"proto {dice.choice(PROTOCOLS)}{metric}"
    )


def said(namespace: Namespace, family: Family, *words: str) -> list[dict[str, Any]]:
    return json.loads(run(namespace, "ip", f"-{family}", "-j", "-N", *words) or "[]")


def block(text: str, length: int | None = None) -> str:
    """An address or block of ``ip`` in the spelling of ``model/cidr``, with its length."""
    address, _, bits = text.partition("/")
    found = read_cidr(address)
    return f"{found.address}/{length if length is not None else bits or found.prefix}"


def rules_of(family: Family, items: list[dict[str, Any]]) -> Iterator[SeenRule]:
    """The oracle: what ``ip`` says of rules in our form."""
    for item in items:
        ends = [
            "" if item.get(end, "all") == "all" else block(item[end], item.get(f"{end}len")) for end in ("src", "dst")
        ]
        mark = f"{item['fwmark']}/{item.get('fwmask', '0xffffffff')}" if "fwmark" in item else ""
        numbers = int(item["priority"]), int(item["table"]), int(item.get("protocol", 0))
        yield SeenRule(*numbers, "not" in item, *ends, mark, item.get("iif", ""), item.get("oif", ""))


def routes_of(family: Family, items: list[dict[str, Any]]) -> Iterator[SeenRoute]:
    everything = "0.0.0.0/0" if family == 4 else "::/0"
    for item in items:
        yield SeenRoute(
            int(item.get("type", 1)),
            everything if item["dst"] == "default" else block(item["dst"]),
            int(item.get("table", 254)),
            int(item["protocol"]),
            block(item["gateway"]).partition("/")[0] if "gateway" in item else "",
            item.get("dev", ""),
            item.get("metric", 0),
        )


def in_some_order(items: Any) -> list[str]:
    return sorted(map(repr, items))


def without_protocol(rule: SeenRule) -> SeenRule:
    """``ip`` says nothing of the protocol ``kernel`` (2) of a rule."""
    return replace(rule, protocol=0) if rule.protocol == 2 else rule


def compare(namespace: Namespace, family: Family) -> rtnetlink.SeenRouting:
    rules = rules_of(family, said(namespace, family, "rule", "show"))
    routes = list(routes_of(family, said(namespace, family, "route", "show", "table", "all")))
    with namespace.entered():
        seen, ours = rtnetlink.read(family), rtnetlink.read(family, 109)
    assert in_some_order(map(without_protocol, seen.rules)) == in_some_order(rules)
    assert in_some_order(seen.routes) == in_some_order(routes)
    assert ours.rules == tuple(rule for rule in seen.rules if rule.protocol == 109)
    assert ours.routes == tuple(route for route in seen.routes if route.protocol == 109)
    listed = said(namespace, family, "addr", "show", "dev", "lo")
    addresses = [block(info["local"], info["prefixlen"]) for link in listed for info in link.get("addr_info", ())]
    assert list(seen.loopback) == list(ours.loopback) == addresses
    return seen


@pytest.mark.parametrize("seed", range(4))
def test_random_rules_and_routes(pod: Namespace, family: Family, seed: int) -> None:
    dice = random.Random(seed * 2 + family)
    lines = [rule_line(dice, family, place) for place in range(60)] + [route_line(dice, family) for _ in range(120)]
    with pod.entered():  # some are there already, or make no sense: -force goes on
        argv = ["ip", f"-{family}", "-force", "-batch", "-"]
        subprocess.run(argv, input="\n".join(lines), text=True, check=False, capture_output=True)
    seen = compare(pod, family)
    assert len(seen.rules) > 50 and len(seen.routes) > 60


def test_a_list_of_many_pieces(pod: Namespace, family: Family) -> None:
    """One answer of the kernel holds 32 KiB, some hundred routes."""
    many = 3000
    base = int(ipaddress.ip_address("11.0.0.0" if family == 4 else "fd77::"))
    lines = [f"route add blackhole {ipaddress.ip_address(base + n)} table 9000 proto 109" for n in range(many)]
    lines += [f"rule add fwmark {n + 1:#x} lookup 9000 pref {n + 200} protocol 109" for n in range(many)]
    run(pod, "ip", f"-{family}", "-batch", "-", text="\n".join(lines))
    seen = compare(pod, family)
    assert sum(route.table == 9000 for route in seen.routes) == sum(rule.table == 9000 for rule in seen.rules) == many


def test_addresses_on_lo_of_every_kind(pod: Namespace) -> None:
    for words in ("127.1.2.3/8", "192.0.2.7/32", "10.7.0.1 peer 10.7.0.2/24", "::6/128 nodad", "::1.2.3.4/120"):
        run(pod, "ip", "addr", "add", *words.split(), "dev", "lo")
    assert "::102:304/120" in compare(pod, 6).loopback
    assert "10.7.0.1/24" in compare(pod, 4).loopback


def test_a_fresh_namespace_where_nothing_is_up(namespace: Namespace, family: Family) -> None:
    compare(namespace, family)


def test_ipv6_switched_off(pod: Namespace) -> None:
    with pod.entered(), open("/proc/sys/net/ipv6/conf/all/disable_ipv6", "w") as file:
        file.write("1")
    seen = compare(pod, 6)
    assert (seen.routes, seen.loopback) == ((), ())
    with pod.entered():
        assert facts.gather(netns.OWN).families == (4,)


def test_reading_while_rules_and_routes_change(pod: Namespace, family: Family) -> None:
    """What stands all the while is there once in every reading, whatever others do beside it."""
    stays = [f"rule add fwmark {n + 1:#x} lookup 9000 pref {n + 200} protocol 109" for n in range(300)]
    run(pod, "ip", f"-{family}", "-batch", "-", text="\n".join(stays))
    turn = "".join(f"rule {verb} fwmark 0x9999 lookup 9000 pref 150 protocol 109\n" for verb in ("add", "del") * 4000)
    with pod.entered():
        argv = ["ip", f"-{family}", "-batch", "-"]
        with subprocess.Popen(argv, stdin=subprocess.PIPE, text=True) as other:
            assert other.stdin is not None
            other.stdin.write(turn)
            other.stdin.close()
            readings = 0
            while other.poll() is None:
                marks = [rule.mark for rule in rtnetlink.read(family, 109).rules if rule.priority >= 200]
                assert len(marks) == len(set(marks)) == 300
                readings += 1
        assert readings > 0


@pytest.mark.parametrize(
    ("addresses", "found"),
    [
        ((), (False, False)),
        (("10.0.0.1/24",), (True, False)),
        (("169.254.0.1/16 scope link",), (False, False)),
        (("2001:db8::1/64",), (False, True)),
        (("fd00::1/64", "192.168.0.1/32"), (True, True)),
    ],
)
def test_who_has_a_global_address(namespace: Namespace, addresses: tuple[str, ...], found: tuple[bool, bool]) -> None:
    links.veth(namespace, "eth0", namespace, "far0")
    links.up(namespace, "lo", "eth0", "far0")
    for words in ("192.0.2.1/32 dev lo", "2001:db8::7/128 dev lo", *(f"{item} dev eth0" for item in addresses)):
        run(namespace, "ip", "addr", "add", *words.split())
    with namespace.entered():
        seen = facts.gather(netns.OWN)
    assert (seen.global_ipv4, seen.global_ipv6) == found
    assert seen.families == (4, 6)
