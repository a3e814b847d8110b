"""What the namespace that this thread is in says about itself."""

from __future__ import annotations

from meshnet.kernel.netns import Where
from meshnet.kernel.rtnetlink import addresses
from meshnet.model.cidr import Cidr, read_address
from meshnet.model.errors import Wrong
from meshnet.model.facts import Facts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from meshnet.model.cidr import Family


def gather(place: Where) -> Facts:
    """Families, global addresses, resolvers. IPv4 is always there; IPv6 when any interface has an address."""
    inet, inet6 = addresses(4), addresses(6)
    families: tuple[Family, ...] = (4, 6) if inet6 else (4,)
    reachable, reachable6 = (any(item.is_global and not item.on_loopback for item in seen) for seen in (inet, inet6))
    path = _resolv_conf(place)
    return Facts(families, reachable, reachable6, _nameservers(_read(path)), path)


def _resolv_conf(place: Where) -> str:
    """The file that processes of the namespace see: ``ip netns`` has one by name, a process its own root."""
    match place:
        case Where("name", name):
            own = f"/etc/netns/{name}/resolv.conf"
            return own if _read(own) else "/etc/resolv.conf"
        case Where("pid", pid):
            return f"/proc/{pid}/root/etc/resolv.conf"
        case _:
            return "/etc/resolv.conf"


def _nameservers(text: str) -> tuple[Cidr, ...]:
    """resolv.conf(5): ``nameserver ADDRESS``; a scope behind ``%`` says by which link, not who."""
    found: list[Cidr] = []
    for line in text.splitlines():
        words = line.split()
        if len(words) < 2 or words[0] != "nameserver":
            continue
        try:
            family, address = read_address(words[1].partition("%")[0])
        except Wrong:
            continue  # the resolver library passes over such a line too
        block = Cidr(family, address, 32 if family == 4 else 128)
        if block not in found:
            found.append(block)
    return tuple(found)


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
