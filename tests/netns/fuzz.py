"""The simulator against the kernel: random rules, random packets, and for each the same end and the same rules hit.

One packet at a time and no answer to it: the pod's sockets take what reaches them without a word (a filter on each
listening socket drops the SYN and counts it), and the client's end of the cables drops everything after a look.
"""

from __future__ import annotations

import contextlib
import os
import random
import re
import socket
import struct
import sys
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from meshnet.kernel import links
from meshnet.model.cidr import address_text, read_address, read_cidr
from meshnet.model.flow import Flow
from meshnet.model.host import LOOPBACK_LINK, Address, AddressSet, Host, Link, Listener, Lookup, Member, Route
from meshnet.model.marks import Mark
from meshnet.model.value import replace
from meshnet.parse.ruleset import read
from meshnet.simulate.packet import RST
from meshnet.simulate.walk import Pod
from tests.netns import frames, landing, randomrules
from tests.netns.frames import Seen
from tests.netns.pods import Scratch
from tests.netns.randomrules import CLIENT, FAR, GIDS, GROUPS, LOOP, ODD, POD, PORTS, UIDS
from tests.netns.snapshot import run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from meshnet.model.ruleset import RuleSet
    from meshnet.model.trace import Trace

INET = {4: socket.AF_INET, 6: socket.AF_INET6}
PROTOCOL = {"tcp": 6, "udp": 17}
SO_MEMINFO, DROPS = 55, 8
ETH_P_ALL, OUTGOING = 3, 4
FLOWS_PER_RULES = 20
PATIENCE = 0.02
"""Seconds to wait for a packet that is expected; a veth hands over at once, and a shared machine may not."""

TRIES = 3
"""A packet that the kernel sends by itself meanwhile (a redirect, IPv6's reports of groups) hits rules too, but not
each time; what is really different is different again."""

QUIET = 3.0
"""Seconds until the kernel has told the multicast groups of its new addresses, which is IPv6 traffic of its own."""

DROP_ALL = struct.pack("HBBI", 6, 0, 0, 0)


class Settings(NamedTuple):
    """What is drawn for a namespace besides its rules."""

    route_localnet: bool
    src_valid_mark: bool
    rp_filter: int
    forwards: bool
    policy: bool


class Landed(NamedTuple):
    """What was seen of a packet: how it ended, where, and from whom; and the rules whose counters moved."""

    end: str
    where: tuple[Any, ...]
    hits: tuple[tuple[str, str, int, int], ...]


