"""The text of nftables' tables, as ``nft list`` prints them and ``meshnet compile --backend nftables`` does.

Only taken apart: sets to their values, chains to their heads and rules, whose words ``nft_phrases`` reads. A set of a
type that meshnet has no use for is left out, so that a rule that looks into it isn't understood, and nobody guesses.
"""

from __future__ import annotations

import re

from meshnet.model.errors import RulesError, Wrong
from meshnet.model.nft import NftChain, NftSet, NftTable
from meshnet.model.ranges import merged
from meshnet.model.value import value
from meshnet.parse.nft_values import Unclear, spans_of
from meshnet.parse.options import Malformed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from meshnet.model.nft import SetType

FAMILIES = ("inet", "ip", "ip6", "arp", "bridge", "netdev")
TYPES: dict[str, SetType] = {
    "ipv4_addr": "ipv4_addr",
    "ipv6_addr": "ipv6_addr",
    "inet_service": "inet_service",
    "uid": "uid",
    "gid": "gid",
    "ifname": "ifname",
}
EXPECTED = "a table of nftables (table inet NAME { … })"
TOKEN = re.compile(r'"[^"\n]*"|#[^\n]*|[{};\n]|[^\s{};"#]+|"')


ELEMENT = re.compile(r'(?:"[^"]*"|[^,"])+')


@value
class Written:
    """A table with its family; ``lines`` are those of its rules, by chain and place."""

    family: str
    table: NftTable
    lines: dict[tuple[str, int], int]


def is_nft(text: str) -> bool:
    """Whether a text is one of nftables: by its first word, or as the part of a compiled plan that ``nft`` is given."""
    lines = (line for line in own_part(text).split("\n") if not line.startswith("#"))
    words = next((line for line in lines if line.strip()), "").split()[:2]
    return words[:1] == ["table"] or words[:2] in (["add", "table"], ["flush", "table"], ["flush", "ruleset"])


def own_part(text: str) -> str:
    """What ``nft`` is given of a compiled plan, whose other steps stand in front of it; any other text as it is. Line
    breaks are kept, so that numbers hold."""
    if "\n# nft -f" not in f"\n{text}":
        return text
    lines, ours = [], False
    for line in text.split("\n"):
        if line.startswith("# "):
            ours = line.startswith("# nft -f")
        lines.append(line if ours else "")
    return "\n".join(lines)


def read_tables(text: str, name: str = "rules") -> tuple[Written, ...]:
    """The tables in the order in which they stand. RulesError at the first word that isn't understood."""
    return _Reader(own_part(text), name).read()


class _Reader:
    def __init__(self, text: str, name: str) -> None:
        self._text = text
        self._name = name
        self._tokens = [found for found in TOKEN.finditer(text) if not found[0].startswith("#")]
        self._place = 0
        self._line, self._counted = 1, 0

    def read(self) -> tuple[Written, ...]:
        found: dict[tuple[str, str], Written] = {}
        try:
            while self._skip_ends():
                self._statement(found)
        except (Malformed, Unclear) as problem:
            where = f"{self._name}:{self._at()}"
            raise RulesError(
                [f"{where}: expected {problem or EXPECTED}"], hint="rules of nftables are read as nft list prints them"
            ) from None
        return tuple(found.values())

    def _at(self) -> int:
        """The line of the word under way."""
        place = min(self._place, len(self._tokens) - 1)
        end = self._tokens[place].start() if place >= 0 else 0
        self._line += self._text.count("\n", self._counted, end)
        self._counted = max(end, self._counted)
        return self._line

    def _peek(self) -> str:
        return self._tokens[self._place][0] if self._place < len(self._tokens) else ""

    def _next(self, expected: str) -> str:
        found = self._peek()
        if not found or found in "{};\n":
            raise Malformed(expected)
        self._place += 1
        return found

    def _open(self) -> None:
        if self._peek() != "{":
            raise Malformed("{")
        self._place += 1

    def _skip_ends(self) -> bool:
        while self._peek() in (";", "\n"):
            self._place += 1
        return bool(self._peek())

    def _inside(self) -> Iterator[str]:
        """The first word of each thing within braces, until they close."""
        self._open()
        while self._skip_ends():
            if self._peek() == "}":
                self._place += 1
                return
            yield self._next("a chain, a set or }")
        raise Malformed("}: the text is cut off")

    def _rest(self) -> str:
        """The text up to the end of the line, or to a semicolon outside of braces."""
        begin = end = self._tokens[self._place].start() if self._peek() else len(self._text)
        depth = 0
        while (word := self._peek()) and not (depth == 0 and word in "};\n"):
            depth += {"{": 1, "}": -1}.get(word, 0)
            end = self._tokens[self._place].end()
            self._place += 1
        if depth:
            raise Malformed("}: the text is cut off")
        words = self._text[begin:end]
        return " ".join(words.split()) if "\n" in words else words

    def _statement(self, found: dict[tuple[str, str], Written]) -> None:
        verb = self._next(EXPECTED)
        if verb in ("add", "delete", "flush", "destroy"):
            what = self._next(EXPECTED)
            if what not in ("table", "ruleset"):
                raise Malformed(f"whole tables, and not what is to be done to them ({verb} {what} …)")
            self._rest()
            return
        if verb != "table":
            raise Malformed(EXPECTED)
        family = self._next("a family or the name of a table")
        if family not in FAMILIES:
            family, name = "ip", family
        else:
            name = self._next("the name of a table")
        if (family, name) in found:
            raise Malformed(f"table {family} {name} once")
        found[family, name] = self._table(family, name)

    def _table(self, family: str, name: str) -> Written:
        sets: list[NftSet] = []
        chains: dict[str, NftChain] = {}
        lines: dict[tuple[str, int], int] = {}
        more: list[str] = []
        for word in self._inside():
            if word == "chain":
                chain = self._chain(lines)
                if chain.name in chains:
                    raise Malformed(f"chain {chain.name} once")
                chains[chain.name] = chain
            elif word == "set":
                made = self._set()
                sets += [made] if made is not None else []
            elif word == "comment":
                self._next("a comment")
            elif word == "flags":
                more.append(f"flags {self._rest()}")
            else:  # a map, a counter, a flow table: what looks into it isn't understood
                self._rest()
        return Written(family, NftTable(name, tuple(sets), tuple(chains.values()), tuple(more)), lines)

    def _chain(self, lines: dict[tuple[str, int], int]) -> NftChain:
        name = self._next("the name of a chain")
        head: list[str] = []
        rules: list[str] = []
        for word in self._inside():
            if word in ("type", "policy", "comment", "flags"):
                said = f"{word} {self._rest()};"
                head += [said] if word in ("type", "policy") else []
                continue
            self._place -= 1
            lines[name, len(rules)] = self._at()
            rules.append(self._rest())
        return NftChain(name, " ".join(head), tuple(rules))

    def _set(self) -> NftSet | None:
        name = self._next("the name of a set")
        kind = ""
        steady, elements = True, ""
        for word in self._inside():
            if word == "type":
                kind = self._rest()
            elif word == "flags":
                steady &= not {"dynamic", "timeout"} & set(self._rest().replace(",", " ").split())
            elif word == "elements":
                elements = self._rest().removeprefix("=").strip().removeprefix("{").removesuffix("}")
            else:
                self._rest()
        known = TYPES.get(kind)
        if known is None or not steady:
            return None
        try:
            words = (word.strip() for word in ELEMENT.findall(elements))
            spans = [span for word in words if word for span in spans_of(known, word)]
        except (Unclear, Wrong):
            return None
        return NftSet(name, known, merged(spans))
