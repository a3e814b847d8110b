"""A host in memory: rules in the fake packet filter, routing as the lines that ``ip`` was given."""

from __future__ import annotations

from typing import TYPE_CHECKING

from meshnet.apply.host import LiveHost
from meshnet.kernel.fake import FakeXtables
from meshnet.kernel.rtnetlink import SeenRoute, SeenRouting, SeenRule
from meshnet.kernel.together import later
from meshnet.model.errors import ToolError

if TYPE_CHECKING:
    from collections.abc import Callable

    from meshnet.kernel.conntrack import Entry
    from meshnet.kernel.ports import Work
    from meshnet.model.cidr import Family
    from meshnet.model.plan import SetText, Step


class MemoryHost(LiveHost):
    """``fail_at``: the number of a step, from 1, that is refused before it does anything."""

    def __init__(self, name: str = "iptables-nft", families: tuple[Family, ...] = (4, 6)) -> None:
        self.fake = FakeXtables(name, keeps_tables=name != "iptables-nft")
        super().__init__(self.fake, families)
        self.routing: dict[Family, list[tuple[str, str]]] = {4: [], 6: []}
        self.done: list[Step] = []
        self.forgotten = 0
        self.connections: tuple[Entry, ...] = ()
        self.fail_at: set[int] = set()
        self.error: BaseException = ToolError("no")

    def read_sets(self) -> tuple[SetText, ...]:
        return ()

    def forget(self, stale: Callable[[Entry], bool]) -> int:
        self.forgotten += 1
        return 0

    def tracked(self) -> tuple[Entry, ...]:
        return self.connections

    def begin(self, step: Step) -> Work[object]:
        self.done.append(step)
        if len(self.done) in self.fail_at:
            raise self.error
        if step.tool == "ip":
            return later(lambda: self._batch(step))
        return super().begin(step)

    def _batch(self, step: Step) -> None:
        for line in step.text.splitlines():
            self._ip(step.family, *line.split(" ", 2))

    def _ip(self, family: Family, thing: str, verb: str, words: str) -> None:
        item = (thing, words.removesuffix(" nodad"))
        there = item in self.routing[family]
        if there == (verb == "add"):
            raise ToolError(f"{verb} {item}: {'there already' if there else 'not there'}")
        (self.routing[family].append if verb == "add" else self.routing[family].remove)(item)

    def read_routing(self, family: Family) -> SeenRouting:
        rules, routes, addresses = [], [], []
        for thing, words in self.routing[family]:
            said = words.split()
            if thing == "addr":
                addresses.append(said[0])
                continue
            pairs = dict(zip(said[::2], said[1::2], strict=True))
            if thing == "rule":
                number = int(pairs["pref"]), int(pairs["lookup"]), int(pairs["protocol"])
                rules.append(SeenRule(*number, mark=pairs["fwmark"]))
            else:
                block = {"default": "0.0.0.0/0" if family == 4 else "::/0"}.get(pairs["local"], pairs["local"])
                block += "" if "/" in block else f"/{32 if family == 4 else 128}"
                metric = 1024 if family == 6 else 0
                routes.append(SeenRoute(2, block, int(pairs["table"]), int(pairs["proto"]), device="lo", metric=metric))
        return SeenRouting(tuple(rules), tuple(routes), tuple(addresses))

    def state(self) -> tuple[dict[tuple[Family, str], str], int, dict[Family, set[tuple[str, str]]]]:
        """Tables with all their text, how many there are, and routing; in no order of coming."""
        texts = {key: table.text(counters=False) for key, table in self.fake.tables.items()}
        return texts, len(texts), {family: set(items) for family, items in self.routing.items()}
