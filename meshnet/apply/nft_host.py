"""A namespace seen through nftables: our table through netlink and ``nft``, routing as every backend has it."""

from __future__ import annotations

from meshnet.apply.host import Surroundings, begin_ipset
from meshnet.kernel import nft, nft_read, routes
from meshnet.model.errors import MeshnetError
from meshnet.model.names import COMMENT_PREFIX, ISTIO_TABLES
from meshnet.model.value import assert_never, replace
from meshnet.parse.nftables import Understood, understand

TYPE_CHECKING = False
if TYPE_CHECKING:
    from meshnet.kernel.ports import Work
    from meshnet.model.cidr import Family
    from meshnet.model.nft import NftTable, RawTable
    from meshnet.model.plan import Step

NAME = "nftables"


def own_tables(tables: tuple[RawTable, ...]) -> tuple[RawTable, ...]:
    """Those that bear our mark, whatever their names."""
    return tuple(table for table in tables if table.comment.startswith(COMMENT_PREFIX))


def _printed(table: str) -> str:
    """What we have no words for can be put back by a roll-back only as nft says it; nobody else needs it.

    Empty where nft can't: diff does without the program, and versions before 1.1 die of what later ones wrote, which
    is no reason to refuse a repair or a removal.
    """
    try:
        return nft.listed(table)
    except MeshnetError:
        return ""


class NftHost(Surroundings):
    """A namespace that the caller has entered; of the shape of ``host.Host``."""

    name = NAME

    def __init__(self, families: tuple[Family, ...], *, adopting: bool = False) -> None:
        self.families = families
        self.adopting = adopting
        self._able = False

    def save(self, counters: bool = False) -> dict[Family, str]:
        """No table of iptables: those are other backends'."""
        del counters
        return {}

    def read_tables(self) -> tuple[tuple[NftTable, ...], frozenset[str]]:
        """Our tables, and the names of those of family inet that aren't ours."""
        there = nft_read.tables()
        left = [table for table in there if self.adopting and table.name in ISTIO_TABLES]
        mine = own_tables(there)
        tables = [understand(nft_read.content(table)).table for table in mine]
        tables = [replace(table, text=_printed(table.name)) if table.strange else table for table in tables]
        # Of these not even the comment is ours to write.
        tables += [
            replace(understand(nft_read.content(table)).table, text=_printed(table.name))
            for table in left
            if table not in mine
        ]
        return tuple(tables), frozenset(table.name for table in there if table not in (*mine, *left))

    def counted(self) -> tuple[Understood, ...]:
        """Our tables with the packets that each rule has seen."""
        return tuple(understand(nft_read.content(table)) for table in own_tables(nft_read.tables()))

    def begin(self, step: Step) -> Work[object]:
        """Start one step. Ahead of the first one nft says its version: routing must not change for rules that then
        can't be written."""
        if not self._able:
            nft.begin_version().finish()
            self._able = True
        match step.tool:
            case "nft":
                return nft.begin(step.text)
            case "ip":
                return routes.begin(step.one_family, step.text)
            case "ipset" | "ipset destroy":
                return begin_ipset(step)
            case "restore" | "drop":
                raise AssertionError(f"{step.tool} is not for {self.name}")
            case _:
                assert_never(step.tool)
