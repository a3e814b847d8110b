"""What the kernel does with marked-out packets, rule by rule: nft's trace events and the legacy tables' log.

One bit of a packet (``nf_trace``) asks for both. An nft table of our own sets it on the packets that are wanted, ahead
of every other table, and goes away afterwards; rules of others are never touched. Legacy tables log what such a packet
meets by nfnetlink_log, group 0, for which the namespace's logger is chosen while it lasts (netfilter/nf_log).
"""

from __future__ import annotations

import contextlib
import os
import struct
from _socket import AF_NETLINK, SOCK_CLOEXEC, SOCK_RAW
from _socket import socket as Socket  # noqa: N812 (the class is named as a function is)

from meshnet.kernel.netlink import (
    ACK,
    NETFILTER,
    PROTOCOL_FAMILY,
    REQUEST,
    Netlink,
    attribute,
    attributes,
    message,
    messages,
)
from meshnet.kernel.netlink import text as word
from meshnet.kernel.run import find, run
from meshnet.kernel.xtables import Xtables
from meshnet.model.errors import ToolError
from meshnet.model.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import TracebackType

    from meshnet.model.cidr import Family

    Numbers = dict[tuple[str, str, int], int]

TABLE = "meshnet_trace"
LOGGER = "nfnetlink_log"
WAS = "logger_was_"
"""Ahead of the former logger's name: an empty chain in the helper's table, for the trace after one that was killed."""

NFT, ULOG = 10, 4
"""NFNL_SUBSYS_NFTABLES and NFNL_SUBSYS_ULOG (linux/netfilter/nfnetlink.h)."""

GET_RULE, TRACE = NFT << 8 | 7, NFT << 8 | 17
LOG_PACKET, LOG_CONFIG = ULOG << 8 | 0, ULOG << 8 | 1
SOL_NETLINK, ADD_MEMBERSHIP, RECEIVE_FORCE = 270, 1, 33
INET = 1  # NFPROTO_INET
TRACE_GROUP = 9
"""NFNLGRP_NFTRACE."""

FIRST = -450
"""Priority of the helper's chains: ahead of raw (-300) and of defragmentation (-400)."""

POLICY, RETURN, RULE = 1, 2, 3
"""Kinds of nft's trace events (nft_trace_types)."""

VERDICTS = {
    0: "DROP",
    1: "ACCEPT",
    2: "STOLEN",
    3: "QUEUE",
    0xFFFFFFFF: "",
    0xFFFFFFFD: "to",
    0xFFFFFFFC: "goto",
    0xFFFFFFFB: "RETURN",
}
LONGEST = 1 << 16


@value
class Event:
    """A rule that a packet met. ``number`` is its place in the chain from 1, 0 for a chain's policy; ``mark`` is the
    packet's afterwards in nft's events and before in the legacy log, which ``before`` tells."""

    packet: int
    table: str
    chain: str
    number: int
    verdict: str
    mark: int
    before: bool


