"""Program to the rules of iptables, in the words and the order in which iptables-save prints them.

A match with several values becomes one rule for each value (ports: for each 15 slots of multiport, of which a range
takes two; libxt_multiport). A negated match with several values becomes several matches of one rule.
"""

from __future__ import annotations

from itertools import product

from meshnet.model.errors import UnsupportedError
from meshnet.model.marks import FULL
from meshnet.model.names import rule_comment
from meshnet.model.plan import BEHIND, ChainText, EntryText, TableText
from meshnet.model.program import (
    TABLES,
    Accept,
    ConnmarkIs,
    CtDirection,
    CtState,
    Destination,
    DestinationPorts,
    Drop,
    InInterface,
    Jump,
    MarkIs,
    OutInterface,
    Owner,
    OwnerWithin,
    Protocol,
    Redirect,
    RestoreMark,
    Return,
    SaveMark,
    SetMark,
    SocketIs,
    Source,
    SourcePorts,
    Syn,
    Tproxy,
    Zone,
)
from meshnet.model.value import assert_never

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from meshnet.model.cidr import Cidr, Family
    from meshnet.model.marks import Mark
    from meshnet.model.ports import PortRange
    from meshnet.model.program import Hook, Match, Program, Rule, Table, Target
    from meshnet.render.ipset import Sets

MULTIPORT_SLOTS = 15
SET_FROM = 100
"""Entries from which a list is a set. Below, a rule for each costs a packet less than it can notice, and needs no
further tool."""

ANY = {4: "0.0.0.0", 6: "::"}  # noqa: S104 (no socket is bound to it; TPROXY reads it as the packet's interface)
PLACES: dict[type, int] = {
    kind: place
    for place, kind in enumerate(
        (Source, Destination, InInterface, OutInterface, Protocol, SourcePorts, DestinationPorts)
    )
}
"""iptables-save prints the matches that are part of every rule first, in this order."""

SYN_FLAGS = "--tcp-flags FIN,SYN,RST,ACK SYN"


def render(program: Program, sets: Sets | None = None) -> tuple[TableText, ...]:
    """One text for each family and table that the program has chains in; long lists become rules that look into
    ``sets``, when there may be such."""
    texts = _Texts(sets)
    return tuple(
        table
        for family in program.families
        for name in TABLES
        if (table := _table(program, family, name, texts)) is not None
    )


def long_lists(program: Program) -> list[Match]:
    """The matches of a program that have entries enough for a set."""
    rules = [*program.rules(), *(entry.rule for entry in program.entries)]
    return [match for rule in rules for match in rule.matches if _entries_of(match) >= SET_FROM]


def _entries_of(match: Match) -> int:
    if isinstance(match, (Source, Destination)):
        return len(match.cidrs)
    return len(match.ports) if isinstance(match, (SourcePorts, DestinationPorts)) else 0


class _Texts:
    """The texts of a program's rules; of a rule for both families they are the same, but where a family's address
    stands in its target."""

    __slots__ = ("_of_both", "_sets")

    def __init__(self, sets: Sets | None) -> None:
        self._sets = sets
        self._of_both: dict[int, tuple[str, ...]] = {}

    def of(self, rule: Rule, family: Family) -> tuple[str, ...]:
        if rule.family is not None or isinstance(rule.target, Tproxy):
            return tuple(rule_texts(rule, family, self._sets))
        place = id(rule)  # it lives as long as the program, and to hash it costs more than to write it
        if place not in self._of_both:
            self._of_both[place] = tuple(rule_texts(rule, family, self._sets))
        return self._of_both[place]


def _table(program: Program, family: Family, table: Table, texts: _Texts) -> TableText | None:
    chains = []
    called = _called(program, family, table)
    for chain in (chain for chain in program.chains if chain.table == table):
        rules = [rule for rule in chain.rules if rule.holds_for(family)]
        if rules or chain.name in called:
            chains.append(ChainText(chain.name, tuple(text for rule in rules for text in texts.of(rule, family))))
    entries = tuple(_entries(program, family, table, texts))
    return TableText(family, table, tuple(chains), entries) if chains or entries else None


def _called(program: Program, family: Family, table: Table) -> set[str]:
    """The chains that a rule of this family leads to: they have to be there, rules in them or not."""
    rules = [rule for chain in program.chains if chain.table == table for rule in chain.rules]
    rules += [entry.rule for entry in program.entries if entry.table == table]
    return {rule.target.chain for rule in rules if isinstance(rule.target, Jump) and rule.holds_for(family)}


def _entries(program: Program, family: Family, table: Table, texts: _Texts) -> Iterator[EntryText]:
    """The rules in built-in chains; those that go first are numbered in their order, hook by hook."""
    places: dict[Hook, int] = {}
    for entry in program.entries:
        if entry.table != table or not entry.rule.holds_for(family):
            continue
        for text in texts.of(entry.rule, family):
            if entry.first:
                places[entry.hook] = places.get(entry.hook, 0) + 1
            yield EntryText(entry.hook, text, places[entry.hook] if entry.first else BEHIND)


def comment(rule_id: str) -> str:
    return f'-m comment --comment "{rule_comment(rule_id)}"'


