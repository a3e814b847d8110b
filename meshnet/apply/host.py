"""The one door to a namespace for everything that reads or changes it: rules through a backend, routing through ip."""

from __future__ import annotations

from meshnet.kernel import ipsets, rtnetlink
from meshnet.kernel.together import later, results
from meshnet.model.names import CHAIN_PREFIX, NEW_TABLE, ROUTE_PROTOCOL
from meshnet.model.value import assert_never

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Protocol

    from meshnet.kernel.conntrack import Entry
    from meshnet.kernel.ports import PacketFilter, Work
    from meshnet.kernel.rtnetlink import SeenRouting
    from meshnet.model.cidr import Family
    from meshnet.model.nft import NftTable
    from meshnet.model.plan import SetText, Step

    class Host(Protocol):
        """A namespace that the caller has entered. ``families``: those that have tools here. ``adopting``: what an
        istio-iptables run left counts as ours, to be replaced or taken away."""

        @property
        def name(self) -> str: ...
        @property
        def families(self) -> tuple[Family, ...]: ...
        @property
        def adopting(self) -> bool: ...
        def save(self, counters: bool = False) -> dict[Family, str]: ...
        def read_tables(self) -> tuple[tuple[NftTable, ...], frozenset[str]]:
            """Our tables of nftables and the names of others', on the backend that has such."""

        def read_sets(self) -> tuple[SetText, ...]:
            """Our sets, which rules of iptables look into, whichever backend they are of."""

        def read_routing(self, family: Family) -> SeenRouting: ...
        def begin(self, step: Step) -> Work[object]: ...
        def forget(self, stale: Callable[[Entry], bool]) -> int:
            """Have conntrack forget connections; how many."""

        def tracked(self) -> tuple[Entry, ...]:
            """The connections that conntrack knows."""


def tracked() -> tuple[Entry, ...]:
    """The connections of both families that conntrack knows; none where there is no conntrack."""
    from meshnet.kernel import conntrack

    families: tuple[Family, ...] = (4, 6)
    return tuple(entry for family in families for entry in conntrack.entries(family))


def forget(stale: Callable[[Entry], bool]) -> int:
    """Have conntrack forget connections of both families; how many. Nothing where there is no conntrack."""
    from meshnet.kernel import conntrack

    found = [entry for entry in tracked() if stale(entry)]
    return conntrack.forget(found) if found else 0


def begin_ipset(step: Step) -> Work[object]:
    if step.tool == "ipset":
        return ipsets.begin(step.text)
    return later(lambda: ipsets.destroy(tuple(line.split()[1] for line in step.text.splitlines())))


class Surroundings:
    """What stands around the rules, whichever backend they are of."""

    adopting: bool

    def read_sets(self) -> tuple[SetText, ...]:
        return ipsets.read(CHAIN_PREFIX)

    def read_routing(self, family: Family) -> SeenRouting:
        """Policy rules and routes of our protocol, of any when adopting, and every address of ``lo``."""
        return rtnetlink.read(family, 0 if self.adopting else ROUTE_PROTOCOL)

    def forget(self, stale: Callable[[Entry], bool]) -> int:
        return forget(stale)

    def tracked(self) -> tuple[Entry, ...]:
        return tracked()


class LiveHost(Surroundings):
    """The real thing. ``tables`` is a backend's adapter.

    ``seen``: what this backend's save has just printed for each of the families, when somebody had to look before the
    backend could be chosen. It stands for the first save and no longer, and not for one after a step.
    """

    def __init__(
        self,
        tables: PacketFilter,
        families: tuple[Family, ...],
        seen: dict[Family, str] | None = None,
        *,
        adopting: bool = False,
    ) -> None:
        self.tables = tables
        self.families = families
        self.adopting = adopting
        self._seen = seen

    @property
    def name(self) -> str:
        return self.tables.name

    def save(self, counters: bool = False) -> dict[Family, str]:
        """The rules of all families, read side by side."""
        seen, self._seen = self._seen, None
        if seen is not None and not counters:
            return seen
        texts = results(lambda family: self.tables.begin_save(family, counters), self.families)
        return dict(zip(self.families, texts, strict=True))

    def read_tables(self) -> tuple[tuple[NftTable, ...], frozenset[str]]:
        return (), frozenset()

    def begin(self, step: Step) -> Work[object]:
        """Start one step, so that both families run side by side; its ``finish`` raises with the tool's words."""
        self._seen = None
        match step.tool:
            case "restore":
                return self.tables.begin(step.one_family, step.text)
            case "ip":
                from meshnet.kernel import routes  # a second run has no such step

                return routes.begin(step.one_family, step.text)
            case "drop":
                return later(lambda: self._drop(step))
            case "ipset" | "ipset destroy":
                return begin_ipset(step)
            case "nft":
                raise AssertionError(f"{self.name} has no tables of nft's own")
            case _:
                assert_never(step.tool)

    def _drop(self, step: Step) -> None:
        if not self.tables.delete_empty_table(step.one_family, step.text, NEW_TABLE):
            # Somebody has moved in since: the table is theirs now, and our mark goes alone.
            own_mark = f"*{step.text}\n:{NEW_TABLE} - [0:0]\n-X {NEW_TABLE}\nCOMMIT\n"
            self.tables.restore(step.one_family, own_mark)
