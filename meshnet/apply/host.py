"""The one door to a namespace for everything that reads or changes it: rules through a backend, routing through ip."""

from __future__ import annotations

from meshnet.kernel import routes
from meshnet.model.names import NEW_TABLE
from meshnet.model.value import assert_never

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    from meshnet.kernel.ports import PacketFilter
    from meshnet.model.cidr import Family
    from meshnet.model.plan import Step

    class Host(Protocol):
        """A namespace that the caller has entered. ``families``: those that have tools here. ``adopting``: what an
        istio-iptables run left counts as ours, to be replaced or taken away."""

        @property
        def name(self) -> str: ...
        @property
        def families(self) -> tuple[Family, ...]: ...
        @property
        def adopting(self) -> bool: ...
        def save(self, family: Family, counters: bool = False) -> str: ...
        def read_routing(self, family: Family) -> str: ...
        def do(self, step: Step) -> None: ...


class LiveHost:
    """The real thing. ``tables`` is a backend's adapter."""

    def __init__(self, tables: PacketFilter, families: tuple[Family, ...], *, adopting: bool = False) -> None:
        self.tables = tables
        self.families = families
        self.adopting = adopting

    @property
    def name(self) -> str:
        return self.tables.name

    def save(self, family: Family, counters: bool = False) -> str:
        return self.tables.save(family, counters=counters)

    def read_routing(self, family: Family) -> str:
        return routes.answer(routes.ask(family), family)

    def do(self, step: Step) -> None:
        """Carry out one step, or raise with the tool's words."""
        match step.tool:
            case "restore":
                self.tables.restore(step.family, step.text)
            case "ip":
                routes.write(step.family, step.text)
            case "drop":
                if not self.tables.delete_empty_table(step.family, step.text, NEW_TABLE):
                    # Somebody has moved in since: the table is theirs now, and our mark goes alone.
                    own_mark = f"*{step.text}\n:{NEW_TABLE} - [0:0]\n-X {NEW_TABLE}\nCOMMIT\n"
                    self.tables.restore(step.family, own_mark)
            case _:
                assert_never(step.tool)
