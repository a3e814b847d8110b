"""The header space in classes: values of one field that no rule of either set tells apart are one value.

A dimension is a field and its classes, each with a value that stands for it; the first class is the most ordinary
one. A region is a set of classes for each dimension, as bits.
"""

from __future__ import annotations

from meshnet.model.cidr import BITS, LOOPBACK
from meshnet.model.marks import FULL
from meshnet.model.rule import (
    AddressesAre,
    AddressIs,
    AnyOf,
    IcmpIs,
    InSet,
    InterfaceIs,
    OwnerIs,
    PortIs,
    PortsAre,
    ProtocolIs,
    SenderIs,
    ToSocket,
    Translate,
    UnknownMatch,
)
from meshnet.simulate.matches import spanning, within

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from meshnet.model.cidr import Family
    from meshnet.model.host import AddressSet, Host
    from meshnet.model.rule import Condition
    from meshnet.model.ruleset import RuleSet

    Asked = Callable[[Any], bool]

NO_SOCKET, PLAIN_SOCKET, TRANSPARENT_SOCKET = 0, 1, 2
MOST_ID = 0xFFFFFFFE


class Dimension:
    """``mask_of`` answers which classes a question is true of."""

    def __init__(self, name: str, values: list[Any]) -> None:
        self.name = name
        self.values = values
        self.everything = (1 << len(values)) - 1
        self._masks: dict[object, int] = {}

    def mask_of(self, key: object, asked: Asked) -> int:
        found = self._masks.get(key)
        if found is None:
            found = sum(1 << place for place, item in enumerate(self.values) if asked(item))
            self._masks[key] = found
        return found


class Questions:
    """What the rules of both sets and the namespace ask of each field."""

    def __init__(self, sets: Iterable[RuleSet], host: Host, family: Family) -> None:
        self.family = family
        self._known = {item.name: item for item in host.sets}
        self.addresses: dict[str, list[Asked]] = {"source": [], "destination": []}
        self.address_values: dict[str, set[int]] = {"source": set(), "destination": set()}
        self.ports: dict[str, list[Asked]] = {"source": [], "destination": []}
        self.port_values: dict[str, set[int]] = {"source": set(), "destination": set()}
        self.protocols: set[int] = set()
        self.ids: dict[str, set[int]] = {"uid": set(), "gid": set()}
        self.groups = False
        self.listeners = False
        self.in_links: list[str] = []
        self.out_links: list[str] = []
        self.marks: set[tuple[int, int]] = set()
        self.mark_masks: set[int] = set()
        self.states: set[str] = set()
        self.opaque: list[tuple[str, ...]] = []
        for rules in sets:
            for table in rules.tables:
                for chain in table.chains:
                    for rule in chain.rules:
                        for item in rule.conditions:
                            self._ask(item)
                        self._act(rule.action)
        for block in self._blocks_of(host):
            for end in ("source", "destination"):
                self._block(end, *block)

    def _blocks_of(self, host: Host) -> Iterator[tuple[int, int]]:
        """Addresses that the kernel itself treats apart: its own, their networks, loopback, multicast, routes."""
        loopback = LOOPBACK[self.family]
        yield loopback.network, loopback.last
        every = (1 << BITS[self.family]) - 1
        for link in host.links:
            for address in link.addresses:
                if address.family == self.family:
                    low = address.number & ~(every >> address.prefix)
                    yield address.number, address.number
                    yield low, low | (every >> address.prefix)
        for route in host.routes:
            if route.block.family == self.family:
                yield route.block.network, route.block.last
        if self.family == 4:
            yield 0xE0000000, 0xEFFFFFFF
            yield 0xE0000000, 0xE00000FF
            yield 0, 0
            yield every, every
        else:
            yield 0xFF << 120, every
            yield 0, 0

    def _block(self, end: str, first: int, last: int) -> None:
        self.addresses[end].append(lambda value: first <= value <= last)
        self.address_values[end] |= {first, last, last + 1, first - 1}

    def _spans(self, ends: tuple[str, ...], spans: tuple[tuple[int, int], ...]) -> None:
        for end in ends:
            self.ports[end].append(spanning(spans))
            self.port_values[end] |= {port for first, last in spans for port in (first, last + 1, first - 1)}

    def _ask(self, item: Condition) -> None:  # noqa: C901 (one case for each condition)
        match item:
            case ProtocolIs(number, _):
                self.protocols.add(number)
            case AddressIs(end, network, mask, _):
                last = network | ~mask & ((1 << BITS[self.family]) - 1)
                self.addresses[end].append(lambda value: value & mask == network)
                self.address_values[end] |= {network, last, last + 1, network - 1}
            case AddressesAre(end, spans, _):
                self.addresses[end].append(spanning(spans))
                self.address_values[end] |= {n for low, high in spans for n in (low, high, high + 1, low - 1)}
            case AnyOf(options, _):
                for option in options:
                    self._ask(option)
            case SenderIs(kind, spans, _):
                self.ids[kind] |= {n for low, high in spans for n in (low, high, high + 1, low - 1)}
            case InterfaceIs(way, name, _):
                names = self.in_links if way == "in" else self.out_links
                names += [name[:-1] + "0", name[:-1] + "9"] if name.endswith("+") else [name]
            case PortIs(end, first, last, _):
                self._span((end,), first, last)
            case PortsAre(end, spans, _):
                self._spans(("source", "destination") if end == "either" else (end,), spans)
            case IcmpIs(number, _, _, _):
                self.protocols.add(1 if self.family == 4 else 58)
                if number is not None:
                    self._span(("destination",), number, number)
            case OwnerIs(uid, gid, groups, _):
                for name, ids in (("uid", uid), ("gid", gid)):
                    if ids is not None:
                        self.ids[name] |= {ids.first, ids.last, ids.last + 1, ids.first - 1}
                self.groups |= groups
            case InSet(name, sides, _) if name in self._known and self._known[name].dimensions == ("net",):
                self._in_set(self._known[name], "source" if sides[0] == "src" else "destination")
            case InSet(name, sides, _) if name in self._known and self._known[name].dimensions == ("port",):
                spans = tuple(member.ports for member in self._known[name].members if member.ports is not None)
                self._spans(("source" if sides[0] == "src" else "destination",), spans)
            case InSet(name, sides, _):
                self._opaque(("set", name, *sides))
            case UnknownMatch(words):
                self._opaque(words)
            case _:
                self._marked(item)

    def _in_set(self, known: AddressSet, end: str) -> None:
        blocks = [member.block for member in known.members if member.block is not None]
        self.addresses[end].append(within(blocks))
        for block in blocks:
            self.address_values[end] |= {block.network, block.last + 1, block.network - 1}

    def mark(self, number: int, mask: int) -> None:
        """Bits of a mark that are asked about or written under a mask."""
        self.marks.add((number, mask))
        self.mark_masks.add(mask)

    def _marked(self, item: Any) -> None:
        number, mask = getattr(item, "number", None), getattr(item, "mask", None)
        if number is not None and mask is not None:
            self.mark(number, mask)
        for name in ("packet_mask", "connection_mask"):
            self.mark_masks |= {getattr(item, name, 0)}
        self.states |= set(getattr(item, "states", ()))

    def _span(self, ends: Iterable[str], first: int, last: int) -> None:
        for end in ends:
            self.ports[end].append(lambda value: first <= value <= last)
            self.port_values[end] |= {first, last + 1, first - 1, last}

    def _opaque(self, words: tuple[str, ...]) -> None:
        if words not in self.opaque:
            self.opaque.append(words)

    def _act(self, action: Any) -> None:
        match action:
            case Translate(_, first, last, ports, _, _):
                for address in {first, last} - {None}:
                    assert address is not None
                    self._block("destination", address, address)
                    self._block("source", address, address)
                if ports is not None:
                    self._span(("destination", "source"), *ports)
                    for port in ports:
                        self._span(("destination", "source"), port, port)
            case ToSocket(port, address, number, mask):
                self.listeners = True
                self._span(("destination",), port, port)
                self.mark(number, mask)
                if address:
                    self._block("destination", address, address)
            case _:
                self._marked(action)