class World:
    """A pod with sockets on every port that anything leads to, and a client that looks and says nothing."""

    def __init__(self, family: int, backend: str) -> None:
        self.family = family
        self.tool = f"{'ip6tables' if family == 6 else 'iptables'}-{backend}"
        self.scratch = Scratch()
        self.client, self.pod = self.scratch(), self.scratch()
        self.listeners: list[tuple[Listener, socket.socket]] = []
        self.watching: dict[str, socket.socket] = {}
        self.macs: dict[str, tuple[bytes, bytes]] = {}
        self.port = 20000
        for place, link in enumerate(("eth0", "eth1")):
            self._cable(link, place)
        self._route()
        self._listen()
        if family == 6:
            time.sleep(QUIET)

    def close(self) -> None:
        for _, made in self.listeners:
            made.close()
        for made in self.watching.values():
            made.close()
        self.scratch.clean()

    def _cable(self, link: str, place: int) -> None:
        family, length = self.family, 24 if self.family == 4 else 64
        links.veth(self.client, link, self.pod, link)
        for namespace, ends in ((self.client, CLIENT), (self.pod, POD)):
            links.up(namespace, link)
            links.address(namespace, link, f"{ends[family][place]}/{length}")
        here, there = links.mac(self.client, link), links.mac(self.pod, link)
        links.neighbour(self.pod, link, CLIENT[family][place], here)
        self.macs[link] = (bytes.fromhex(here.replace(":", "")), bytes.fromhex(there.replace(":", "")))
        with self.client.entered():
            made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
            made.bind((link, 0))
            made.setblocking(False)
        self.watching[link] = made

    def _route(self) -> None:
        links.route(self.pod, "default" if self.family == 4 else "default6", via=CLIENT[self.family][0])
        everything = "0.0.0.0/0" if self.family == 4 else "::/0"
        run(self.pod, "ip", f"-{self.family}", "route", "add", "local", everything, "dev", "lo", "table", "133")
        restore = "ip6tables-legacy-restore" if self.family == 6 else "iptables-legacy-restore"
        run(self.client, restore, "-w", "5", text="*raw\n:PREROUTING DROP [0:0]\n:OUTPUT DROP [0:0]\nCOMMIT\n")
        links.sysctl(self.pod, "net.ipv4.icmp_echo_ignore_all", 1)
        links.sysctl(self.pod, "net.ipv6.icmp.echo_ignore_all", 1)
        for scope in ("all", "eth0", "eth1"):
            links.sysctl(self.pod, f"net.ipv4.conf.{scope}.send_redirects", 0)
            links.sysctl(self.pod, f"net.ipv4.conf.{scope}.rp_filter", 0)
        self._policy = self._forwards = False
        self._fill_sets()

    def _fill_sets(self) -> None:
        """In the pod, named for their family as a set has one."""
        lines = []
        for name, (kind, entries) in randomrules.SETS.items():
            inet = "" if kind.startswith("bitmap") else f" family inet{'6' if self.family == 6 else ''}"
            lines += [f"create {name}-{self.family} {kind}{inet}"]
            lines += [f"add {name}-{self.family} {entry}" for entry in entries[self.family]]
        run(self.pod, "ipset", "restore", text="\n".join(lines) + "\n")

    def _listen(self) -> None:
        """On each port, for TCP and UDP: mostly transparent wildcards, some on an address, some ordinary."""
        family = self.family
        for place, port in enumerate((*PORTS, 8081, 8082)):
            for transport in ("tcp", "udp"):
                self._add(transport, port, "", transparent=place % 4 != 3)
                if place % 3 == 0:
                    self._add(transport, port, POD[family][0], transparent=place % 2 == 0)

    def _add(self, transport: str, port: int, address: str, *, transparent: bool) -> None:
        with self.pod.entered():
            made = socket.socket(INET[self.family], socket.SOCK_STREAM if transport == "tcp" else socket.SOCK_DGRAM)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if self.family == 6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        if transparent:
            landing.transparent(made)
        made.bind((address, port))
        number = read_address(address)[1] if address else None
        if transport == "tcp":
            made.listen(8)
        _silence(made)
        name = f"{transport} {port} {address or '*'}"
        listener = Listener(name, transport, port, self.family, number, transparent)  # type: ignore[arg-type]
        self.listeners.append((listener, made))

    def setup(self, settings: Settings, text: str) -> None:
        """Take settings and rules; what was there before is gone. The tools' refusal is for the caller to pass over."""
        for link in ("eth0", "eth1"):
            links.sysctl(self.pod, f"net.ipv4.conf.{link}.route_localnet", int(settings.route_localnet))
            links.sysctl(self.pod, f"net.ipv4.conf.{link}.src_valid_mark", int(settings.src_valid_mark))
            links.sysctl(self.pod, f"net.ipv4.conf.{link}.rp_filter", settings.rp_filter)
        if settings.forwards != self._forwards:
            links.sysctl(self.pod, "net.ipv4.ip_forward", int(settings.forwards))
            links.sysctl(self.pod, "net.ipv6.conf.all.forwarding", int(settings.forwards))
            self._forwards = settings.forwards
            if self.family == 6:
                time.sleep(QUIET)
        if settings.policy != self._policy:
            verb = "add" if settings.policy else "del"
            rule = ("fwmark", "0x539/0xfff", "lookup", "133", "priority", "109")
            run(self.pod, "ip", f"-{self.family}", "rule", verb, *rule)
            self._policy = settings.policy
        self._known: dict[tuple[str, str, int], int] = {}
        self.load(text)

    def load(self, text: str) -> None:
        run(self.pod, f"{self.tool}-restore", *(["-w", "5"] if "legacy" in self.tool else []), text=text)

    def understood(self, text: str) -> RuleSet:
        return read(text, self.family)  # type: ignore[arg-type]

    def host(self, settings: Settings) -> Host:
        """The same as facts for the simulator."""
        family = self.family
        made = tuple(
            Link(
                link,
                (Address(family, read_address(POD[family][place])[1], 24 if family == 4 else 64),),  # type: ignore[arg-type]
                settings.route_localnet,
                settings.rp_filter,  # type: ignore[arg-type]
                settings.src_valid_mark,
            )
            for place, link in enumerate(("eth0", "eth1"))
        )
        everything = read_cidr("0.0.0.0/0" if family == 4 else "::/0")
        return Host(
            (LOOPBACK_LINK, *made),
            (Route(everything, "eth0"), Route(everything, "lo", 133, "local")),
            (Lookup(family, 109, 133, Mark(0x539, 0xFFF)),) if settings.policy else (),  # type: ignore[arg-type]
            tuple(listener for listener, _ in self.listeners),
            tuple(_set(name, family) for name in randomrules.SETS),
            forwards=(family,) if settings.forwards else (),  # type: ignore[arg-type]
            assume=False,
        )

    def send(self, flow: Flow) -> Landed:
        """Send one packet and see what becomes of it."""
        before = self._known or self.counters()
        drops = self._drops()
        self._drain()
        refused = self._inject(flow) if flow.way == "in" else self._call(flow)
        end, where = self._landing(drops, flow)
        if end == "gone" and refused == "unsent":
            end = "unsent"
        after = self._known = self.counters()
        hits = tuple(
            (table, chain, number, count - before[table, chain, number])
            for (table, chain, number), count in after.items()
            if count != before[table, chain, number]
        )
        return Landed(end, where, hits)

    def counters(self) -> dict[tuple[str, str, int], int]:
        text = run(self.pod, f"{self.tool}-save", "-c")
        found: dict[tuple[str, str, int], int] = {}
        table, places = "", {}
        for line in text.splitlines():
            if line.startswith("*"):
                table, places = line[1:], {}
            elif line.startswith("["):
                packets, _, rest = line[1:].partition(":")
                chain = rest.split()[2]
                places[chain] = places.get(chain, 0) + 1
                found[table, chain, places[chain]] = int(packets)
        return found

    def _drops(self) -> list[int]:
        return [
            struct.unpack_from("=I", made.getsockopt(socket.SOL_SOCKET, SO_MEMINFO, 36), DROPS * 4)[0]
            for _, made in self.listeners
        ]

    def _drain(self) -> None:
        for made in self.watching.values():
            with contextlib.suppress(BlockingIOError):
                while True:
                    made.recv(2048)

    def _inject(self, flow: Flow) -> str:
        flags = 2 if flow.state == "NEW" else 16 if flow.state == "ESTABLISHED" else 4
        packet = Seen(flow.family, _protocol(flow), flow.source, flow.source_port, flow.destination, flow.port, flags)
        self.watching[flow.interface].send(frames.frame(self.macs[flow.interface], packet))
        return ""

    def _call(self, flow: Flow) -> str:
        """Under the flow's ids, mark and source; ``unsent`` if the kernel has no way for it."""
        groups = os.getgroups()
        os.setgroups(flow.groups)
        try:
            with self.pod.entered(), landing.identity(flow.uid or 0, flow.gid or 0):
                made = _socket(flow)
        finally:
            os.setgroups(groups)
        with made:
            if flow.mark:
                made.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, struct.pack("I", flow.mark))
            if flow.transparent:
                landing.transparent(made)
            made.setblocking(False)
            target = (address_text(flow.family, flow.destination), flow.port if flow.transport != "icmp" else 0)
            try:
                made.bind((address_text(flow.family, flow.source), flow.source_port if flow.transport != "icmp" else 0))
                if flow.transport == "tcp":
                    made.connect(target)
                elif flow.transport == "udp":
                    made.sendto(b"fuzz", target)
                else:
                    made.sendto(_echo(flow), target)
            except BlockingIOError:
                return ""
            except PermissionError:
                return "dropped"
            except OSError:
                return "unsent"
        return ""

    def _landing(self, drops: list[int], flow: Flow) -> tuple[str, tuple[Any, ...]]:
        """Where it is by now; the packet has gone its way before the call that sent it returned, nearly always."""
        deadline = time.monotonic() + PATIENCE
        while True:
            for place, (now, then) in enumerate(zip(self._drops(), drops, strict=True)):
                if now != then:
                    return "delivered", (self.listeners[place][0].name,)
            for link, made in self.watching.items():
                if found := self._left(made, flow):
                    return "left", (link, *found)
            if time.monotonic() > deadline:
                return "gone", ()
            time.sleep(0.002)

    def _left(self, made: socket.socket, flow: Flow) -> tuple[int, ...] | None:
        with contextlib.suppress(BlockingIOError):
            while True:
                data, (_, _, kind, _, _) = made.recvfrom(2048)
                seen = frames.read(data)
                if kind == OUTGOING or seen is None or seen.protocol != _protocol(flow):
                    continue
                if flow.transport == "icmp" and not _is_own(seen, flow):
                    continue
                if seen.protocol == 6 and seen.flags & 4 and flow.state != "INVALID":
                    continue  # a reset, which is REJECT's
                return seen.source, seen.source_port, seen.destination, seen.port
        return None


