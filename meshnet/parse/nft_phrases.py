"""The words of one rule of nftables, as conditions and an action of the model.

Read from left to right, as the kernel runs them. At the first word that isn't understood the reading ends, and the rest
of the rule stays as it is: nobody can tell where a phrase ends that he doesn't know. What is known in front of it still
says which packets come that far.
"""

from __future__ import annotations

import re

from meshnet.model.cidr import BITS
from meshnet.model.rule import (
    Accept,
    AddressesAre,
    AddressIs,
    AnyOf,
    Call,
    Comment,
    Drop,
    Note,
    Nothing,
    PortIs,
    PortsAre,
    ProtocolIs,
    PutMark,
    Return,
    SenderIs,
    ToSocket,
    UnknownMatch,
    UnknownTarget,
)
from meshnet.model.value import replace, value
from meshnet.parse.nft_statements import statement
from meshnet.parse.nft_values import Unclear, numeral, spans_of
from meshnet.parse.nft_words import Words, conntrack, flags, icmp, interface, local, mark, socket

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from meshnet.model.cidr import Family
    from meshnet.model.nft import NftSet, SetType
    from meshnet.model.rule import Action, Condition, End
    from meshnet.parse.nft_values import Spans

TOKEN = re.compile(r'"[^"]*"|[{}(),]|[^\s{}(),"]+|"')
PLAIN: dict[str, Action] = {"accept": Accept(), "drop": Drop(), "return": Return(), "continue": Nothing()}
JUMPS = ("jump", "goto")
NUMBERS = {"tcp": 6, "udp": 17, "sctp": 132, "dccp": 33, "udplite": 136, "icmp": 1, "icmpv6": 58, "ipv6-icmp": 58}
IP: dict[str, Family] = {"ip": 4, "ip6": 6}
NFPROTO: dict[str, Family] = {"ipv4": 4, "ipv6": 6, "ip": 4, "ip6": 6}
ENDS: dict[str, End] = {"saddr": "source", "daddr": "destination", "sport": "source", "dport": "destination"}
SETS: dict[Family, SetType] = {4: "ipv4_addr", 6: "ipv6_addr"}


@value
class Said:
    """What a rule says of packets of these ``families``, and its words without counters and comment."""

    families: tuple[Family, ...]
    conditions: tuple[Condition, ...]
    action: Action
    words: str


def read_rule(text: str, sets: Mapping[str, NftSet]) -> Said:
    """Never fails: what isn't understood is in it as unknown."""
    return _Rule(text, sets).read()


