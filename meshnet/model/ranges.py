"""Ranges of numbers, as sets of nftables and of ipset hold them: addresses, ports, ids, names of interfaces."""

from __future__ import annotations

from meshnet.model.cidr import BITS, address_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from meshnet.model.cidr import Family
    from meshnet.model.nft import SetType

    Ranges = tuple[tuple[int, int], ...]


NAME_BYTES = 16
"""IFNAMSIZ of linux/if.h. The last byte is never part of a name, so two names never stand next to each other."""


def merged(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """The same numbers in the fewest ranges, sorted: the kernel refuses overlaps, and tells neighbours from one."""
    found: list[tuple[int, int]] = []
    for first, last in sorted(ranges):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(last, found[-1][1]))
        else:
            found.append((first, last))
    return tuple(found)


def name_number(name: str) -> int:
    """The name of an interface as the number that its bytes make in the kernel's register."""
    return int.from_bytes(name.encode().ljust(NAME_BYTES, b"\0"), "big")


def name_of(number: int) -> str:
    """What ``name_number`` made a number of."""
    return number.to_bytes(NAME_BYTES, "big").rstrip(b"\0").decode("utf-8", "replace")


def range_text(kind: SetType, first: int, last: int) -> str:
    """A range of values as nft reads it: a lone value, a block of addresses, or both ends."""
    if kind == "ifname":
        return f'"{name_of(first)}"'
    if kind not in ("ipv4_addr", "ipv6_addr"):
        return str(first) if first == last else f"{first}-{last}"
    family: Family = 4 if kind == "ipv4_addr" else 6
    if first == last:
        return address_text(family, first)
    size = last - first + 1
    if size & (size - 1) == 0 and first % size == 0:
        return f"{address_text(family, first)}/{BITS[family] - size.bit_length() + 1}"
    return f"{address_text(family, first)}-{address_text(family, last)}"
