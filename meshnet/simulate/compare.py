"""Are two rule sets the same for every packet? If not, the most ordinary packet that they treat differently.

Not by sampling. Each field's values are put into classes that no rule of either set tells apart, and then a packet
is walked through both sets while everything that is asked of it is noted. All packets that answer those questions
alike are treated alike, so they are done; each question's other answer is a region that is walked later. When no
region is left, every packet has been covered.
"""

from __future__ import annotations

from meshnet.model.cidr import read_address
from meshnet.model.flow import Flow
from meshnet.model.host import Address, Link, Route
from meshnet.model.rule import RestoreConnectionMark
from meshnet.model.ruleset import RuleSet
from meshnet.model.value import replace, value
from meshnet.simulate import space
from meshnet.simulate.merge import merged
from meshnet.simulate.packet import ACK, SYN, TCP, Packet, Sock
from meshnet.simulate.space import Dimension, Questions
from meshnet.simulate.walk import Pod
from meshnet.simulate.watch import FIRST, Watch
from meshnet.simulate.watched import WatchedPod

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from meshnet.model.cidr import Family
    from meshnet.model.flow import Way
    from meshnet.model.host import AddressSet, Host
    from meshnet.model.trace import Trace
    from meshnet.simulate.walk import Arrival
    from meshnet.simulate.watch import Region

REMOTE: dict[Family, str] = {4: "203.0.113.9", 6: "2001:db8:1::9"}
CLIENT: dict[Family, str] = {4: "192.0.2.1", 6: "2001:db8::1"}
STRANGE_LINK = "other0"


@value
class Side:
    """Rules of one family, and the namespace that they are in."""

    rules: RuleSet
    host: Host


@value
class Difference:
    """One packet, and what becomes of it on either side; ``more`` is what no flow can say, as a connection's mark."""

    flow: Flow
    more: tuple[str, ...]
    one: Trace
    other: Trace
    what: str


@value
class Compared:
    """``regions`` is how many kinds of packets there are that rules of either side tell apart."""

    difference: Difference | None
    regions: int

    @property
    def equal(self) -> bool:
        return self.difference is None


def compare(one: Side, other: Side) -> Compared:
    """Walk every kind of packet through both sides."""
    regions = 0
    ways: tuple[Way, ...] = ("in", "out")
    for way in ways:
        for link in ways_out(one, other):
            explored = Exploration(one, other, way, link)
            found = explored.run()
            regions += explored.regions
            if found is not None:
                return Compared(found, regions)
    return Compared(None, regions)


def ways_out(one: Side, other: Side) -> list[str]:
    """The interfaces by which a packet may leave: the pod's own, and each that a rule names."""
    questions = Questions((one.rules, other.rules), one.host, one.rules.family)
    named = [name for name in questions.out_links if name != "lo"]
    return list(dict.fromkeys(("eth0", *named)))


