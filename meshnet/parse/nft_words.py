"""The questions that rules of nftables ask besides addresses, ports and protocols, each to a condition."""

from __future__ import annotations

from meshnet.model.marks import FULL
from meshnet.model.protocols import TCP_FLAGS
from meshnet.model.ranges import name_of
from meshnet.model.rule import (
    AddressType,
    AnyOf,
    ConnectionIs,
    ConnectionMark,
    FlagsAre,
    IcmpIs,
    InterfaceIs,
    PacketMark,
    SocketFound,
)
from meshnet.parse.matches import ICMP6_NAMES, ICMP_NAMES
from meshnet.parse.nft_values import Unclear, interface_name, numeral

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from meshnet.model.cidr import Family
    from meshnet.model.nft import NftSet, SetType
    from meshnet.model.rule import Condition
    from meshnet.parse.nft_values import Spans

STATES = ("invalid", "established", "related", "new", "untracked")
NO_VALUES = frozenset(("map", "vmap", *".:,(){}&|^<>", "<<", ">>", "<=", ">="))
BIT_SIGNS = {"&": "&", "and": "&", "|": "|", "or": "|", "^": "^", "xor": "^"}


class Words:
    """A rule's words, and how far they are read. IndexError at their end, which is a phrase that was cut off."""

    def __init__(self, tokens: list[str], sets: Mapping[str, NftSet]) -> None:
        self.tokens = tokens
        self.sets = sets
        self.place = 0

    @property
    def left(self) -> int:
        return len(self.tokens) - self.place

    def peek(self) -> str:
        return self.tokens[self.place] if self.left else ""

    def next(self) -> str:
        found = self.tokens[self.place]
        self.place += 1
        return found

    def takes(self, word: str) -> bool:
        if self.peek() != word:
            return False
        self.place += 1
        return True

    def wants(self, word: str) -> None:
        if not self.takes(word):
            raise Unclear

    def negated(self) -> bool:
        return self.takes("!=") or (self.takes("==") and False)

    def values(self) -> list[str]:
        """One value, or those of a set without a name; none of an expression or a map."""
        inside = self.takes("{")
        listed = [self.next()]
        while inside and self.takes(","):
            listed.append(self.next())
        if inside:
            self.wants("}")
        if self.peek() in NO_VALUES or NO_VALUES & set(listed):
            raise Unclear
        return listed

    def named(self, kind: SetType) -> Spans:
        """The values of a set with a name, which has to be of this type."""
        found = self.sets.get(self.next().removeprefix("@"))
        if found is None or found.type != kind:
            raise Unclear
        return found.ranges

    def bits(self, known: Mapping[str, int]) -> int:
        """``a``, ``a,b``, ``a | b`` or ``(a | b)``."""
        inside = self.takes("(")
        found = known_bit(known, self.next())
        while self.takes("|") or self.takes(","):
            found |= known_bit(known, self.next())
        if inside:
            self.wants(")")
        return found


def known_bit(known: Mapping[str, int], word: str) -> int:
    if word not in known:
        raise Unclear
    return known[word]


def conntrack(words: Words) -> list[Condition]:
    field = words.next()
    if field == "mark":
        return mark(words, connection=True)
    if field == "direction":
        negated, way = words.negated(), words.next()
        if way not in ("original", "reply"):
            raise Unclear
        return [ConnectionIs(direction="REPLY" if (way == "reply") != negated else "ORIGINAL")]
    if field == "state":
        return [_state(words)]
    if field == "status":
        return [_status(words)]
    raise Unclear


def _state(words: Words) -> Condition:
    """A packet has one state, so that "none of these bits" and "not this one" are the same to it."""
    known = {name: 1 << place for place, name in enumerate(STATES)}
    if words.takes("&"):
        bits = words.bits(known)
        negated = words.takes("==")
        if not negated:
            words.wants("!=")
        words.wants("0")
    elif words.takes("!"):
        bits, negated = words.bits(known), True
    else:
        negated = words.negated()
        bits = sum({known_bit(known, word) for word in words.values()}) if words.peek() == "{" else words.bits(known)
    return ConnectionIs(tuple(name.upper() for name in STATES if bits & known[name]), negated)


