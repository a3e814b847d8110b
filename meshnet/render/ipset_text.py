"""Sets as the text that ``ipset restore`` carries out."""

from __future__ import annotations

from meshnet.model.cidr import address_text
from meshnet.model.names import CHAIN_PREFIX

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from meshnet.model.cidr import Family
    from meshnet.model.plan import SetText

BESIDE = CHAIN_PREFIX + "BESIDE"
"""The name under which another content is made ready, and taken away again with the old one."""

SMALLEST = 1024
"""Buckets of a hash at least; more members get more, so that the kernel need not make the table anew while it fills."""


def made(item: SetText) -> str:
    """Lines that make a set and fill it. One that a killed apply left half full is emptied first."""
    return "\n".join([*_lines(item, item.name), ""])


def exchanged(item: SetText) -> str:
    """Lines that give a set its content back in one instant, though rules look into it all the while."""
    lines = [*_lines(item, BESIDE), f"swap {BESIDE} {item.name}", f"destroy {BESIDE}", ""]
    return "\n".join(lines)


def destroyed(names: Iterable[str]) -> str:
    return "".join(f"destroy {name}\n" for name in names)


def _lines(item: SetText, name: str) -> Iterator[str]:
    if item.type == "bitmap:port":
        yield f"create -exist {name} bitmap:port range 0-65535"
        yield f"flush {name}"
        yield from (f"add {name} {first}" + (f"-{last}" if last != first else "") for first, last in item.members)
        return
    family: Family = 6 if item.family == 6 else 4
    size = SMALLEST
    while size < len(item.members):
        size *= 2
    most = max(65536, len(item.members))
    yield f"create -exist {name} hash:net family {'inet6' if family == 6 else 'inet'} hashsize {size} maxelem {most}"
    yield f"flush {name}"
    yield from (f"add {name} {address_text(family, network)}/{prefix}" for network, prefix in item.members)
