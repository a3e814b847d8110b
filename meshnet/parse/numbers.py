"""The numbers and addresses of iptables' rules, in all the forms in which versions print them."""

from __future__ import annotations

from meshnet.model.cidr import BITS, read_address
from meshnet.model.errors import Wrong
from meshnet.model.marks import FULL

TYPE_CHECKING = False
if TYPE_CHECKING:
    from meshnet.model.cidr import Family

SERVICES = {"ssh": 22, "domain": 53, "http": 80, "ntp": 123, "https": 443}
HIGHEST_ID = 0xFFFFFFFE


class NotKnown(Exception):
    """A word that meshnet can't give a meaning: the match or target that holds it keeps its words."""


def number(text: str, most: int = FULL) -> int:
    """Decimal or hexadecimal; never octal, which iptables would read from a leading zero, nor what Python alone takes
    for a number: ``1_000``, ``+5``, blanks around it, digits of other scripts."""
    hexadecimal = text[:2].lower() == "0x"
    digits = text[2:] if hexadecimal else text
    if not (digits.isascii() and (digits.isalnum() if hexadecimal else digits.isdigit())):
        raise NotKnown
    if not hexadecimal and len(digits) > 1 and digits[0] == "0":
        raise NotKnown
    try:
        read = int(digits, 16 if hexadecimal else 10)
    except ValueError:
        raise NotKnown from None
    if read > most:
        raise NotKnown
    return read


def masked(text: str) -> tuple[int, int]:
    """``number`` or ``number/mask``."""
    head, slash, tail = text.partition("/")
    return number(head), number(tail) if slash else FULL


def span(text: str, between: str, most: int) -> tuple[int, int]:
    """``first``, ``first:last``, ``:last`` or ``first:``."""
    first, sign, last = text.partition(between)
    if not sign:
        low = number(first, most)
        return low, low
    return number(first, most) if first else 0, number(last, most) if last else most


def ports(text: str) -> tuple[int, int]:
    if text in SERVICES:
        return SERVICES[text], SERVICES[text]
    return span(text, ":", 65535)


def address(text: str, family: Family) -> int:
    try:
        found, read = read_address(text)
    except Wrong:
        raise NotKnown from None
    if found != family:
        raise NotKnown
    return read


def block(text: str, family: Family) -> tuple[int, int]:
    """An address and its mask; host bits are gone, as they are in the kernel."""
    head, slash, tail = text.partition("/")
    bits = BITS[family]
    every = (1 << bits) - 1
    mask = every
    if slash and ("." in tail or ":" in tail):
        mask = address(tail, family)
    elif slash:
        mask = every ^ (every >> number(tail, bits))
    return address(head, family) & mask, mask
