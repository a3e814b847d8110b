"""Which rules no packet can reach, and which rules take all of theirs.

Every kind of packet is walked, as ``compare`` does it, and the rules that fitted are struck off. What is left over is
asked a second time in rules that are the same but for the ends ahead of it: where an ACCEPT, a RETURN or a REDIRECT
is made to go on, packets come through, and the first such rule on the way of each is the one that takes it.
"""

from __future__ import annotations

from meshnet.model.rule import (
    Accept,
    AddressIs,
    AddressType,
    Call,
    Drop,
    FlagsAre,
    Fragment,
    IcmpIs,
    Note,
    OwnerIs,
    PortIs,
    Reject,
    Return,
    ToSocket,
    Translate,
    UnknownTarget,
)
from meshnet.model.ruleset import HeldTable, RuleSet
from meshnet.model.value import replace, value
from meshnet.simulate.around import opened_host
from meshnet.simulate.compare import Exploration, Side, ways_out
from meshnet.simulate.merge import merged
from meshnet.simulate.packet import ACK, SYN

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from meshnet.model.flow import Way
    from meshnet.model.host import AddressSet, Host
    from meshnet.model.rule import Action
    from meshnet.model.ruleset import HeldRule

    Spot = tuple[str, str, int]
    Hops = list[tuple[str, str, str, int, HeldRule | None, str, int]]

LONG = 24
"""A run of this many rules that differ in a block or a port alone is walked as one rule about a set."""

SORTS = frozenset(("LOCAL", "UNICAST", "BROADCAST", "MULTICAST"))
STOPS = (Drop, Reject, Translate, ToSocket, UnknownTarget)
"""Actions that keep a packet from a later table, or change what that table sees of it."""


@value
class Place:
    """A rule's place; ``number`` is from 1."""

    table: str
    chain: str
    number: int


@value
class Unreached:
    """A rule that no packet reaches. ``takers`` take all its packets, in the order in which they stand; ``doubt`` is
    why that isn't certain, and empty where it is.

    Without takers: nothing leads to its chain (``loose``), or nothing that comes there fits its words.
    """

    place: Place
    takers: tuple[Place, ...] = ()
    loose: bool = False
    doubt: str = ""


def unreached(held: RuleSet, hosts: Iterable[Host]) -> tuple[Unreached, ...]:
    """Every rule that no packet reaches in any of the namespaces, but for those that only a rule in this list leads to.

    A namespace is taken as open as its sysctls could make it, so that what is said holds for the rules. RulesError for
    rules that no kernel takes.
    """
    search = _Search(held, [opened_host(host) for host in hosts])
    return tuple(sorted(search.run(), key=search.order))


