"""A host in memory: rules in the fake packet filter, routing as the lines that ``ip`` was given."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from meshnet.apply.host import LiveHost
from meshnet.kernel.fake import FakeXtables
from meshnet.model.errors import ToolError

if TYPE_CHECKING:
    from meshnet.model.cidr import Family
    from meshnet.model.plan import Step


class MemoryHost(LiveHost):
    """``fail_at``: the number of a step, from 1, that is refused before it does anything."""

    def __init__(self, name: str = "iptables-nft", families: tuple[Family, ...] = (4, 6)) -> None:
        self.fake = FakeXtables(name, keeps_tables=name != "iptables-nft")
        super().__init__(self.fake, families)
        self.routing: dict[Family, list[tuple[str, str]]] = {4: [], 6: []}
        self.done: list[Step] = []
        self.fail_at: set[int] = set()
        self.error: BaseException = ToolError("no")

    def do(self, step: Step) -> None:
        self.done.append(step)
        if len(self.done) in self.fail_at:
            raise self.error
        if step.tool == "ip":
            for line in step.text.splitlines():
                self._ip(step.family, *line.split(" ", 2))
        else:
            super().do(step)

    def _ip(self, family: Family, thing: str, verb: str, words: str) -> None:
        item = (thing, words.removesuffix(" nodad"))
        there = item in self.routing[family]
        if there == (verb == "add"):
            raise ToolError(f"{verb} {item}: {'there already' if there else 'not there'}")
        (self.routing[family].append if verb == "add" else self.routing[family].remove)(item)

    def read_routing(self, family: Family) -> str:
        rules, routes, addresses = [], [], []
        for thing, words in self.routing[family]:
            said = words.split()
            if thing == "addr":
                local, _, length = said[0].partition("/")
                addresses.append({"local": local, "prefixlen": int(length)})
                continue
            pairs = dict(zip(said[::2], said[1::2], strict=True))
            if thing == "rule":
                mark, _, mask = pairs["fwmark"].partition("/")
                rule = {"priority": int(pairs["pref"]), "src": "all", "fwmark": mark, "fwmask": mask}
                rules.append(rule | {"table": pairs["lookup"], "protocol": pairs["protocol"]})
            else:
                route = {"type": "2", "dst": pairs["local"], "dev": "lo", "table": pairs["table"]}
                more = {"metric": 1024, "pref": "medium"} if family == 6 else {}
                routes.append(route | {"protocol": pairs["proto"]} | more)
        return "\n".join(map(json.dumps, (rules, routes, [{"ifname": "lo", "addr_info": addresses}])))

    def state(self) -> tuple[dict[tuple[Family, str], str], int, dict[Family, set[tuple[str, str]]]]:
        """Tables with all their text, how many there are, and routing; in no order of coming."""
        texts = {key: table.text(counters=False) for key, table in self.fake.tables.items()}
        return texts, len(texts), {family: set(items) for family, items in self.routing.items()}