def _is_own(seen: Seen, flow: Flow) -> bool:
    """Not the kernel's neighbour discovery or errors; nat may change the number of what asks for an answer."""
    return seen.port == flow.port and (flow.port in (8, 13, 128) or seen.source_port == flow.source_port)


def _set(name: str, family: int) -> AddressSet:
    """A set of ``randomrules`` as the simulator has it."""
    kind, entries = randomrules.SETS[name]
    dimensions = tuple(kind.split()[0].partition(":")[2].split(","))

    def member(entry: str) -> Member:
        block, _, port = entry.rpartition(",") if "port" in dimensions else (entry, "", "")
        protocol, _, span = port.rpartition(":")
        first, _, last = span.partition("-")
        return Member(
            read_cidr(block) if block else None,
            (int(first), int(last or first)) if span else None,
            PROTOCOL[protocol] if protocol else None,
        )

    return AddressSet(f"{name}-{family}", dimensions, tuple(member(entry) for entry in entries[family]))


def _silence(made: socket.socket) -> None:
    """Everything that reaches the socket is dropped at its door, and counted."""
    import ctypes

    held = ctypes.create_string_buffer(DROP_ALL)
    program = struct.pack("HxxxxxxP", 1, ctypes.addressof(held))
    made.setsockopt(socket.SOL_SOCKET, 26, program)