def rule_texts(rule: Rule, family: Family, sets: Sets | None = None) -> Iterator[str]:
    """The rules of iptables that one rule of the program becomes for one family."""
    transport = next((match.name for match in rule.matches if isinstance(match, Protocol)), "")
    matches = sorted(rule.matches, key=_place)
    if sets is None:
        choices = [_match(match, transport) for match in matches]
    else:
        in_sets = [_set_match(match, sets) for match in matches]
        choices = [_match(match, transport) for match, in_set in zip(matches, in_sets, strict=True) if not in_set]
        choices += [(in_set,) for in_set in in_sets if in_set]  # ``-m`` stands behind what is part of every rule
    tail = f"{comment(rule.id)} -j {_target(rule.target, family)}"
    for words in product(*choices):
        yield " ".join((*filter(None, words), tail))


def _place(match: Match) -> int:
    return PLACES.get(type(match), len(PLACES))


def _match(match: Match, transport: str) -> Sequence[str]:  # noqa: C901 (one case for one match is the point)
    """The alternatives, each as words of one rule."""
    match match:
        case Protocol(name):
            return (f"-p {name}",)
        case Source(cidrs, negated):
            return _blocks("-s", cidrs, negated)
        case Destination(cidrs, negated):
            return _blocks("-d", cidrs, negated)
        case InInterface(names, negated):
            return _each("-i", names, negated)
        case OutInterface(names, negated):
            return _each("-o", names, negated)
        case SourcePorts(ports, negated):
            return _ports(transport, "--sport", ports, negated)
        case DestinationPorts(ports, negated):
            return _ports(transport, "--dport", ports, negated)
        case Owner(kind, ids, negated):
            words = [f"-m owner {_not(negated)}--{kind}-owner {number}" for number in ids]
            return (" ".join(words),) if negated else words
        case OwnerWithin(ranges):
            return [f"-m owner --uid-owner {ids}" for ids in ranges]
        case MarkIs(mark, negated):
            return (f"-m mark {_not(negated)}--mark {_seen(mark)}",)
        case ConnmarkIs(mark, negated):
            return (f"-m connmark {_not(negated)}--mark {_seen(mark)}",)
        case CtState(states, negated):
            return (f"-m conntrack {_not(negated)}--ctstate {','.join(states)}",)
        case CtDirection(direction):
            return (f"-m conntrack --ctdir {direction}",)
        case SocketIs(transparent):
            return ("-m socket --transparent" if transparent else "-m socket",)
        case Syn(negated):
            return (f"-m tcp {_not(negated)}{SYN_FLAGS}",)
        case _:
            assert_never(match)


def _set_match(match: Match, sets: Sets) -> str:
    """The words that look a long list up in a set; empty for anything else."""
    match match:
        case Source(cidrs, negated) | Destination(cidrs, negated):
            found = sets.of_blocks(cidrs)
        case SourcePorts(ports, negated) | DestinationPorts(ports, negated):
            found = sets.of_ports(ports)
        case _:
            return ""
    side = "src" if isinstance(match, (Source, SourcePorts)) else "dst"
    return f"-m set {_not(negated)}--match-set {found.name} {side}" if found is not None else ""


def _not(negated: bool) -> str:
    return "! " if negated else ""


def _seen(mark: Mark) -> str:
    """A mark that is looked for: a full mask goes unsaid."""
    return f"{mark.number:#x}" if mark.mask == FULL else str(mark)


def _each(option: str, values: Sequence[object], negated: bool) -> Sequence[str]:
    if negated and len(values) > 1:
        raise UnsupportedError([f"iptables takes {option} once: it can't say 'none of these {len(values)}'"])
    return [f"{_not(negated)}{option} {item}" for item in values]


def _blocks(option: str, cidrs: Sequence[Cidr], negated: bool) -> Sequence[str]:
    """A block of all addresses is no words at all: the tools print none for it."""
    texts = _each(option, cidrs, negated)
    return [text if negated or not cidr.everything else "" for text, cidr in zip(texts, cidrs, strict=True)]


def _ports(transport: str, option: str, ports: tuple[PortRange, ...], negated: bool) -> Sequence[str]:
    """A single entry by the protocol's own match, more of them by multiport."""
    if len(ports) == 1:
        return (f"-m {transport} {_not(negated)}{option} {_span(ports[0])}",)
    groups: list[list[str]] = [[]]
    used = 0
    for entry in ports:
        slots = 1 if entry.single else 2
        if used + slots > MULTIPORT_SLOTS:
            groups.append([])
            used = 0
        groups[-1].append(_span(entry))
        used += slots
    words = [f"-m multiport {_not(negated)}{option}s {','.join(group)}" for group in groups]
    return (" ".join(words),) if negated else words


def _span(ports: PortRange) -> str:
    return str(ports.first) if ports.single else f"{ports.first}:{ports.last}"


def _target(target: Target, family: Family) -> str:
    match target:
        case Accept():
            return "ACCEPT"
        case Drop():
            return "DROP"
        case Return():
            return "RETURN"
        case Jump(chain):
            return chain
        case SetMark(mark):
            return f"MARK --set-xmark {mark}"
        case SaveMark(mask):
            return f"CONNMARK --save-mark --nfmask {mask:#x} --ctmask {mask:#x}"
        case RestoreMark(mask):
            return f"CONNMARK --restore-mark --nfmask {mask:#x} --ctmask {mask:#x}"
        case Zone(number):
            return f"CT --zone {number}"
        case Redirect(ports):
            return f"REDIRECT --to-ports {ports}"
        case Tproxy(port, mark):
            return f"TPROXY --on-port {port} --on-ip {ANY[family]} --tproxy-mark {mark}"
        case _:
            assert_never(target)
