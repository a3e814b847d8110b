"""The values that nft's rules and sets are about, as spans of numbers: addresses, ports, ids."""

from __future__ import annotations

from meshnet.model.cidr import BITS, read_address
from meshnet.model.errors import Wrong
from meshnet.model.ranges import NAME_BYTES, name_number
from meshnet.parse.numbers import HIGHEST_ID, SERVICES, NotKnown, number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from meshnet.model.cidr import Family
    from meshnet.model.nft import SetType

    Spans = tuple[tuple[int, int], ...]

FAMILY_OF: dict[str, Family] = {"ipv4_addr": 4, "ipv6_addr": 6}


class Unclear(Exception):
    """A word that meshnet can't give a meaning."""


def spans_of(kind: SetType, word: str) -> Spans:
    """One element: a value, a block, or both ends of a range."""
    family = FAMILY_OF.get(kind)
    if family is not None:
        return (_addresses(word, family),)
    if kind == "ifname":
        name = name_number(interface_name(word))
        return ((name, name),)
    first, dash, last = word.strip('"').partition("-")
    low = _number(kind, first)
    return ((low, _number(kind, last) if dash else low),)


def interface_name(word: str) -> str:
    """The whole name of an interface; one that ends in ``+`` has another meaning among conditions."""
    name = word.strip('"')
    if not name or len(name.encode()) >= NAME_BYTES or name[-1] in "+*" or "\\" in name or word[0] == "@":
        raise Unclear
    return name


def _number(kind: SetType, word: str) -> int:
    if kind == "inet_service":
        return SERVICES[word] if word in SERVICES else numeral(word, 0xFFFF)
    return 0 if word == "root" else numeral(word, HIGHEST_ID)


def _addresses(word: str, family: Family) -> tuple[int, int]:
    first, dash, last = word.partition("-")
    text, slash, prefix = first.partition("/")
    low = _address(text, family)
    if dash:
        return low, _address(last, family)
    if not slash:
        return low, low
    rest = (1 << BITS[family] - numeral(prefix, BITS[family])) - 1
    return low & ~rest, low | rest


def _address(word: str, family: Family) -> int:
    try:
        found, address = read_address(word)
    except Wrong:
        raise Unclear from None
    if found != family:
        raise Unclear
    return address


def numeral(word: str, most: int = 0xFFFFFFFF) -> int:
    """Decimal or hexadecimal, with zeros in front as nft prints them."""
    try:
        return number(word, most)
    except NotKnown:
        raise Unclear from None