class _Rule:
    def __init__(self, text: str, sets: Mapping[str, NftSet]) -> None:
        found = list(TOKEN.finditer(text))
        tokens = [item[0] for item in found]
        self._text = text
        self._spans = [item.span() for item in found]
        self._comment = ""
        if len(tokens) > 1 and tokens[-2] == "comment":
            self._comment = tokens[-1].strip('"')
            del tokens[-2:]
        self._words = Words(tokens, sets)
        self._families: tuple[Family, ...] = (4, 6)
        self._conditions: list[Condition] = []
        self._actions: list[Action] = []
        self._shown: list[str] = []
        self._acts_from: int | None = None
        """The place of the first word that does something."""

    def read(self) -> Said:
        words = self._words
        action: Action | None = None
        while words.left and action is None:
            start = words.place
            try:
                counted = self._phrase()
            except (Unclear, IndexError):
                words.place = start
                action = self._unknown()
                counted = False
                words.place = len(words.tokens)
            if not counted:
                self._shown.append(self._text[self._spans[start][0] : self._spans[words.place - 1][1]])
        if action is None:
            action = self._action()
        comment = (Comment(self._comment),) if self._comment else ()
        return Said(self._families, (*self._conditions, *comment), action, " ".join(self._shown))

    def _phrase(self) -> bool:
        """One phrase; whether it only counts. Unclear for one that isn't known."""
        words = self._words
        if words.takes("counter"):
            if words.takes("packets"):
                words.place += 3
            return True
        start = words.place
        done = self._done()
        if done is not None:
            if self._acts_from is None and not isinstance(done, Note):
                self._acts_from = start
            self._actions.append(done)
            return False
        if any(not isinstance(item, Note) for item in self._actions):
            raise Unclear  # a question behind what has changed the packet
        self._conditions += self._condition()
        return False

    def _done(self) -> Action | None:
        """What the next words do, a verdict being the last of them; None if they ask."""
        words = self._words
        word = words.peek()
        if word not in PLAIN and word not in JUMPS:
            return statement(words, self._only)
        words.place += 1
        verdict = PLAIN[word] if word in PLAIN else Call(words.next(), goto=word == "goto")
        if words.left:
            raise Unclear
        return verdict

    def _only(self, family: Family) -> None:
        self._families = tuple(each for each in self._families if each == family)

    def _condition(self) -> list[Condition]:
        words = self._words
        word = words.next()
        if word in IP:
            return self._network(word, words.next())
        if word in NUMBERS or word == "th":
            return self._transport(word, words.next())
        if word == "meta":
            word = words.next()
        readers: dict[str, Callable[[Words], list[Condition]]] = {"ct": conntrack, "socket": socket, "fib": local}
        if word in readers:
            return readers[word](words)
        if word in ("iifname", "oifname", "iif", "oif"):
            return interface(words, word)
        if word == "mark":
            return mark(words, connection=False)
        if word in ("skuid", "skgid"):
            negated = words.negated()
            kind: SetType = "uid" if word == "skuid" else "gid"
            return [SenderIs(kind, _spans(words, kind), negated)]  # type: ignore[arg-type]
        if word == "l4proto":
            return [_protocol(words)]
        if word in ("nfproto", "protocol"):
            negated, family = words.negated(), NFPROTO.get(words.next())
            if family is None:
                raise Unclear
            self._only((6 if family == 4 else 4) if negated else family)
            return []
        raise Unclear

    def _network(self, word: str, field: str) -> list[Condition]:
        """An address or a protocol of one family; no packet of the other one fits, not even the negation."""
        family = IP[word]
        self._only(family)
        if field in ("protocol", "nexthdr"):
            made: list[Condition] = [_protocol(self._words)]
        elif field in ("saddr", "daddr"):
            negated = self._words.negated()
            made = [_addresses(ENDS[field], family, _spans(self._words, SETS[family]), negated)]
        else:
            raise Unclear
        return made

    def _transport(self, word: str, field: str) -> list[Condition]:
        known = ProtocolIs(NUMBERS[word]) if word in NUMBERS else None
        front: list[Condition] = [known] if known is not None and known not in self._conditions else []
        if field in ("sport", "dport") and word not in ("icmp", "icmpv6"):
            negated, spans = self._words.negated(), _spans(self._words, "inet_service")
            if len(spans) == 1 and known is not None:
                return [*front, PortIs(ENDS[field], *spans[0], negated)]
            return [*front, PortsAre(ENDS[field], spans, negated)]
        if (word, field) == ("tcp", "flags"):
            return [*front, flags(self._words)]
        if field == "type" and word in ("icmp", "icmpv6"):
            made = icmp(self._words, 4 if word == "icmp" else 6)
            self._only(4 if word == "icmp" else 6)
            return [*front, made]
        raise Unclear

    def _action(self) -> Action:
        """What a rule does that is understood. A packet that TPROXY took is marked and accepted; to do several things
        else there is no word."""
        wanted = [item for item in self._actions if not isinstance(item, Note)]
        match wanted:
            case []:
                return self._actions[0] if self._actions else Nothing()
            case [ToSocket() as one, Accept()]:
                return one
            case [ToSocket() as one, PutMark(number, mask), Accept()]:
                return replace(one, number=number, mask=mask)
            case [Nothing()]:
                return Nothing()
            case [one] if not isinstance(one, ToSocket):
                return one
        return UnknownTarget(tuple(self._words.tokens[self._acts_from :]))

    def _unknown(self) -> Action:
        """The rest of the rule: a match if all that follows it is a verdict, else whatever it may do."""
        tokens = self._words.tokens
        rest = tokens[self._words.place :]
        if any(not isinstance(item, Note) for item in self._actions):
            return UnknownTarget(tuple(tokens[self._acts_from :]))
        if len(rest) > 1 and rest[-1] in PLAIN and rest[-1] != "continue":
            self._conditions.append(UnknownMatch(tuple(rest[:-1])))
            return PLAIN[rest[-1]]
        if len(rest) > 2 and rest[-2] in JUMPS:
            self._conditions.append(UnknownMatch(tuple(rest[:-2])))
            return Call(rest[-1], goto=rest[-2] == "goto")
        return UnknownTarget(tuple(rest))


def _spans(words: Words, kind: SetType) -> Spans:
    if words.peek().startswith("@"):
        return words.named(kind)
    return tuple(sorted(span for word in words.values() for span in spans_of(kind, word)))


def _addresses(end: End, family: Family, spans: Spans, negated: bool) -> Condition:
    if len(spans) == 1:
        first, last = spans[0]
        size = last - first + 1
        if size & (size - 1) == 0 and first % size == 0:
            every = (1 << BITS[family]) - 1
            return AddressIs(end, first, every & ~(size - 1), negated)
    return AddressesAre(end, spans, negated)


def _protocol(words: Words) -> Condition:
    negated, listed = words.negated(), words.values()
    numbers = [NUMBERS[word] if word in NUMBERS else numeral(word, 255) for word in listed]
    if len(numbers) == 1:
        return ProtocolIs(numbers[0], negated)
    return AnyOf(tuple(ProtocolIs(number) for number in numbers), negated)