class Exploration:
    """One way, in or out, with one link that the default route leads to."""

    def __init__(self, one: Side, other: Side, way: Way, link: str) -> None:
        self.way = way
        self.family = one.rules.family
        self.regions = 0
        small, sets = self.small(one.rules, "one ")
        small_other, sets_other = self.small(other.rules, "other ")
        self._hosts = [
            _with_links(replace(side.host, sets=(*side.host.sets, *sets, *sets_other)), one, other, link)
            for side in (one, other)
        ]
        self._full = [Pod([side.rules], host) for side, host in zip((one, other), self._hosts, strict=True)]
        known = tuple(dict.fromkeys(item for host in self._hosts for item in host.sets))
        questions = Questions((small, small_other), replace(self._hosts[0], sets=known), self.family)
        questions.addresses["source"] += Questions((), self._hosts[1], self.family).addresses["source"]
        for lookup in (*one.host.lookups, *other.host.lookups):
            if lookup.mark is not None:
                questions.mark(lookup.mark.number, lookup.mark.mask)
        self._dimensions = self._classes(questions)
        self._watch = Watch(self._dimensions, _restores(one.rules) or _restores(other.rules))
        self._pods = [
            WatchedPod([rules], host, self._watch)
            for rules, host in zip((small, small_other), self._hosts, strict=True)
        ]

    def small(self, rules: RuleSet, prefix: str) -> tuple[RuleSet, tuple[AddressSet, ...]]:
        """The rules that are walked, and the sets that they name besides the namespace's own."""
        return merged(rules, prefix)

    def states(self, named: set[str]) -> list[tuple[str, bool, str]]:
        """(state, in reply, translated end). NEW is first, as the most ordinary one."""
        return _states(named)

    def _classes(self, questions: Questions) -> dict[str, Dimension]:
        family = self.family
        mine = self._hosts[0].link("eth0")
        own = (mine.first(family) if mine is not None else None) or 0
        remote, client = read_address(REMOTE[family])[1], read_address(CLIENT[family])[1]
        inward = self.way == "in"
        icmp = 1 if family == 4 else 58
        named = sorted(questions.protocols - {TCP, 17, icmp})
        found: dict[str, list[Any]] = {
            "protocol": [TCP, 17, icmp, *named, next(number for number in (253, 254, 99) if number not in named)],
            "source": space.addresses(questions, "source", (client,) if inward else (own, client)),
            "destination": space.addresses(questions, "destination", (own, remote) if inward else (remote, own)),
            "source_port": space.ports(questions, "source", (40000,)),
            "port": space.ports(questions, "destination", (80, 443, 53)),
            "mark": space.marks(questions),
            "connmark": space.marks(questions),
            "state": self.states(questions.states),
            "socket": [space.NO_SOCKET, space.PLAIN_SOCKET, space.TRANSPARENT_SOCKET],
        }
        if inward:
            links = [name for name in questions.in_links if name != "lo"]
            found["in_link"] = list(dict.fromkeys(("eth0", *links, STRANGE_LINK)))
        else:
            found["uid"], found["gid"] = space.ids(questions, "uid"), space.ids(questions, "gid")
            found["groups"] = [(), *((gid,) for gid in found["gid"])] if questions.groups else [()]
        if questions.listeners:
            found["listener"] = [True, False]
        for words in questions.opaque:
            found[" ".join(words)] = [False, True]
        return {name: Dimension(name, values) for name, values in found.items()}

    def regions_of(self) -> Iterator[dict[str, Any]]:
        """One packet of each kind. Whoever asks for the next one has walked this one: a walk is what tells which kinds
        are left."""
        watch = self._watch
        stack: list[Region] = [{name: item.everything for name, item in self._dimensions.items()}]
        while stack:
            yield watch.begin(stack.pop())
            self.regions += 1
            stack += watch.later
            watch.later = []

    def walk(self, chosen: dict[str, Any]) -> Arrival:
        """A packet's way through the one side."""
        return self._walk(self._pods[0], chosen)

    def run(self) -> Difference | None:
        plainest: dict[str, Any] = {}
        least = (len(self._dimensions) + 1, 0)
        for chosen in self.regions_of():
            ends = [_outcome(self._walk(pod, chosen)) for pod in self._pods]
            if ends[0] != ends[1] and (oddness := self._oddness(chosen)) < least:
                plainest, least = dict(chosen), oddness
        return self._difference(plainest) if plainest else None

    def _walk(self, pod: Pod, chosen: dict[str, Any]) -> Arrival:
        pod.forget()
        state, reply, translated = chosen["state"]
        protocol = chosen["protocol"]
        flags = 0 if protocol != TCP else SYN if chosen["state"] == FIRST else ACK
        ported = protocol in (TCP, 17, 33, 132, 136)
        packet = Packet(
            self.family,
            protocol,
            chosen["source"],
            chosen["source_port"] if ported else 0,
            chosen["destination"],
            chosen["port"],
            flags,
            chosen["mark"],
        )
        packet.wanted, packet.reply = state, reply
        pod.connections.given = (chosen["connmark"], translated)
        if self.way == "in":
            return pod.receive(packet, chosen["in_link"])
        return pod.send(packet, self._sender(chosen))

    def _sender(self, chosen: dict[str, Any]) -> Sock:
        return Sock(
            "",
            self.family,
            chosen["protocol"],
            chosen["source"],
            chosen["source_port"],
            transparent=True,
            uid=chosen["uid"],
            gid=chosen["gid"],
            groups=chosen["groups"],
            mark=chosen["mark"],
        )

    def _oddness(self, chosen: dict[str, Any]) -> tuple[int, int]:
        """How much about a packet is out of the ordinary."""
        places = [item.values.index(chosen[name]) for name, item in self._dimensions.items()]
        return sum(place > 0 for place in places), sum(places)

    def _difference(self, chosen: dict[str, Any]) -> Difference:
        """The packet made as plain as it can be while it still shows the difference, and its two paths."""
        for name, item in self._dimensions.items():
            plainer = {**chosen, name: item.values[0]}
            if plainer != chosen and self._differs(plainer):
                chosen = plainer
        self._watch.chosen = chosen
        arrivals = [self._walk(pod, chosen) for pod in self._full_or_opaque(chosen)]
        self._watch.later = []
        traces = [pod.trace(arrival) for pod, arrival in zip(self._full, arrivals, strict=True)]
        return Difference(self._flow(chosen), self._more(chosen), traces[0], traces[1], _what(*map(_outcome, arrivals)))

    def _full_or_opaque(self, chosen: dict[str, Any]) -> list[Pod]:
        """The rules as they are, unless the packet depends on an answer that only the watched pods can be given."""
        opaque = any(chosen[name] for name in self._dimensions if " " in name or name == "socket")
        return list(self._pods) if opaque or not chosen.get("listener", True) else self._full

    def _differs(self, chosen: dict[str, Any]) -> bool:
        self._watch.begin({name: 1 << item.values.index(chosen[name]) for name, item in self._dimensions.items()})
        ends = [_outcome(self._walk(pod, chosen)) for pod in self._pods]
        self._watch.later = []
        return ends[0] != ends[1]

    def _flow(self, chosen: dict[str, Any]) -> Flow:
        names = {TCP: "tcp", 17: "udp"}
        protocol = names.get(chosen["protocol"], "icmp")
        out = self.way == "out"
        link = chosen.get("in_link", "")
        if out:
            found = self._full[0].routing(self.family).find(chosen["destination"], 0, chosen["mark"], "lo")
            link = "lo" if found is None or found.kind == "local" else found.link
        return Flow(
            self.way,
            self.family,
            protocol,  # type: ignore[arg-type]
            chosen["source"],
            chosen["destination"],
            chosen["port"],
            link,
            chosen["uid"] if out else None,
            chosen["gid"] if out else None,
            chosen["mark"],
            chosen["source_port"],
            chosen["groups"] if out else (),
            chosen["state"][0],
            transparent=out,
        )

    def _more(self, chosen: dict[str, Any]) -> tuple[str, ...]:
        state, reply, translated = chosen["state"]
        words = []
        if chosen["protocol"] not in (TCP, 17, 1, 58):
            words.append(f"IP protocol {chosen['protocol']}")
        if state not in ("NEW", "INVALID", "UNTRACKED") and chosen["connmark"]:
            words.append(f"connection mark {chosen['connmark']:#x}")
        if reply:
            words.append("in reply direction")
        if translated:
            words.append(f"of a connection with {translated}")
        if chosen["socket"]:
            kind = "a transparent" if chosen["socket"] == space.TRANSPARENT_SOCKET else "an ordinary"
            words.append(f"{kind} socket has this connection")
        if not chosen.get("listener", True):
            words.append("and nobody listens where TPROXY leads")
        words += [f"and {name} is true" for name in self._dimensions if " " in name and chosen[name]]
        return tuple(words)


