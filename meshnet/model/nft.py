"""One table of nftables: as it is planned or was understood, and as the kernel hands it over.

A rule is text in the words that ``render/nftables`` writes and ``parse/nft_rules`` reads back out of the kernel's
expressions. What ``nft`` itself prints differs from version to version, and isn't what it was given even in one: it
prints ``meta mark & 0xfffff000 | 0x539`` as ``meta mark & 0xfffff539 | 0x539``.
"""

from __future__ import annotations

from meshnet.model.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    SetType = Literal["ipv4_addr", "ipv6_addr", "inet_service", "uid", "gid", "ifname"]

UNKNOWN = "(not meshnet's words:"
"""Begins what stands in a rule for expressions that meshnet never writes."""


@value
class NftSet:
    """A named set of intervals; ``ranges`` are sorted, both ends included, and never touch one another.

    Of type ``ifname`` it holds single names, as the numbers that ``ranges.name_number`` makes of them.
    """

    name: str
    type: SetType
    ranges: tuple[tuple[int, int], ...]


@value
class NftChain:
    """``head`` is what makes it a base chain (``type filter hook … priority …; policy accept;``); empty for others."""

    name: str
    head: str
    rules: tuple[str, ...]


@value
class NftTable:
    """A table of family ``inet``.

    ``text``: what ``nft`` prints for it, when it was read and holds what meshnet has no words for, so that a roll-back
    can put it back. ``more`` says what is in it besides sets and chains, or about the table itself.
    """

    name: str
    sets: tuple[NftSet, ...]
    chains: tuple[NftChain, ...]
    more: tuple[str, ...] = ()
    text: str = ""

    @property
    def strange(self) -> bool:
        """Whether it holds anything that can't be written again from these values."""
        return bool(self.more) or any(UNKNOWN in rule for chain in self.chains for rule in chain.rules)


@value
class RawExpression:
    """One expression of a rule: its name, and its attributes by number, uninterpreted."""

    name: str
    attributes: dict[int, bytes]


@value
class RawRule:
    chain: str
    handle: int
    comment: str
    expressions: tuple[RawExpression, ...]


@value
class RawChain:
    """``hook`` and ``priority`` are None for a chain that is only jumped to."""

    name: str
    type: str = ""
    hook: int | None = None
    priority: int | None = None
    policy: int = 1


@value
class RawSet:
    """``elements`` are (key, flags) in the kernel's order, keys as they lie in its registers."""

    name: str
    key_type: int
    flags: int
    elements: tuple[tuple[bytes, int], ...]


@value
class RawTable:
    """``use`` counts the chains, sets and whatever else is in the table; rules and elements don't count."""

    name: str
    comment: str
    flags: int
    use: int
    chains: tuple[RawChain, ...] = ()
    sets: tuple[RawSet, ...] = ()
    rules: tuple[RawRule, ...] = ()
