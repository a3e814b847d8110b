"""Every word of ours through nft and the kernel and back; and that what we refuse is taken by nft and never matches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from meshnet.kernel import nft, nft_read
from meshnet.model.cidr import read_cidr
from meshnet.model.marks import Mark
from meshnet.model.ports import PortRange
from meshnet.model.program import (
    Accept,
    Chain,
    ConnmarkIs,
    CtDirection,
    CtState,
    Destination,
    DestinationPorts,
    Drop,
    InInterface,
    Jump,
    MarkIs,
    OutInterface,
    Owner,
    OwnerWithin,
    Program,
    Protocol,
    Redirect,
    RestoreMark,
    Return,
    Rule,
    SaveMark,
    SetMark,
    SocketIs,
    Source,
    SourcePorts,
    Syn,
    Tproxy,
    Zone,
)
from meshnet.model.spec import IdRange
from meshnet.parse.nftables import understand
from meshnet.render.nft_text import transaction
from meshnet.render.nftables import render
from tests.netns.landing import call
from tests.netns.pods import POD, REMOTE
from tests.netns.snapshot import run

if TYPE_CHECKING:
    from meshnet.kernel.netns import Namespace
    from meshnet.model.nft import NftTable
    from meshnet.model.program import Match, Target
    from tests.netns.landing import Listeners
    from tests.netns.pods import Pod

TCP, UDP = Protocol("tcp"), Protocol("udp")
SOME, FULL = Mark(0x539, 0xFFF), Mark(0x539)
LENGTHS4, LENGTHS6 = range(33), range(129)


def blocks(*words: str):
    return tuple(read_cidr(word) for word in words)


def ports(*words: int | tuple[int, int]):
    return tuple(PortRange(*word) if isinstance(word, tuple) else PortRange(word, word) for word in words)


MATCHES: list[tuple[Match, ...]] = [
    *((one,) for one in (TCP, UDP, InInterface(("eth0",)), InInterface(("a" * 15,)), InInterface(("net+",), True))),
    *((one,) for one in (OutInterface(("lo",)), OutInterface(("a" * 14 + "+",)), OutInterface(("lo",), True))),
    *(
        (made(("eth0", "a" * 15, "tun0"), negated),)
        for made in (InInterface, OutInterface)
        for negated in (True, False)
    ),
    *((InInterface(("net+", "eth0", "eth1", "b+"), negated),) for negated in (True, False)),
    *((Source(blocks("10.0.0.0/8"), negated),) for negated in (True, False)),
    *((Destination(blocks("10.0.0.0/8", "192.168.0.0/16"), negated),) for negated in (True, False)),
    *((Destination(blocks("fd00::/8", "::1/128"), negated),) for negated in (True, False)),
    (Source(blocks("0.0.0.0/1", "128.0.0.0/2", "255.255.255.255/32")),),
    (Source(blocks("ffff::/16", "::/128")),),
    *(
        (TCP, DestinationPorts(ports(*some), negated))
        for some in ((80,), ((1, 65535),), ((80, 90),), (1, 3, (7, 9)))
        for negated in (True, False)
    ),
    (UDP, SourcePorts(ports(53))),
    (UDP, SourcePorts(ports(53, (60, 70), 65535))),
    *((TCP, Syn(negated)) for negated in (True, False)),
    *(
        (Owner(kind, ids, negated),)
        for kind in ("uid", "gid")
        for ids in ((0,), (5, 7, 4294967294), (5, 6))
        for negated in (True, False)
    ),
    (OwnerWithin((IdRange(0, 4294967294),)),),
    (OwnerWithin((IdRange(5, 9), IdRange(20, 20))),),
    *(
        (made(mark, negated),)
        for made in (MarkIs, ConnmarkIs)
        for mark in (SOME, FULL, Mark(0, 0xF), Mark(1, 1))
        for negated in (True, False)
    ),
    *(
        (CtState(states, negated),)
        for states in (
            ("INVALID",),
            ("NEW",),
            ("RELATED", "ESTABLISHED"),
            ("DNAT",),
            ("NEW", "INVALID", "RELATED", "ESTABLISHED"),
        )
        for negated in (True, False)
    ),
    (CtDirection("ORIGINAL"),),
    (CtDirection("REPLY"),),
    *((TCP, SocketIs(transparent)) for transparent in (True, False)),
    (
        Source(blocks("10.0.0.0/8")),
        OutInterface(("lo",)),
        TCP,
        DestinationPorts(ports(80)),
        Owner("uid", (7,)),
        MarkIs(SOME),
        ConnmarkIs(SOME),
        CtDirection("REPLY"),
    ),
]
TARGETS: list[tuple[tuple[Match, ...], Target]] = [
    *(((), target) for target in (Accept(), Drop(), Return(), Jump("MESHNET_END"), Zone(2), Zone(65535))),
    *(((), SetMark(mark)) for mark in (SOME, FULL, Mark(0, 0xF), Mark(0xFFFFFFFF))),
    ((MarkIs(SOME),), SaveMark(0xFFF)),
    ((MarkIs(FULL),), SaveMark(0xFFFFFFFF)),
    ((ConnmarkIs(SOME),), RestoreMark(0xFFF)),
    ((ConnmarkIs(FULL),), RestoreMark(0xFF)),
    ((TCP,), Redirect(PortRange(1, 1))),
    ((UDP,), Redirect(PortRange(1, 65535))),
    ((TCP,), Tproxy(15006, SOME)),
    ((TCP,), Tproxy(1, FULL)),
    ((Destination(blocks("127.0.0.0/8"), True), TCP), Tproxy(1, SOME)),
    ((Destination(blocks("::1/128"), True), TCP), Tproxy(1, SOME)),
]


def there_and_back(namespace: Namespace, table: NftTable) -> None:
    with namespace.entered():
        nft.begin(transaction((table,), ())).finish()
        (raw,) = nft_read.tables()
        found = understand(nft_read.content(raw)).table
    assert found == table


def family_of(matches: tuple[Match, ...]) -> int | None:
    return next((match.cidrs[0].family for match in matches if isinstance(match, (Source, Destination))), None)


@pytest.mark.parametrize("traced", [False, True])
def test_every_word_comes_back_as_it_was_fed(namespace: Namespace, traced: bool) -> None:
    """In chains of nat and of mangle that nobody is led to; ``socket`` and REDIRECT are taken by chains of theirs."""
    cases = [(matches, Accept()) for matches in MATCHES] + TARGETS
    rules: dict[str, list[Rule]] = {"nat": [], "mangle": []}
    for number, (matches, target) in enumerate(cases):
        table = "nat" if isinstance(target, Redirect) else "mangle"
        rules[table].append(Rule(f"{table}.r{number}", matches, target, f"field{number}", family_of(matches)))
    chains = [Chain(table, "MESHNET_X", tuple(found)) for table, found in rules.items()]  # type: ignore[arg-type]
    chains.append(Chain("mangle", "MESHNET_END", ()))
    there_and_back(namespace, render(Program("p", (4, 6), tuple(chains)), "t", traced=traced))


def test_blocks_of_every_length(namespace: Namespace) -> None:
    """A prefix of whole bytes and any other one are different expressions, and so is none at all."""
    rules = []
    for word, lengths in (("170.85.170.85", LENGTHS4), ("aaaa:5555:aaaa:5555:aaaa:5555:aaaa:5555", LENGTHS6)):
        for length in lengths:
            address = read_cidr(word)
            bits = 32 if address.family == 4 else 128
            network = address.network >> (bits - length) << (bits - length)
            block = type(address)(address.family, network, length)
            for negated in (False, True):
                match = Destination((block,), negated)
                rules.append(Rule(f"mangle.b{address.family}-{length}", (match,), Accept(), "", address.family))
    there_and_back(namespace, render(Program("p", (4, 6), (Chain("mangle", "MESHNET_X", tuple(rules)),)), "t"))


def test_a_thousand_interfaces(namespace: Namespace) -> None:
    names = tuple(f"tap{number:x}" for number in range(1000))
    rules = tuple(
        Rule(f"mangle.{made.__name__}", (made(names),), Accept(), "names") for made in (InInterface, OutInterface)
    )
    there_and_back(namespace, render(Program("p", (4, 6), (Chain("mangle", "MESHNET_X", rules),)), "t"))


def test_ten_thousand_entries(namespace: Namespace) -> None:
    many = tuple(read_cidr(f"10.{n >> 8}.{n & 255}.{2 * (n % 128)}/32") for n in range(10000))
    odd = ports(*(2 * n + 1 for n in range(10000)))
    rules = (
        Rule("nat.a", (Destination(many),), Accept(), "a", 4),
        Rule("nat.b", (TCP, DestinationPorts(odd)), Accept(), "b"),
    )
    there_and_back(namespace, render(Program("p", (4, 6), (Chain("nat", "MESHNET_X", rules),)), "t"))


NEVER = {
    "an owner in prerouting": ("filter hook prerouting priority -150", "meta skuid 0-4294967294"),
    "an output interface in prerouting": ("filter hook prerouting priority -150", 'oifname "eth*"'),
    "an input interface in output": ("filter hook output priority -150", 'iifname "eth*"'),
    "a connection's direction at raw's priority": ("filter hook prerouting priority -300", "ct direction original"),
    "a connection's mark at raw's priority": ("filter hook output priority -300", "ct mark 0"),
}


@pytest.mark.parametrize("why", NEVER)
def test_what_is_refused_would_never_match(pod: Pod, listeners: Listeners, why: str) -> None:
    """nft takes it; the rule beside it sees packets, and it sees none."""
    hook, words = NEVER[why]
    text = (
        "table inet t {\nchain track { type filter hook input priority 0; ct state new counter\n}\n"
        f"chain c {{ type {hook};\nmeta l4proto tcp counter\nmeta l4proto tcp {words} counter\n}}\n}}\n"
    )
    run(pod.pod, "nft", "-f", "-", text=text)
    assert call(pod.client, 4, POD[4], 80)[0] == "application"
    assert call(pod.pod, 4, REMOTE[4], 80)[0] == "remote"
    with pod.pod.entered():
        (raw,) = nft_read.tables()
        counted = [count for (chain, _), count in understand(nft_read.content(raw)).packets.items() if chain == "c"]
    assert counted[0] > 0 and counted[1] == 0


def test_a_zone_at_mangle_s_priority_does_nothing(pod: Pod, listeners: Listeners) -> None:
    run(
        pod.pod,
        "nft",
        "-f",
        "-",
        text="table inet t { chain c { type filter hook output priority -150; "
        "ct state new counter\nct zone set 7 counter\n}\n}\n",
    )
    assert call(pod.pod, 4, REMOTE[4], 80)[0] == "remote"
    assert "zone" not in run(pod.pod, "conntrack", "-L")


@pytest.mark.parametrize(("kind", "arrives"), [("filter", False), ("route", True)])
def test_a_mark_re_routes_in_a_chain_of_type_route_alone(
    pod: Pod, listeners: Listeners, kind: str, arrives: bool
) -> None:
    """The marked call would be delivered on lo, and the application has the port too."""
    run(pod.pod, "ip", "rule", "add", "fwmark", "5", "lookup", "55")
    run(pod.pod, "ip", "route", "add", "local", "default", "dev", "lo", "table", "55")
    run(
        pod.pod,
        "nft",
        "-f",
        "-",
        text=f"table inet t {{ chain c {{ type {kind} hook output priority -150; "
        "ip daddr 203.0.113.9 meta mark set 5\n}\n}\n",
    )
    landed = call(pod.pod, 4, REMOTE[4], 80)[0]
    assert (landed != "remote") is arrives