def _states(named: set[str]) -> list[tuple[str, bool, str]]:
    found = [FIRST, ("ESTABLISHED", False, ""), ("ESTABLISHED", True, "")]
    found += [(state, False, "") for state in ("RELATED", "INVALID", "UNTRACKED")]
    return [
        *found,
        *(("ESTABLISHED", reply, end) for end in ("DNAT", "SNAT") if end in named for reply in (False, True)),
    ]


def _restores(rules: RuleSet) -> bool:
    return any(
        isinstance(rule.action, RestoreConnectionMark)
        for table in rules.tables
        for chain in table.chains
        for rule in chain.rules
    )


def _with_links(host: Host, one: Side, other: Side, way_out: str) -> Host:
    """The namespace with every interface that a rule names, and the default route by one of them."""
    questions = Questions((one.rules, other.rules), one.host, one.rules.family)
    names = dict.fromkeys((*questions.in_links, *questions.out_links, STRANGE_LINK))
    missing = [name for name in names if name != "lo" and host.link(name) is None]
    localnet = any(link.route_localnet for link in host.links)
    links = tuple(
        Link(
            name,
            (Address(4, 0xC6120001 + (place << 8), 24), Address(6, (0x20010DB800020000 + place << 64) + 1, 64)),
            localnet,
        )
        for place, name in enumerate(missing)
    )
    routes = tuple(
        Route(route.block, way_out, route.table, route.kind, route.source)
        if route.block.everything and route.kind == "unicast"
        else route
        for route in host.routes
    )
    return replace(host, links=(*host.links, *links), routes=routes)


def _outcome(arrival: Arrival) -> tuple[Any, ...]:
    """All that a packet's end, and what it leaves behind, can show to anybody."""
    packet, connection = arrival.packet, arrival.packet.connection
    stopped = arrival.end in ("dropped", "rejected", "unsent")
    if stopped:
        return (arrival.end,)
    sock = packet.assigned
    taken = None if sock is None else (sock.port, sock.peer is not None)
    kept = None if connection is None else (connection.mark, connection.zones, connection.reply)
    last = packet.hops[-1][5] if arrival.end == "undecided" else ""
    end = (packet.source, packet.source_port, packet.destination, packet.port)
    link = packet.out_link if arrival.end in ("left", "forwarded") else ""
    return arrival.end, end, link, packet.mark, taken, kept, packet.state, last


WORDS = ("end", "addresses and ports", "interface", "mark", "socket", "connection", "tracking", "last rule")


def _what(one: tuple[Any, ...], other: tuple[Any, ...]) -> str:
    """Which parts of the outcome differ, in words."""
    if one[0] != other[0]:
        return "how it ends"
    return ", ".join(word for word, mine, yours in zip(WORDS, one, other, strict=False) if mine != yours)


def pairs(one: Iterator[RuleSet], other: Iterator[RuleSet]) -> list[tuple[RuleSet, RuleSet]]:
    """The rules of both sides by family; a family that a side lacks has no rules there."""
    left, right = ({held.family: held for held in side} for side in (one, other))
    families: list[Family] = [family for family in (4, 6) if family in left or family in right]
    return [(left.get(family, RuleSet(family)), right.get(family, RuleSet(family))) for family in families]