def _protocol(flow: Flow) -> int:
    return PROTOCOL.get(flow.transport, 1 if flow.family == 4 else 58)


def _socket(flow: Flow) -> socket.socket:
    if flow.transport == "icmp":
        return socket.socket(INET[flow.family], socket.SOCK_RAW, _protocol(flow))
    return socket.socket(INET[flow.family], socket.SOCK_STREAM if flow.transport == "tcp" else socket.SOCK_DGRAM)


def _echo(flow: Flow) -> bytes:
    body = struct.pack("!BBHHH", flow.port, 0, 0, flow.source_port, 1)
    if flow.family == 6:
        return body  # the kernel fills in the checksum
    return body[:2] + struct.pack("!H", frames.checksum(body)) + body[4:]


def random_settings(seed: random.Random) -> Settings:
    return Settings(
        seed.random() < 0.3, seed.random() < 0.2, seed.choice((0, 0, 0, 1, 2)), seed.random() < 0.5, seed.random() < 0.8
    )


def random_flow(seed: random.Random, family: int, port: int) -> Flow:
    """``port`` is a source port of its own, so that no flow meets another's connection."""

    def number(text: str) -> int:
        return read_address(text)[1]

    transport = seed.choice(("tcp", "tcp", "tcp", "udp", "udp", "icmp"))
    to_port = seed.choice(PORTS) if transport != "icmp" else seed.choice(randomrules.ICMP_TYPES[family])
    if seed.random() < 0.5:
        place = seed.choice((0, 0, 0, 1))
        source = seed.choice(
            (CLIENT[family][place], CLIENT[family][0], FAR[family][0], LOOP[family][1], POD[family][0])
        )
        if seed.random() < 0.6:
            source = CLIENT[family][place]
        to = seed.choice(
            (POD[family][place], POD[family][place], POD[family][0], FAR[family][0], FAR[family][1], LOOP[family][0])
        )
        if seed.random() < 0.1:
            source = seed.choice(ODD[family])
        if seed.random() < 0.1 and transport != "tcp":
            to = seed.choice(ODD[family])
        state = seed.choice(("NEW", "NEW", "NEW", "NEW", "ESTABLISHED", "INVALID")) if transport == "tcp" else "NEW"
        return Flow(
            "in", family, transport, number(source), number(to), to_port, f"eth{place}", source_port=port, state=state
        )  # type: ignore[arg-type]
    to = seed.choice(
        (FAR[family][0], FAR[family][1], CLIENT[family][0], CLIENT[family][1], POD[family][0], LOOP[family][0])
    )
    near = LOOP[family][0] if to == LOOP[family][0] else POD[family][0]
    source = seed.choice((near, near, POD[family][0], POD[family][1], LOOP[family][1], CLIENT[family][0]))
    mark = seed.choice((0, 0, 0, 0x539, 0x53A, 1, 0x1539))
    return Flow(
        "out",
        family,  # type: ignore[arg-type]
        transport,  # type: ignore[arg-type]
        number(source),
        number(to),
        to_port,
        "",
        seed.choice(UIDS),
        seed.choice(GIDS),
        mark,
        port,
        tuple(seed.sample(GROUPS, seed.choice((0, 1)))),
        transparent=transport != "icmp",
    )