class _Search:
    def __init__(self, held: RuleSet, hosts: list[Host]) -> None:
        numbered, self._lines = _numbered(held)
        small, sets = merged(numbered, "run ", LONG)
        self._small = small
        self._hosts = [replace(host, sets=(*host.sets, *sets)) for host in hosts]
        self._held = held
        self._bases = _bases(held)
        self._rules: dict[Spot, HeldRule] = {
            (table.name, chain.name, number): rule
            for table in small.tables
            for chain in table.chains
            for number, rule in enumerate(chain.rules, 1)
        }

    def order(self, item: Unreached) -> int:
        return self._lines.index((item.place.table, item.place.chain, item.place.number))

    def run(self) -> Iterator[Unreached]:
        yield from self._within_runs()
        left = set(self._rules)
        for hops in self._walks(self._small):
            left -= {(hop[1], hop[2], hop[3]) for hop in hops}
            if not left:
                return
        led_to = self._led_to()
        asked: list[Spot] = []
        for spot in self._rules:
            if spot not in left:
                continue
            callers = led_to.get(spot[:2])
            if callers is not None and callers <= left:
                continue  # told of the rules that lead there, of which it is the consequence
            if callers is None and spot[1] not in self._bases[spot[:2]]:
                if spot[2] == 1:
                    named = any(_names(rule.action, spot[1]) for rule in self._rules.values())
                    doubt = "a rule that nobody knows names its chain" if named else ""
                    yield Unreached(self._place(spot), loose=not named, doubt=doubt)
            elif doubt := _beyond(self._rules[spot]):
                yield Unreached(self._place(spot), doubt=doubt)
            else:
                asked.append(spot)
        yield from self._judged(asked)

    def _led_to(self) -> dict[tuple[str, str], set[Spot]]:
        """The rules that lead to each chain."""
        found: dict[tuple[str, str], set[Spot]] = {}
        for spot, rule in self._rules.items():
            if isinstance(rule.action, Call):
                found.setdefault((spot[0], rule.action.chain), set()).add(spot)
        return found

    def _judged(self, asked: list[Spot]) -> Iterator[Unreached]:
        """Chain by chain, as one look at a chain with its ends opened answers for all of its rules."""
        found: dict[Spot, set[Spot]] = {}
        for chain in dict.fromkeys(spot[:2] for spot in asked):
            here = [spot for spot in asked if spot[:2] == chain]
            found |= self._takers(here, self._ends_in_chain(*chain))
        for spot in asked:
            if spot not in found:
                found |= self._takers([spot], self._ends_anywhere(spot))
            yield self._told(spot, found.get(spot, set()))

    def _told(self, spot: Spot, takers: set[Spot]) -> Unreached:
        place, doubt = self._place(spot), ""
        if any(isinstance(self._rules[taker].action, UnknownTarget) for taker in takers):
            doubt = "nobody knows what becomes of a packet at a rule ahead of it"
        elif not takers and any(isinstance(rule.action, UnknownTarget) for rule in self._rules.values()):
            doubt = "a target that nobody knows may change what comes to it"
        order = list(self._rules)
        return Unreached(place, tuple(self._place(taker) for taker in sorted(takers, key=order.index)), doubt=doubt)

    def _ends_in_chain(self, table: str, chain: str) -> set[Spot]:
        """The ends of a chain, and the verdicts in the chains that are called from there."""
        found: set[Spot] = set()
        for spot, rule in self._rules.items():
            if spot[:2] == (table, chain):
                if _ends(rule.action):
                    found.add(spot)
                if isinstance(rule.action, Call):
                    found |= self._verdicts(table, rule.action.chain, set())
        return found

    def _verdicts(self, table: str, chain: str, seen: set[str]) -> set[Spot]:
        if chain in seen:
            return set()
        seen.add(chain)
        found: set[Spot] = set()
        for spot, rule in self._rules.items():
            if spot[:2] == (table, chain):
                if isinstance(rule.action, Call):
                    found |= self._verdicts(table, rule.action.chain, seen)
                elif _ends(rule.action) and not isinstance(rule.action, Return):
                    found.add(spot)
        return found

    def _ends_anywhere(self, spot: Spot) -> set[Spot]:
        """All that may keep packets from a rule: ends in its chain and those that lead to it, verdicts behind the same
        base chain, and what stops or changes packets elsewhere."""
        led_to = self._led_to()
        above, todo = {spot[1]}, [spot[1]]
        while todo:
            for caller in led_to.get((spot[0], todo.pop()), ()):
                if caller[1] not in above:
                    above.add(caller[1])
                    todo.append(caller[1])
        found: set[Spot] = set()
        for other, rule in self._rules.items():
            action = rule.action
            if other == spot or not _ends(action):
                continue
            if not self._bases[other[:2]] & self._bases[spot[:2]]:
                if isinstance(action, STOPS):
                    found.add(other)
            elif other[1] in above or not isinstance(action, Return | Call):
                found.add(other)
        return found

    def _takers(self, asked: list[Spot], opens: set[Spot]) -> dict[Spot, set[Spot]]:
        """With some ends opened: the first one on the way of each packet that gets to a rule now."""
        found: dict[Spot, set[Spot]] = {}
        for hops in self._walks(_opened(self._small, opens)) if opens else ():
            for at, hop in enumerate(hops):
                spot: Spot = (hop[1], hop[2], hop[3])
                if spot in asked and (taker := self._taker(hops[:at], hop[0], spot, opens)) is not None:
                    found.setdefault(spot, set()).add(taker)
        return found

    def _walks(self, rules: RuleSet) -> Iterator[Hops]:
        """The hops of one packet of each kind, in each namespace."""
        ways: tuple[Way, ...] = ("in", "out")
        for host in self._hosts:
            side = Side(rules, host)
            for way in ways:
                for link in ways_out(side, side):
                    yield from _Walks(side, way, link).all()

    def _taker(self, ahead: Hops, hook: str, spot: Spot, opens: set[Spot]) -> Spot | None:
        for place, hop in enumerate(ahead):
            taker: Spot = (hop[1], hop[2], hop[3])
            if taker in opens and taker != spot and self._takes(taker, hop[0], hook, spot):
                return self._in_own_chain(ahead[: place + 1], spot, hook)
        return None

    def _takes(self, taker: Spot, hook: str, here: str, spot: Spot) -> bool:
        """An ACCEPT or RETURN ends the base chain that it is in, and keeps no packet from a later one."""
        if isinstance(self._rules[taker].action, STOPS):
            return True
        return hook == here and taker[0] == spot[0] and bool(self._bases[taker[:2]] & self._bases[spot[:2]])

    def _in_own_chain(self, hops: Hops, spot: Spot, hook: str) -> Spot:
        """The taker, or the rule of the same chain that led to it: that is the one to move."""
        taker = hops[-1]
        for hop in reversed(hops):
            if hop[0] == hook and hop[1:3] == spot[:2]:
                return hop[1], hop[2], hop[3]
        return taker[1], taker[2], taker[3]

    def _place(self, spot: Spot) -> Place:
        """Where a rule of the walked set stands in the one that was asked about."""
        return Place(*self._lines[self._rules[spot].line - 1])

    def _within_runs(self) -> Iterator[Unreached]:
        """Of a long run that was walked as one rule: whose block or port lies in that of one ahead in the run."""
        first = {rule.line for rule in self._rules.values()}
        run: list[tuple[Spot, tuple[int, int], object]] = []
        for line, spot in enumerate(self._lines, 1):
            table = self._held.table(spot[0])
            chain = table.chain(spot[1]) if table is not None else None
            assert chain is not None
            if line in first:
                run = []
            span, rest = _span(chain.rules[spot[2] - 1])
            covering = [
                other for other, (low, high), same in run if same == rest and low <= span[0] and span[1] <= high
            ]
            if covering:
                yield Unreached(Place(*spot), (Place(*covering[0]),))
            run.append((spot, span, rest))


