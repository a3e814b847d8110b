"""The flags that describe one packet, for every command that asks about one."""

from __future__ import annotations

import click

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    from meshnet.model.cidr import Family
    from meshnet.model.flow import Flow, Way
    from meshnet.model.host import Host

    F = TypeVar("F", bound=Callable[..., Any])

STATES = ("NEW", "ESTABLISHED", "RELATED", "INVALID", "UNTRACKED")
REMOTE: dict[Family, str] = {4: "203.0.113.9", 6: "2001:db8:1::9"}
CLIENT: dict[Family, str] = {4: "192.0.2.1", 6: "2001:db8::1"}
POD: dict[Family, str] = {4: "192.0.2.2", 6: "2001:db8::2"}
"""Who talks when nobody is named: addresses that belong to nobody (RFC 5737, RFC 3849)."""

DPORT, SPORT = 80, 40000
ECHO: dict[Family, int] = {4: 8, 6: 128}
"""RFC 792, RFC 4443."""

OPTIONS = (
    click.option("--in", "way", flag_value="in", help="A packet that enters the pod (the default)."),
    click.option("--out", "way", flag_value="out", help="A packet that a process of the pod sends."),
    click.option("--src", metavar="ADDRESS", help="Who sends; by default a client, or with --out as routed."),
    click.option("--dst", metavar="ADDRESS", help="To whom; by default the pod, or with --out a remote server."),
    click.option(
        "--dport", type=click.IntRange(0, 65535), help="The port; by default 80. ICMP: the type; an echo request."
    ),
    click.option(
        "--sport", type=click.IntRange(1, 65535), help="The sender's port; by default 40000, for trace a fresh one."
    ),
    click.option("--proto", type=click.Choice(["tcp", "udp", "icmp"]), default="tcp", show_default=True),
    click.option("--iface", metavar="NAME", default="eth0", show_default=True, help="Where an incoming packet enters."),
    click.option("--uid", type=click.IntRange(0, 4294967294), help="The sender's uid; with --in the sidecar's."),
    click.option("--gid", type=click.IntRange(0, 4294967294), help="The sender's gid; with --in the sidecar's."),
    click.option("--groups", metavar="GID,…", default="", help="The sender's supplementary groups."),
    click.option("--mark", metavar="N", default="0", help="The mark that the sender sets, or that the packet has."),
    click.option(
        "--state", type=click.Choice(STATES), default="NEW", show_default=True, help="What conntrack makes of it."
    ),
)


def flow_options(command: F) -> F:
    for option in reversed(OPTIONS):
        command = option(command)
    return command


def number_of(text: str, what: str, most: int = 0xFFFFFFFF) -> int:
    """A decimal or hexadecimal number of a flag."""
    from meshnet.model.errors import UsageError
    from meshnet.parse.numbers import NotKnown, number

    try:
        return number(text, most)
    except NotKnown:
        hint = f"0 to {most:#x}, such as 1337 or 0x539"
        raise UsageError(f"not a number for {what} ({text})", hint=hint) from None


def address_of(text: str, flag: str) -> tuple[Family, int]:
    from meshnet.model.cidr import read_address
    from meshnet.model.errors import UsageError, Wrong

    try:
        return read_address(text)
    except Wrong as error:
        raise UsageError(f"{flag}: {error.what}", hint=error.right) from error


def family_of(given: dict[str, Any]) -> Family:
    """The family of the addresses; IPv4 where none is named."""
    from meshnet.model.errors import UsageError

    named = {flag: address_of(given[flag[2:]], flag)[0] for flag in ("--src", "--dst") if given[flag[2:]]}
    if len(set(named.values())) > 1:
        raise UsageError("--src and --dst are of different families", hint="both IPv4 or both IPv6")
    return next(iter(named.values()), 4)


def port_of(given: dict[str, Any], family: Family) -> int:
    """The port, or ICMP's type: an echo request, as ``ping`` sends it, unless another one is asked for."""
    from meshnet.model.errors import UsageError

    icmp, port = given["proto"] == "icmp", given["dport"]
    if icmp and port is not None and port > 255:
        raise UsageError(f"--dport {port} is no type of ICMP", hint="0 to 255; without it, an echo request")
    return int(port) if port is not None else ECHO[family] if icmp else DPORT


def interface_of(given: dict[str, Any]) -> str:
    from meshnet.model.errors import UsageError

    name = str(given["iface"])
    if not 0 < len(name.encode()) <= 15:
        raise UsageError(f"--iface {name!r} is no interface's name", hint="1 to 15 bytes, such as eth0")
    return name


def flow_of(given: dict[str, Any], host: Host) -> Flow:
    """The flow of the flags; what they leave out is filled in from the host."""
    from meshnet.model.flow import Flow
    from meshnet.simulate.routing import Routing

    family = family_of(given)
    way: Way = given["way"] or "in"
    link = host.link(interface_of(given))
    mine = (link.first(family) if link is not None else None) or address_of(POD[family], "--dst")[1]
    src, dst = given["src"], given["dst"]
    other = CLIENT[family] if way == "in" else REMOTE[family]
    destination = address_of(dst or other, "--dst")[1] if way == "out" or dst else mine
    groups = tuple(number_of(word, "--groups", 0xFFFFFFFE) for word in given["groups"].split(",") if word)
    mark, uid = number_of(given["mark"], "--mark"), given["uid"] or 0
    routing = Routing(host, family)
    if way == "in" or src:
        source = address_of(src or other, "--src")[1]
    else:
        source = routing.source_of_call(destination, mark, uid) or mine
    found = routing.find(destination, source, mark, "lo", uid=uid)
    leaves = "lo" if found is None or found.kind == "local" else found.link
    return Flow(
        way,
        family,
        given["proto"],
        source,
        destination,
        port_of(given, family),
        given["iface"] if way == "in" else leaves,
        uid if way == "out" else None,
        (given["gid"] or 0) if way == "out" else None,
        mark,
        given["sport"] or SPORT,
        groups,
        given["state"],
    )