class Tracing:
    """A context manager in the namespace that the calling thread is in: packets that fit (in nft's words) are traced.
    ``numbers`` are those of rules in tables of family inet, by table (``inet NAME``), chain and handle.

    MissingToolError without nft; ToolError when the kernel refuses. What was changed is taken back on leaving.
    """

    def __init__(self, family: Family, incoming: str, outgoing: str, numbers: Numbers | None = None) -> None:
        self._family = family
        self._inet = numbers or {}
        self._wanted = {"prerouting": incoming, "output": outgoing}
        self._logger = f"/proc/sys/net/netfilter/nf_log/{PROTOCOL_FAMILY[family]}"
        self._before = ""
        self._numbers: dict[tuple[str, str, int], int] = {}
        self._lengths: dict[tuple[str, str], int] = {}
        self._events: Socket | None = None
        self._log: Socket | None = None

    def __enter__(self) -> Tracing:
        try:
            self._events = self._listen()
            self._numbers = {**self._handles(), **self._inet}
            self._lengths = self._legacy()
            self._before = self._logger_before()
            self._install()
            self._log = self._open_log()
        except BaseException:
            self._leave()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._leave()

    def events(self, quiet: float) -> Iterator[Event]:
        """What comes until nothing has come for ``quiet`` seconds."""
        assert self._events is not None and self._log is not None
        for source, read in ((self._events, self._traced), (self._log, self._logged)):
            source.settimeout(quiet)
            while True:
                try:
                    data = source.recv(LONGEST)
                except TimeoutError:
                    break
                for _, kind, _, body in messages(data, "trace events"):
                    event = read(kind, body)
                    if event is not None:
                        yield event

    def _listen(self) -> Socket:
        made = Socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETFILTER)
        made.bind((0, 0))
        made.setsockopt(SOL_NETLINK, ADD_MEMBERSHIP, TRACE_GROUP)
        return made

    def _handles(self) -> dict[tuple[str, str, int], int]:
        """The place of every nft rule in its chain, by table, chain and handle."""
        found: dict[tuple[str, str, int], int] = {}
        places: dict[tuple[str, str], int] = {}
        header = struct.pack("=BBH", PROTOCOL_FAMILY[self._family], 0, 0)
        with Netlink(NETFILTER, "nft rules") as netlink:
            try:
                listed = netlink.dump(GET_RULE, header)
            except OSError:
                return {}  # a kernel without nf_tables, or a namespace without any table
        for body in listed:
            had = attributes(body, 4)
            table, chain = word(had[1]), word(had[2])
            places[table, chain] = places.get((table, chain), 0) + 1
            found[table, chain, int.from_bytes(had[3], "big")] = places[table, chain]
        return found

    def _legacy(self) -> dict[tuple[str, str], int]:
        """How many rules each chain of the legacy tables has: the log numbers its end as one rule more. Tables without
        a rule, which listing them makes, say "mangle:OUTPUT:policy:1" beside nft's rules, and that is nobody's rule 1.
        """
        found: dict[tuple[str, str], int] = {}
        table = ""
        for line in Xtables("legacy").save(self._family).split("\n"):
            if line.startswith("*"):
                table = line[1:]
            elif line.startswith("-A "):
                chain = line.split(" ", 2)[1]
                found[table, chain] = found.get((table, chain), 0) + 1
        return found

    def _logger_before(self) -> str:
        """The namespace's logger; where a trace was killed, the one ahead of that, which its table names. Empty without
        one: legacy tables can't log then, and nft's events don't need it."""
        try:
            with open(self._logger, encoding="ascii") as file:
                now = file.read().strip()
        except OSError:
            return ""
        if now == LOGGER:
            left = run(["nft", "list", "table", "ip6" if self._family == 6 else "ip", TABLE])
            return left.out.partition(f"chain {WAS}")[2].partition(" ")[0] or now if left.ok else now
        return now

    def _open_log(self) -> Socket:
        """Group 0 of nfnetlink_log, and the namespace's logger set to it; the legacy tables log nothing otherwise."""
        made = Socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETFILTER)
        made.settimeout(2.0)
        header = struct.pack("=BBH", 0, 0, 0)
        for config in (attribute(1, b"\1"), attribute(2, struct.pack("!IBx", 0, 1))):
            made.send(message(LOG_CONFIG, REQUEST | ACK, 1, header + config))
            _, _, _, body = messages(made.recv(LONGEST), "nfnetlink_log")[0]
            if (code := -struct.unpack_from("=i", body)[0]) != 0:
                raise ToolError(
                    f"can't read the kernel's packet log: {os.strerror(code)}", hint="is another tracer running?"
                )
        if self._before:
            self._choose(LOGGER)
        return made

    def _choose(self, logger: str) -> None:
        with contextlib.suppress(OSError), open(self._logger, "w", encoding="ascii") as file:
            file.write(logger)

    def _install(self) -> None:
        family = "ip6" if self._family == 6 else "ip"
        chains = "".join(
            f" chain {hook} {{ type filter hook {hook} priority {FIRST}; {wanted} meta nftrace set 1; }}\n"
            for hook, wanted in self._wanted.items()
            if wanted
        )
        if self._before:
            chains += f" chain {WAS}{self._before} {{ }}\n"
        name = f"{family} {TABLE}"
        done = run(["nft", "-f", "-"], text=f"add table {name}\ndelete table {name}\ntable {name} {{\n{chains}}}\n")
        if not done.ok:
            raise ToolError("nft refused to trace these packets", detail=done.err)

    def _leave(self) -> None:
        """In whatever state it is: the helper's table goes, and the logger is what it was."""
        for made in (self._events, self._log):
            if made is not None:
                made.close()
        self._events = self._log = None
        family = "ip6" if self._family == 6 else "ip"
        if find("nft") is not None:
            run(["nft", "-f", "-"], text=f"add table {family} {TABLE}\ndelete table {family} {TABLE}\n")
        if self._before:
            self._choose(self._before)
            self._before = ""

    def _traced(self, kind: int, body: bytes) -> Event | None:
        """One of nft's events (nf_tables_trace.c); those of the helper's own table are left out."""
        if kind != TRACE:
            return None
        had = attributes(body, 4)
        family = "inet " if body[0] == INET else ""
        table, chain = family + word(had.get(1, b"")), word(had.get(2, b""))
        sort = int.from_bytes(had.get(4, b""), "big")
        if table == TABLE or sort not in (RULE, POLICY):
            return None
        verdict = attributes(had.get(5, b""), 0)
        code = int.from_bytes(verdict.get(1, b""), "big")
        name = f"{VERDICTS.get(code, str(code))} {word(verdict.get(2, b''))}".strip()
        mark = int.from_bytes(had.get(14, b""), "big")
        packet = int.from_bytes(had.get(6, b""), "big")
        if sort == POLICY:
            return Event(
                packet, table, chain, 0, VERDICTS.get(int.from_bytes(had.get(16, b""), "big"), ""), mark, False
            )
        number = self._numbers.get((table, chain, int.from_bytes(had.get(3, b""), "big")), -1)
        return Event(packet, table, chain, number, name, mark, False)

    def _logged(self, kind: int, body: bytes) -> Event | None:
        """One line of the legacy tables' log: ``TRACE: mangle:PREROUTING:rule:3``."""
        if kind != LOG_PACKET:
            return None
        had = attributes(body, 4)
        prefix = word(had.get(10, b""))
        parts = prefix.removeprefix("TRACE: ").strip().split(":")
        if not prefix.startswith("TRACE: ") or len(parts) != 4:
            return None
        table, chain, number = parts[0], parts[1], int(parts[3])
        if number > self._lengths.get((table, chain), 0):
            number = 0
        return Event(0, table, chain, number, "", int.from_bytes(had.get(2, b""), "big"), True)
