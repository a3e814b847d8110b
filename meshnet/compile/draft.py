"""The program while it is being written: passes append, in the order of the pipeline, and never look back."""

from __future__ import annotations

from meshnet.model.cidr import Cidr
from meshnet.model.program import TABLES, Chain, CtState, Entry, Jump, Program, Redirect, Return, Rule

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from meshnet.model.cidr import Family
    from meshnet.model.program import Hook, LocalRoute, LoopbackAddress, Match, PolicyRule, Table, Target
    from meshnet.model.spec import Spec

PRE, OUT = "MESHNET_PRE", "MESHNET_OUT"
INBOUND, DIVERT, SELF, GUEST = "MESHNET_INBOUND", "MESHNET_DIVERT", "MESHNET_SELF", "MESHNET_GUEST"


class Draft:
    """Chains by table and name, filled by the passes; ``finish`` drops what stayed empty."""

    def __init__(self, spec: Spec, families: tuple[Family, ...]) -> None:
        self.spec = spec
        self.families = families
        self._chains: dict[tuple[Table, str], list[Rule]] = {}
        self._entries: list[Entry] = []
        self.policy_rules: list[PolicyRule] = []
        self.local_routes: list[LocalRoute] = []
        self.loopback_addresses: list[LoopbackAddress] = []

    def add(
        self,
        chain: tuple[Table, str],
        rule_id: str,
        matches: Iterable[Match],
        target: Target,
        origin: str,
        family: Family | None = None,
    ) -> None:
        """Append a rule; its id is ``table.rule_id``."""
        table, _ = chain
        self._chains.setdefault(chain, []).append(Rule(f"{table}.{rule_id}", tuple(matches), target, origin, family))

    def enter(
        self,
        table: Table,
        hook: Hook,
        rule_id: str,
        matches: Iterable[Match],
        target: Target,
        origin: str,
        family: Family | None = None,
        *,
        first: bool = False,
    ) -> None:
        """A rule in a built-in chain, for a profile that writes there itself."""
        rule = Rule(f"{table}.{rule_id}", tuple(matches), target, origin, family)
        self._entries.append(Entry(table, hook, rule, first))

    def blocks(self, cidrs: Iterable[Cidr]) -> list[tuple[Family, tuple[Cidr, ...]]]:
        """The blocks by family, for the families of this program that have any."""
        found: dict[Family, list[Cidr]] = {family: [] for family in self.families}
        for cidr in cidrs:
            if cidr.family in found:
                found[cidr.family].append(cidr)
        return [(family, tuple(blocks)) for family, blocks in found.items() if blocks]

    def finish(self) -> Program:
        """The program of profile meshnet: what does nothing is left out, and an entry leads to each first chain."""
        kept = _in_order(self._translating(self._reachable()))
        hooks: tuple[tuple[Hook, str, str], ...] = (("PREROUTING", PRE, "in"), ("OUTPUT", OUT, "out"))
        entries = tuple(
            Entry(table, hook, Rule(f"{table}.{way}.entry", (), Jump(chain), ""))
            for table in TABLES
            for hook, chain, way in hooks
            if (table, chain) in kept
        )
        return self._program(kept, entries)

    def finish_as_written(self) -> Program:
        """The program of a profile that is another project's: every chain and rule, reachable or not."""
        return self._program(_in_order(self._chains), tuple(self._entries))

    def _program(self, chains: dict[tuple[Table, str], list[Rule]], entries: tuple[Entry, ...]) -> Program:
        return Program(
            self.spec.name,
            self.families,
            tuple(Chain(table, name, tuple(rules)) for (table, name), rules in chains.items()),
            entries,
            tuple(self.policy_rules),
            tuple(self.local_routes),
            tuple(self.loopback_addresses),
            self.spec.nftables.table,
        )

    def _translating(self, chains: dict[tuple[Table, str], list[Rule]]) -> dict[tuple[Table, str], list[Rule]]:
        """With a rule in nat that asks conntrack, in each family that has no redirection.

        Where this replaces a spec that redirected, the last chain of nat would take the kernel's translating along, and
        the last rule that needs conntrack its tracking: the next segment of an open connection then met a reset.
        """
        redirecting = [
            rule
            for (table, _), rules in chains.items()
            for rule in rules
            if table == "nat" and isinstance(rule.target, Redirect)
        ]
        lacking = [family for family in self.families if not any(rule.holds_for(family) for rule in redirecting)]
        if not lacking:
            return chains
        family = None if len(lacking) == len(self.families) else lacking[0]
        rule = Rule("nat.out.translation.keep", (CtState(("NEW",)),), Return(), "families", family)
        return {**chains, ("nat", OUT): [*chains.get(("nat", OUT), ()), rule]}

    def _reachable(self) -> dict[tuple[Table, str], list[Rule]]:
        """The chains that a packet can come to and that do something: more than returns, and jumps to nowhere.

        A pass writes its jump before it is known whether a later pass has anything for the chain behind it.
        """
        kept = dict(self._chains)
        while True:
            trimmed = {
                (table, name): [
                    rule for rule in rules if not isinstance(rule.target, Jump) or (table, rule.target.chain) in kept
                ]
                for (table, name), rules in kept.items()
            }
            called = {
                (table, rule.target.chain)
                for (table, _), rules in trimmed.items()
                for rule in rules
                if isinstance(rule.target, Jump)
            }
            trimmed = {
                key: rules
                for key, rules in trimmed.items()
                if (key[1] in (PRE, OUT) or key in called) and _does_something(rules)
            }
            if trimmed == kept:
                return _in_order(kept)
            kept = trimmed


def _does_something(rules: list[Rule]) -> bool:
    return any(not isinstance(rule.target, Return) for rule in rules)


def _in_order(chains: dict[tuple[Table, str], list[Rule]]) -> dict[tuple[Table, str], list[Rule]]:
    """By table in the packet's order, then by chain name: the text of a program doesn't depend on who jumped first."""
    order = {"raw": 0, "mangle": 1, "nat": 2}
    return dict(sorted(chains.items(), key=lambda item: (order[item[0][0]], item[0][1])))
