"""What a pod's kernel holds at a moment: sockets, connection tracking, and the counters of rules that were met."""

from __future__ import annotations

from meshnet.kernel.run import run
from meshnet.kernel.xtables import Xtables
from meshnet.model.errors import MissingToolError
from meshnet.model.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from meshnet.kernel.netns import Namespace
    from meshnet.lab.scenario import LabBackend
    from meshnet.model.cidr import Family

MOST_LINES = 24
"""A loop has hundreds of sockets, and the first ones tell it."""


@value
class Moment:
    """Sockets that are no listeners, and connection tracking's entries, as ``ss`` and ``conntrack`` print them."""

    sockets: tuple[str, ...] = ()
    tracked: tuple[str, ...] = ()

    @property
    def empty(self) -> bool:
        return not (self.sockets or self.tracked)


def moment(namespace: Namespace) -> Moment:
    """Now. A tool that is missing leaves its part empty: evidence is no condition of a measurement."""
    with namespace.entered():
        sockets = _lines(["ss", "-H", "-t", "-a", "-n"])
        tracked = _lines(["conntrack", "-L", "-p", "tcp"])
    return Moment(tuple(line for line in sockets if not line.startswith("LISTEN")), tracked)


def counters(namespace: Namespace, backend: LabBackend, family: Family) -> tuple[str, ...]:
    """The rules that met a packet, with their counts, as iptables-save or nft print them."""
    if backend == "nftables":
        with namespace.entered():
            lines = _lines(["nft", "list", "ruleset"], 10_000)
        return tuple(line for line in lines if "counter packets" in line and "counter packets 0 " not in line)
    with namespace.entered():
        text = Xtables("legacy" if backend == "iptables-legacy" else "nft").save(family, counters=True)
    met = []
    table = ""
    for line in text.splitlines():
        if line.startswith("*"):
            table = line[1:]
        elif line.startswith("[") and not line.startswith("[0:"):
            met.append(f"{table}: {line}")
    return tuple(met)


def _lines(argv: list[str], most: int = MOST_LINES) -> tuple[str, ...]:
    try:
        ran = run(argv, timeout=10.0)
    except MissingToolError:
        return ()
    lines = [" ".join(line.split()) for line in ran.out.splitlines() if line.strip()]
    rest = len(lines) - most
    return (*lines[:most], *([f"… and {rest} more"] if rest > 0 else []))
