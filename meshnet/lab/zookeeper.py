"""Three ZooKeeper members in three pods, which know each other by address: the case that made the problem known.

A member listens for the others on its own address alone, and tells them that address. So a sidecar that dials
loopback reaches nobody, and one that hides the source makes every member look like one and the same stranger.
"""

from __future__ import annotations

import re
import socket
import time

from meshnet.lab.calls import Where, opened
from meshnet.lab.installed import java_binary, zookeeper_classes
from meshnet.lab.process import Child, wait
from meshnet.lab.servers import launched, listens
from meshnet.lab.topology import address
from meshnet.model.cidr import address_text, read_address
from meshnet.model.errors import ToolError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from meshnet.lab.world import World

MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
CLIENT_PORT, PEER_PORT, ELECTION_PORT = 2181, 2888, 3888
START_SECONDS = 60.0
IN_VAIN = 4
"""Rounds of calls, with 0.2 to 0.8 s for an answer, that reach nobody once all members listen: there will be no quorum.
Where a member can be reached, the first round is heard by somebody."""

QUORUM_SECONDS = 40.0
"""For members that do hear of each other. On two cores they are complete two seconds after they are up."""

LOOK_SECONDS = 0.1

FOLDER = "/dev/shm"  # noqa: S108  each server's own (kernel.mounts)
REQUEST = re.compile(r"Received connection request from /?\[?([0-9a-f.:]+)\]?:\d+")


def ensemble(world: World) -> str:
    """Start the members and say what came of it: ``no quorum``, or whom they saw, ``each other`` or an address."""
    children = {pod: _member(world, number, pod) for number, pod in enumerate(world.pods, start=1)}
    for pod, child in children.items():
        world.applications[f"member in {pod}"] = child
    for child in children.values():  # all of them start at once
        wait(child, lambda child: listens(child.pid, ELECTION_PORT), START_SECONDS)
    formed = _quorum(world, list(children.values()))
    world.look()
    if not formed:
        return "no quorum"
    seen = seen_in("".join(child.stderr for child in children.values()))
    if not seen:
        raise ToolError("the members formed a quorum and logged no request", detail=_said(children))
    strangers = sorted(seen - {address(pod, world.family) for pod in world.pods})
    return ", ".join(strangers) or "each other"


def _quorum(world: World, members: list[Child]) -> bool:
    """Wait until there is a quorum, or none can come: everybody has called all others often, and nobody was reached."""
    before = [_rounds(member) for member in members]
    end = time.monotonic() + QUORUM_SECONDS
    while not _formed(world):
        tried = all(_rounds(member) - known >= IN_VAIN for member, known in zip(members, before, strict=True))
        if (tried and not seen_in("".join(member.stderr for member in members))) or time.monotonic() > end:
            return False
        time.sleep(LOOK_SECONDS)
    return True


def configuration(hosts: list[str]) -> str:
    """The text of zoo.cfg."""
    quoted = [f"[{host}]" if ":" in host else host for host in hosts]
    servers = [f"server.{number}={host}:{PEER_PORT}:{ELECTION_PORT}" for number, host in enumerate(quoted, start=1)]
    lines = (
        f"dataDir={FOLDER}/data",
        f"clientPort={CLIENT_PORT}",
        "tickTime=250",
        "initLimit=4",  # a sidecar takes a call for a leader that does not listen yet: the next try is to be soon
        "syncLimit=10",
        "admin.enableServer=false",
        "4lw.commands.whitelist=srvr",
        *servers,
    )
    return "\n".join(lines) + "\n"


def _member(world: World, number: int, pod: str) -> Child:
    hosts = [address(name, world.family) for name in world.pods]
    java = [
        java_binary(),
        "-Xmx128m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        "-XX:-UsePerfData",  # which would be a file in /tmp
        f"-Djava.io.tmpdir={FOLDER}/temporary",
        "-Dzookeeper.jmx.log4j.disable=true",
        "-Dzookeeper.fastleader.maxNotificationInterval=800",  # ms; a minute, where nobody says otherwise
        "-Djava.net.preferIPv4Stack=" + ("true" if world.family == 4 else "false"),
    ]
    uid = world.variant.application.uid
    child = launched(
        f"zookeeper in {pod}",
        [*java, "-cp", zookeeper_classes(), MAIN, "zoo.cfg"],
        world.topology[pod],
        files={"zoo.cfg": configuration(hosts), "data/myid": f"{number}\n"},
        folders=("data", "temporary"),
        uid=uid,
        gid=uid,
        ready=lambda _child: True,
    )
    world.keep(child)
    return child


def _formed(world: World) -> bool:
    """Whether all three say that they lead or follow. Asked in each pod, past the sidecar: what is tried is theirs."""
    modes = [_mode(world, pod) for pod in world.pods]
    return modes.count("leader") == 1 and modes.count("follower") == len(modes) - 1


def _mode(world: World, pod: str) -> str:
    where = Where(world.topology[pod], world.family, "127.0.0.1" if world.family == 4 else "::1", CLIENT_PORT)
    try:
        with opened(where) as made:
            made.settimeout(2.0)
            made.connect((where.host, where.port))
            made.sendall(b"srvr")
            made.shutdown(socket.SHUT_WR)
            said = b"".join(iter(lambda: made.recv(4096), b"")).decode(errors="replace")
    except OSError:
        return ""
    return next((line.partition(": ")[2] for line in said.splitlines() if line.startswith("Mode: ")), "")


def seen_in(log: str) -> set[str]:
    """From whom the members say that requests came."""
    return {address_text(*read_address(found)) for found in REQUEST.findall(log)}


def _rounds(member: Child) -> int:
    """How often a member heard nothing from the others, and called them again."""
    return member.stderr.count("Notification time out")


def _said(children: dict[str, Child]) -> str:
    return "\n".join(child.stderr[-2000:] for child in children.values())
