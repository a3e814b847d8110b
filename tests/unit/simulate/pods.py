"""A pod without a kernel: one link, a default route, the usual policy route, and rules as text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from meshnet.model.cidr import read_address, read_cidr
from meshnet.model.flow import Flow
from meshnet.model.host import LOOPBACK_LINK, Address, Host, Link, Lookup, Route
from meshnet.model.marks import Mark
from meshnet.model.value import replace
from meshnet.parse.ruleset import read
from meshnet.simulate.walk import Pod

if TYPE_CHECKING:
    from meshnet.model.trace import Trace

POD, CLIENT, REMOTE = "10.1.0.2", "10.1.0.1", "203.0.113.9"
POD6, CLIENT6, REMOTE6 = "fd01::2", "fd01::1", "2001:db8::9"


def number(text: str) -> int:
    return read_address(text)[1]


def link(name: str = "eth0", *addresses: str, **settings: Any) -> Link:
    made = []
    for text in addresses or (f"{POD}/24", f"{POD6}/64"):
        address, _, prefix = text.partition("/")
        family, found = read_address(address)
        made.append(Address(family, found, int(prefix)))
    return Link(name, tuple(made), **settings)


def host(*links: Link, policy: bool = True, **more: Any) -> Host:
    used = links or (link(),)
    routes = [Route(read_cidr(block), "eth0") for block in ("0.0.0.0/0", "::/0")]
    lookups = []
    if policy:
        routes += [Route(read_cidr(block), "lo", 133, "local") for block in ("0.0.0.0/0", "::/0")]
        lookups = [Lookup(family, 109, 133, Mark(0x539)) for family in (4, 6)]
    return Host((LOOPBACK_LINK, *used), tuple(routes), tuple(lookups), **more)


def pod(rules: str = "", family: int = 4, on: Host | None = None) -> Pod:
    return Pod([read(rules, family)], on or host())


def table(name: str, *lines: str) -> str:
    return "\n".join((f"*{name}", *lines, "COMMIT", ""))


def inward(to: str = POD, port: int = 80, source: str = CLIENT, **more: Any) -> Flow:
    family, destination = read_address(to)
    flow = Flow("in", family, more.pop("transport", "tcp"), number(source), destination, port, "eth0")
    return replace(flow, **more)


def outward(to: str = REMOTE, port: int = 80, source: str = "", **more: Any) -> Flow:
    family, destination = read_address(to)
    mine = number(source or (POD if family == 4 else POD6))
    flow = Flow("out", family, more.pop("transport", "tcp"), mine, destination, port, "", 0, 0)
    return replace(flow, **more)


def walk(rules: str, flow: Flow, on: Host | None = None) -> Trace:
    return pod(rules, flow.family, on).walk(flow)


def path(trace: Trace) -> list[str]:
    """The rules that fitted, as ``table chain number``."""
    return [f"{hop.table} {hop.chain} {hop.number}" for hop in trace.hops if hop.rule is not None]