def predicted(trace: Trace, family: int) -> Landed:
    """A trace in the words of what can be seen."""
    hits: dict[tuple[str, str, int], int] = {}
    for hop in trace.hops:
        if hop.rule is not None:
            key = (hop.table, hop.chain, hop.number)
            hits[key] = hits.get(key, 0) + 1
    counted = tuple((*key, count) for key, count in sorted(hits.items()))
    if trace.end in ("left", "forwarded"):
        return Landed("left", (trace.link, trace.source, trace.source_port, trace.to, trace.port), counted)
    if trace.end == "delivered":
        return Landed("delivered" if trace.socket else "gone", (trace.socket,) if trace.socket else (), counted)
    return Landed("unsent" if trace.end == "unsent" else "gone", (), counted)


def disagreement(world: World, pod: Pod, flow: Flow) -> str:
    """What the kernel did otherwise, in words; nothing if it agrees."""
    sent = flow
    if flow.state == "ESTABLISHED":
        sent = flow
    trace = _walk(pod, flow)
    if trace.disposition == "undecided":
        return f"undecided: {trace.reason}"
    expected = predicted(trace, world.family)
    seen = world.send(sent)
    seen = Landed(seen.end, seen.where, tuple(sorted(seen.hits)))
    if trace.end == "rejected" or "no route" in trace.reason:
        # the kernel says so to the sender, and what it sends passes OUTPUT, where it may hit rules too
        missing = [
            hit for hit in expected.hits if not any(hit[:3] == other[:3] and other[3] >= hit[3] for other in seen.hits)
        ]
        return f"not hit: {missing}; {seen}" if missing or seen.end not in ("gone", "unsent", "left") else ""
    if expected.end == "unsent" and seen.end == "gone":
        expected = Landed("gone", (), expected.hits)
    if trace.end == "dropped" and seen.end == "unsent" and flow.way == "out":
        seen = Landed("gone", (), seen.hits)
    if _port_unsure(trace) or flow.transport == "icmp":
        expected, seen = _without_source_port(expected), _without_source_port(seen)
    return "" if expected == seen else f"predicted {expected}\n     seen {seen}\n     {trace.reason}"