def _bases(held: RuleSet) -> dict[tuple[str, str], set[str]]:
    """For each chain the base chains that a packet comes to it from, itself included."""
    found: dict[tuple[str, str], set[str]] = {}
    for table in held.tables:
        for chain in table.chains:
            found.setdefault((table.name, chain.name), set())
        for base in (chain for chain in table.chains if table.base(chain) is not None):
            todo = [base.name]
            while todo:
                name = todo.pop()
                inside = table.chain(name)
                if inside is not None and base.name not in found[table.name, name]:
                    found[table.name, name].add(base.name)
                    todo += [rule.action.chain for rule in inside.rules if isinstance(rule.action, Call)]
    return found


def _span(rule: HeldRule) -> tuple[tuple[int, int], object]:
    """A rule's last block or port as a span, and what is left of the rule without it."""
    for place in range(len(rule.conditions) - 1, -1, -1):
        item = rule.conditions[place]
        rest = (*rule.conditions[:place], *rule.conditions[place + 1 :])
        if isinstance(item, AddressIs) and not item.negated:
            low = item.network
            return (low, low | ~item.mask & ((1 << 128) - 1 if item.mask >> 32 else 0xFFFFFFFF)), (rest, item.end)
        if isinstance(item, PortIs) and not item.negated:
            return (item.first, item.last), (rest, item.end)
    return (0, 0), rule


def _numbered(held: RuleSet) -> tuple[RuleSet, list[Spot]]:
    """The rules with their number in the whole set as their line, which outlives a merger."""
    lines: list[Spot] = []
    tables = []
    for table in held.tables:
        chains = []
        for chain in table.chains:
            rules = []
            for number, rule in enumerate(chain.rules, 1):
                lines.append((table.name, chain.name, number))
                rules.append(replace(rule, line=len(lines)))
            chains.append(replace(chain, rules=tuple(rules)))
        tables.append(HeldTable(table.name, tuple(chains)))
    return RuleSet(held.family, tuple(tables)), lines


def _names(action: Action, chain: str) -> bool:
    """Whether a target that nobody knows, such as a verdict map of nftables, may lead to a chain."""
    return isinstance(action, UnknownTarget) and chain in action.words


def _ends(action: Action) -> bool:
    """Whether what fits goes no further in the chain."""
    if isinstance(action, Call):
        return action.goto
    return isinstance(action, (Accept, Return, *STOPS))


def _opened(held: RuleSet, opens: set[Spot]) -> RuleSet:
    """The rules with some ends made to go on; a ``goto`` comes back, and no policy drops."""

    def rule_at(spot: Spot, rule: HeldRule) -> HeldRule:
        if spot not in opens:
            return rule
        if isinstance(rule.action, Call):
            return replace(rule, action=Call(rule.action.chain))
        return replace(rule, action=Note(("opened",)))

    return RuleSet(
        held.family,
        tuple(
            HeldTable(
                table.name,
                tuple(
                    replace(
                        chain,
                        policy="ACCEPT" if chain.policy else "",
                        rules=tuple(rule_at((table.name, chain.name, n), r) for n, r in enumerate(chain.rules, 1)),
                    )
                    for chain in table.chains
                ),
            )
            for table in held.tables
        ),
    )


class _Walks(Exploration):
    """``compare``'s exploration of one rule set alone, with more states: a segment in the middle of a connection that
    nobody has met is NEW as well, and what is related may go either way."""

    def __init__(self, side: Side, way: Way, link: str) -> None:
        super().__init__(side, side, way, link)

    def small(self, rules: RuleSet, prefix: str) -> tuple[RuleSet, tuple[AddressSet, ...]]:
        del prefix
        return rules, ()

    def states(self, named: set[str]) -> list[tuple[str, bool, str]]:
        return [*super().states(named), ("NEW", False, "midway"), ("RELATED", True, "")]

    def all(self) -> Iterator[Hops]:
        for chosen in self.regions_of():
            yield self.walk(chosen).packet.hops


def _beyond(rule: HeldRule) -> str:
    """What a rule asks that no walked packet answers; empty if there is nothing."""
    for item in rule.conditions:
        match item:
            case Fragment():
                return "fragments aren't followed: conntrack has put them together"
            case FlagsAre(mask, wanted, negated) if not any(
                (flags & mask == wanted) != negated for flags in (SYN, ACK)
            ):
                return "of TCP's flags only SYN and ACK are followed"
            case IcmpIs(number, first, last, _) if number is not None and (first, last) != (0, 255):
                return "codes of ICMP aren't followed"
            case OwnerIs(socket=False):
                return "packets without a socket aren't followed"
            case AddressType(source=source, destination=destination) if not SORTS.issuperset((*source, *destination)):
                return "not every sort of address is followed"
    return ""