def classes(candidates: Iterable[Any], asked: Iterable[Asked]) -> list[Any]:
    """One value of the candidates for each way of answering all questions; earlier candidates are preferred."""
    questions = tuple(asked)
    found: dict[tuple[bool, ...], Any] = {}
    for candidate in candidates:
        found.setdefault(tuple(question(candidate) for question in questions), candidate)
    return list(found.values())


def addresses(questions: Questions, end: str, first: Iterable[int]) -> list[int]:
    most = (1 << BITS[questions.family]) - 1
    values = sorted(value for value in questions.address_values[end] if 0 <= value <= most)
    return classes((*first, *values), questions.addresses[end])


def ports(questions: Questions, end: str, first: Iterable[int]) -> list[int]:
    values = sorted(value for value in questions.port_values[end] if 0 <= value <= 65535)
    return classes((*first, *values), questions.ports[end])


def ids(questions: Questions, name: str) -> list[int]:
    """Every id that is a bound of a span, and one that is none."""
    values = sorted(value for value in questions.ids[name] if 0 <= value <= MOST_ID)
    return list(dict.fromkeys((_unnamed(values), *values)))


def _unnamed(values: list[int]) -> int:
    named = set(values)
    return next(number for number in range(1000, 100_000) if number not in named)


def marks(questions: Questions) -> list[int]:
    """Marks that rules tell apart. A question may come after some of the bits were written or copied, so it is asked
    of each part of the bits that a mask leaves; and after others were turned over (``--xor-mark``)."""
    asked: set[tuple[int, int]] = set()
    turned = {0, *(number & ~mask & FULL for number, mask in questions.marks)}
    masks = {FULL, *questions.mark_masks}
    parts = {part & other for part in _halves(masks) for other in _halves(masks)}
    for number, mask in questions.marks:
        for flip in turned:
            asked |= {(mask & part, (number ^ flip) & mask & part) for part in parts}
    named = sorted({number for _, number in asked} | {number for number, _ in questions.marks})
    beside = [number | ~mask & FULL for mask in sorted(masks) for number in named]
    return classes((0, *named, *beside, 0x40, 0x5A5A5A5A), [_bits_are(mask, number) for mask, number in sorted(asked)])


def _halves(masks: Iterable[int]) -> set[int]:
    return {half for mask in masks for half in (mask, ~mask & FULL)} | {FULL}


def _bits_are(mask: int, number: int) -> Asked:
    return lambda mark: bool(mark & mask == number)