def _port_unsure(trace: Trace) -> bool:
    return any(hop.verdict in ("MASQUERADE", "SNAT") for hop in trace.hops)


def _without_source_port(landed: Landed) -> Landed:
    where = (*landed.where[:2], 0, *landed.where[3:]) if landed.end == "left" else landed.where
    return Landed(landed.end, where, landed.hits)


def _walk(pod: Pod, flow: Flow) -> Trace:
    """A segment with ACK that nobody knows is picked up by conntrack as new; the walk is told nothing else."""
    pod.forget()
    packet, sock = pod.first(flow)
    packet.wanted = ""
    if flow.state == "INVALID":
        packet.flags = RST
    pod.sockets.forget()
    arrival = pod.receive(packet, flow.interface) if sock is None else pod.send(packet, sock)
    return pod.trace(arrival)


def rounds(seed: int, family: int, backend: str, flows: int) -> Iterator[tuple[str, Flow, str]]:
    """Every disagreement of a seeded run, as (rules, flow, words)."""
    world, author = _of(family, backend)
    source = random.Random(f"{seed} {family} {backend}")
    try:
        done = 0
        while done < flows:
            settings = random_settings(source)
            if family == 6:  # each change makes the kernel tell its groups anew, for seconds: so there is only one
                settings = settings._replace(forwards=done * 2 >= flows)
            text = author(source, family).rules()
            try:
                world.setup(settings, text)
            except AssertionError as error:
                print(f"not loaded: {str(error)[:300]}", file=sys.stderr)
                continue
            pod = Pod([world.understood(text)], world.host(settings))
            for _ in range(FLOWS_PER_RULES):
                flow = random_flow(source, family, 0)
                done += 1
                for _ in range(TRIES):
                    world.port = world.port + 1 if world.port < 60000 else 20000
                    flow = replace(flow, source_port=world.port)
                    said = disagreement(world, pod, flow)
                    if not said:
                        break
                    time.sleep(0.2)
                else:
                    yield f"{settings}\n{_used(text)}", flow, said
    finally:
        world.close()


def _of(family: int, backend: str) -> tuple[World, Callable[[random.Random, int], Any]]:
    """Where rules of a backend are in force, and who writes them."""
    from tests.netns import randomtables
    from tests.netns.fuzztables import TableWorld

    if backend == "nftables":
        return TableWorld(family, backend), randomtables.Author
    return World(family, backend), randomrules.Author


def _used(text: str) -> str:
    return re.sub(r"^:.*\n", "", text, flags=re.MULTILINE)


def variant(backend: str, family: int, seed: int, flows: int) -> int:
    """One backend and family; the number of disagreements, the first few of them printed."""
    wrong = 0
    for rules, flow, said in rounds(seed, family, backend, flows):
        wrong += 1
        if wrong <= 5:
            print(f"--- {backend} IPv{family}\n{rules}\n{flow!r}\n     {said}\n", flush=True)
    return wrong


def main() -> int:
    """``python -m tests.netns.fuzz SEED FLOWS``: both families, three backends, two of the six at a time."""
    from concurrent.futures import ProcessPoolExecutor

    seed, flows = int(sys.argv[1]), int(sys.argv[2])
    begin = time.monotonic()
    with ProcessPoolExecutor(2) as pool:
        kinds = [(backend, family) for backend in ("nft", "legacy", "nftables") for family in (4, 6)]
        waiting = [pool.submit(variant, *kind, seed, flows // 6) for kind in kinds]
        wrong = sum(done.result() for done in waiting)
    print(f"{flows} flows, {wrong} disagreements, {time.monotonic() - begin:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