def _status(words: Words) -> Condition:
    negated = words.takes("!")
    if negated or not words.takes("&"):
        return ConnectionIs((_translated(words),), negated, tracked=True)
    end = _translated(words)
    words.wants("==")
    words.wants("0")
    return ConnectionIs((end,), True, tracked=True)


def _translated(words: Words) -> str:
    end = words.next()
    if end not in ("dnat", "snat"):
        raise Unclear
    return end.upper()


def mark(words: Words, *, connection: bool) -> list[Condition]:
    kind = ConnectionMark if connection else PacketMark
    mask = FULL
    if BIT_SIGNS.get(words.peek()) == "&":
        words.place += 1
        mask = numeral(words.next())
        if words.peek() not in ("==", "!="):
            raise Unclear
    negated = words.negated()
    numbers = [numeral(word) for word in words.values()]
    if len(numbers) == 1:
        return [kind(numbers[0], mask, negated)]
    if connection and negated:
        raise Unclear  # what has no connection fits no phrase about its mark, and would fit the negation of several
    return [AnyOf(tuple(kind(number, mask) for number in numbers), negated)]


def interface(words: Words, word: str) -> list[Condition]:
    way = "in" if word.startswith("iif") else "out"
    negated = words.negated()
    if words.peek().startswith("@"):
        names = [name_of(first) for first, _ in words.named("ifname")]
    else:
        names = [_interface(name) for name in words.values()]
    if not word.endswith("name") and any(name[:1].isdigit() for name in names):
        raise Unclear  # a number, of which a namespace knows the interface
    if len(names) == 1:
        return [InterfaceIs(way, names[0], negated)]  # type: ignore[arg-type]
    return [AnyOf(tuple(InterfaceIs(way, name) for name in names), negated)]  # type: ignore[arg-type]


def _interface(word: str) -> str:
    """A name, or the beginning of one: ``eth*``."""
    name = word.strip('"')
    return f"{interface_name(name[:-1])}+" if len(name) > 1 and name.endswith("*") else interface_name(word)


def flags(words: Words) -> Condition:
    """``& MASK == FLAGS``, or ``FLAGS / MASK`` as nft 1.0 prints it."""
    known = {name.lower(): bit for name, bit in TCP_FLAGS.items()}
    if words.takes("&"):
        mask = words.bits(known)
        negated = words.takes("!=")
        if not negated:
            words.wants("==")
        return FlagsAre(mask, words.bits(known), negated)
    negated = words.negated()
    wanted = words.bits(known)
    words.wants("/")
    return FlagsAre(words.bits(known), wanted, negated)


def socket(words: Words) -> list[Condition]:
    """nft_socket.c; a listener on the wildcard is a socket to it."""
    words.wants("transparent")
    if words.takes("<="):
        words.wants("1")
        return [SocketFound(nowildcard=True)]
    words.takes("==")
    words.wants("1")
    return [SocketFound(transparent=True, nowildcard=True)]


def local(words: Words) -> list[Condition]:
    """``fib daddr type local``; of other types nft and the routing tables have each their own notion."""
    end = words.next()
    words.wants("type")
    negated = words.negated()
    words.wants("local")
    if end == "daddr":
        return [AddressType(destination=("LOCAL",), destination_negated=negated)]
    if end == "saddr":
        return [AddressType(source=("LOCAL",), source_negated=negated)]
    raise Unclear


def icmp(words: Words, family: Family) -> Condition:
    known = ICMP_NAMES if family == 4 else ICMP6_NAMES
    negated = words.negated()
    made = [IcmpIs(known[word] if word in known else numeral(word, 255)) for word in words.values()]
    if len(made) == 1:
        return IcmpIs(made[0].number, negated=negated)
    return AnyOf(tuple(made), negated)
