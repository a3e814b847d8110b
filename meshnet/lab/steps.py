"""What is done in a row, one function a verb; each gives the word that it saw."""

from __future__ import annotations

import contextlib
import socket
import time

from meshnet.kernel.run import run
from meshnet.lab import packets
from meshnet.lab.calls import Call, Where, asked_name, opened, settled
from meshnet.lab.scenario import LOOP, MOST
from meshnet.lab.topology import address
from meshnet.model.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from meshnet.lab.scenario import Step
    from meshnet.lab.servers import Counts
    from meshnet.lab.world import World

MANY = 20
REST_SECONDS = 15.0
ADVANCE = 0x20000000
"""Beyond any window: the largest one is a gigabyte (RFC 7323), and this is half of it more than the sender's place."""


def take(world: World, step: Step) -> str:
    """Do one step; the word of what it showed, as ``Step.expected`` writes it. UsageError for a step that can't be."""
    before = world.counts()
    seen = DOING[step.verb](world, step)
    passed = _come_to_rest(world).since(before)
    if passed.inbound + passed.outbound > MOST or (world.variant.sidecar.kind == "embedded" and passed.loops):
        return LOOP
    return f"{seen}, {through(passed)}" if step.through else seen


def _come_to_rest(world: World) -> Counts:
    """The sidecar's counts once they don't grow any more: on a busy machine a loop outlasts the call that began it."""
    now = world.counts()
    end = time.monotonic() + REST_SECONDS
    while now.inbound + now.outbound > MANY and time.monotonic() < end:
        time.sleep(0.1)
        before, now = now, world.counts()
        if now == before:
            break
    return now


def through(passed: Counts) -> str:
    """Which listeners a step passed."""
    if passed.inbound and passed.outbound:
        return "both"
    return "inbound" if passed.inbound else "outbound" if passed.outbound else "direct"


def _where(world: World, step: Step) -> Where:
    uid = step.uid if step.uid is not None else (world.variant.application.uid if step.origin == "pod" else None)
    host = address(step.target, world.family)
    return Where(world.place(step.origin), world.family, host, step.port, uid, step.source_port)


def _call(world: World, step: Step) -> str:
    known = len(world.access_log())
    with Call(_where(world, step), world.look) as call:
        seen = call.connect() or call.ask(last=True)
    if world.variant.application.kind == "nginx" and _an_address(seen):
        settled(lambda: len(world.access_log()) > known, 2.0)
        logged = world.access_log()[known:]
        seen = logged[0].split()[0] if logged else "nothing in the access log"
    if not _an_address(seen):
        world.look()
    return seen


def _hold(world: World, step: Step) -> str:
    call = world.held[step.held] = Call(_where(world, step), world.look)
    return call.connect() or call.ask()


def _ask(world: World, step: Step) -> str:
    return _held(world, step).ask()


def _stray(world: World, step: Step) -> str:
    """A segment of a held connection from far outside its window, as a middlebox or a late duplicate sends one.

    Its acknowledgement is the right one, so that the reset which it provokes is one that the client believes.
    """
    call = _held(world, step)
    host, port = call.ends()
    flow = (host, port, address(step.target, world.family), step.port)
    found = [segment for frame in world.watch() if (segment := packets.read(frame)) is not None]
    mine = [item for item in found if item.flow == flow and item.frame.interface == "eth0" and not item.frame.out]
    theirs = [item for item in found if item.back == flow and item.frame.interface == "eth0"]
    if not mine or not theirs:
        raise UsageError(f"{step.label}: the held connection was not captured", hint="hold it ahead of this step")
    last = theirs[-1]
    seen = last.sequence + last.length + (1 if last.kind in ("SYN-ACK", "FIN") else 0)
    numbers = (mine[-1].sequence + ADVANCE, seen)
    packet = packets.tcp_packet(flow[0], flow[2], (port, step.port), numbers, b"stray")
    family = socket.AF_INET6 if world.family == 6 else socket.AF_INET
    with world.place("client").entered(), socket.socket(family, socket.SOCK_RAW, socket.IPPROTO_RAW) as made:
        made.sendto(packet, (flow[2], 0))
    arrived = len(mine)
    settled(lambda: _count(world, flow) > arrived, 1.0)
    return ""


def _count(world: World, flow: tuple[str, int, str, int]) -> int:
    found = (packets.read(frame) for frame in world.watch() if frame.interface == "eth0" and not frame.out)
    return sum(1 for segment in found if segment is not None and segment.flow == flow)


def _dns(world: World, step: Step) -> str:
    return asked_name(_where(world, step), step.transport)


def _ports(world: World, step: Step) -> str:
    """Several destination ports from one source port, open at once; how many reach the sidecar with that port."""
    listening = world.settings().inbound_ports
    near = {*range(listening.first, listening.last + 1), *step.ports}
    client = address(step.origin, world.family)
    with contextlib.ExitStack() as stack:
        for port in step.ports:
            where = _where(world, step)
            made = stack.enter_context(opened(where))
            made.settimeout(4.0)
            try:
                made.connect((where.host, port))
            except OSError as error:
                return f"port {port}: {error}"
        settled(lambda: len(_peers(world, near, client)) >= len(step.ports), 2.0)
        kept = sum(1 for peer in _peers(world, near, client) if peer == step.source_port)
    return f"{kept} of {len(step.ports)} keep the port"


def _peers(world: World, near: set[int], client: str) -> list[int]:
    """The client's ports, as the pod's accepted sockets have them."""
    with world.topology.pod.entered():
        lines = run(["ss", "-H", "-t", "-n", "state", "established"]).out.splitlines()
    found = []
    for line in lines:
        words = line.split()
        host, _, port = words[3].rpartition(":")
        if int(words[2].rpartition(":")[2]) in near and host.strip("[]").removeprefix("::ffff:") == client:
            found.append(int(port))
    return found


def _apply(world: World, _: Step) -> str:
    world.apply()
    return ""


def _remove(world: World, _: Step) -> str:
    world.remove()
    return ""


def _pin(world: World, _: Step) -> str:
    world.pin()
    return ""


def _members(world: World, _: Step) -> str:
    from meshnet.lab.zookeeper import ensemble

    return ensemble(world)


def _held(world: World, step: Step) -> Call:
    if step.held not in world.held:
        raise UsageError(f"{step.label}: nothing is held as {step.held}", hint="a step with hold ahead of it")
    return world.held[step.held]


def _an_address(word: str) -> bool:
    return "." in word or ":" in word


DOING: dict[str, Callable[[World, Step], str]] = {
    "call": _call,
    "hold": _hold,
    "ask": _ask,
    "stray": _stray,
    "dns": _dns,
    "ports": _ports,
    "apply": _apply,
    "remove": _remove,
    "pin": _pin,
    "members": _members,
}
