"""A table of nftables as the text that ``nft -f`` carries out in one transaction."""

from __future__ import annotations

from meshnet.model.names import NFT_MARK
from meshnet.model.ranges import range_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from meshnet.model.nft import NftSet, NftTable

A_LINE = 8
"""Elements of a set on one line."""


def transaction(wanted: Iterable[NftTable], gone: Iterable[str], there: Iterable[NftTable] = ()) -> str:
    """Take the tables ``gone`` away and define ``wanted``, some of which are ``there``: all at one instant, or none.

    Of a table that is there the base chains stay, with other rules. A new base chain is a hook of its own beside the
    old one; a packet between the two, when the kernel goes over from one generation of rules to the next, saw an
    empty new chain first and an emptied old one then: one of some 10,000 connections slipped by.
    """
    tables = tuple(wanted)
    held = {table.name: table for table in there}
    lines = [line for name in gone for line in _anew(name)]
    for table in tables:
        old = held.get(table.name)
        fresh = old is None or old.strange or bool(table.text)
        lines += _anew(table.name) if fresh or old is None else _emptied(old, table)
    return "\n".join([*lines, *(table_text(table) for table in tables), ""])


def _anew(name: str) -> list[str]:
    """nft 1.0.6 knows no ``destroy``, so a table is added, which does nothing when it is there, and then deleted."""
    return [f"add table inet {name}", f"delete table inet {name}"]


def _emptied(old: NftTable, new: NftTable) -> list[str]:
    """A table without rules, sets and all chains but the base chains that the new one has too."""
    heads = {chain.name: chain.head for chain in new.chains}
    chains = [chain.name for chain in old.chains if not chain.head or heads.get(chain.name) != chain.head]
    return [
        f"flush table inet {old.name}",
        *(f"delete chain inet {old.name} {name}" for name in chains),
        *(f"delete set inet {old.name} {item.name}" for item in old.sets),
    ]


def table_text(table: NftTable) -> str:
    if table.text:
        return table.text.rstrip("\n")
    return "\n".join(_lines(table))


def set_differences(wanted: NftSet | None, there: NftSet | None) -> list[str]:
    """How two sets of one name differ, as lines for a person: what is missing, what is too much."""
    if wanted is None or there is None:
        sign, item = ("+", wanted) if wanted else ("-", there)
        assert item is not None
        return [f"{sign} set {item.name} {{ {_few(item)} }}"]
    new, old = ({range_text(item.type, *pair) for pair in item.ranges} for item in (wanted, there))
    name = wanted.name
    return [
        *([f"- set {name} type {there.type}", f"+ set {name} type {wanted.type}"] if wanted.type != there.type else []),
        *(f"- set {name} {{ {item} }}" for item in sorted(old - new)),
        *(f"+ set {name} {{ {item} }}" for item in sorted(new - old)),
    ]


def _few(item: NftSet) -> str:
    """The values of a set; of a long one the first, and how many more there are."""
    shown = [range_text(item.type, *pair) for pair in item.ranges[:A_LINE]]
    more = len(item.ranges) - len(shown)
    return ", ".join([*shown, *([f"and {more} more"] if more else [])])


def _lines(table: NftTable) -> Iterator[str]:
    yield f"table inet {table.name} {{"
    yield f'\tcomment "{NFT_MARK}"'
    for item in table.sets:
        yield f"\tset {item.name} {{"
        yield f"\t\ttype {item.type}" + ("" if item.type == "ifname" else "; flags interval")
        words = [range_text(item.type, first, last) for first, last in item.ranges]
        rows = [", ".join(words[place : place + A_LINE]) for place in range(0, len(words), A_LINE)]
        if rows:
            yield "\t\telements = {"
            yield ",\n".join(f"\t\t\t{row}" for row in rows)
            yield "\t\t}"
        yield "\t}"
    # A rule may jump to a chain that stands further down: nft adds all chains before the first rule.
    for chain in table.chains:
        yield f"\tchain {chain.name} {{"
        yield from (f"\t\t{line}" for line in (chain.head, *chain.rules) if line)
        yield "\t}"
    yield "}"
