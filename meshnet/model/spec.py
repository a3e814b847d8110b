"""The spec: what a user wants intercepted, as values. ``spec/`` reads it from text, ``compile/`` gives it rules.

Lists are one of three things everywhere: ``"*"`` (all), empty (none), or the entries. Field names are those of the
document in snake case; ``docs/spec.md`` is generated from the schema and says what each of them means.
"""

from __future__ import annotations

from meshnet.model import names
from meshnet.model.cidr import Cidr, read_cidr
from meshnet.model.errors import Wrong
from meshnet.model.marks import Mark
from meshnet.model.ports import PortRange
from meshnet.model.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    from meshnet.model.cidr import Family

    Ports = tuple[PortRange, ...] | Literal["*"]
    Cidrs = tuple[Cidr, ...] | Literal["*"]
    Groups = tuple[int, ...] | Literal["*"]
    InboundMode = Literal["redirect", "tproxy", "none"]
    OutboundMode = Literal["redirect", "none"]
    DnsCapture = Literal["off", "resolvers", "all"]
    Families = tuple[Family, ...] | Literal["auto"]
    Profile = Literal["meshnet", "istio"]
    Transports = Literal["tcp", "udp", "all"]
    Enrol = Literal["new-connections", "any-segment"]

ALL: Literal["*"] = "*"


HIGHEST_ID = 4294967294
"""The id above it is the kernel's "no id" (uid_t -1)."""


def port(number: int) -> PortRange:
    return PortRange(number, number)


@value
class IdRange:
    """User ids ``first`` to ``last``, both included."""

    first: int
    last: int

    def __post_init__(self) -> None:
        if not 0 <= self.first <= self.last <= HIGHEST_ID:
            raise Wrong(f"no range of ids ({self.first}-{self.last})", f"0 to {HIGHEST_ID}, the lower end first")

    def covers(self, number: int) -> bool:
        return self.first <= number <= self.last

    def __str__(self) -> str:
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"


@value
class Sidecar:
    """Whose traffic is never captured on its way out: user ids, group ids, or a mark that the proxy sets itself."""

    uids: tuple[int, ...] = (names.SIDECAR_ID,)
    gids: tuple[int, ...] = (names.SIDECAR_ID,)
    mark: int | None = None

    @property
    def known(self) -> bool:
        return bool(self.uids or self.gids or self.mark is not None)


@value
class Inbound:
    mode: InboundMode = "tproxy"
    port: PortRange = port(names.INBOUND_PORT)
    ports: Ports = ALL
    exclude_ports: tuple[PortRange, ...] = tuple(port(number) for number in names.UNCAPTURED_INBOUND)
    exclude_sources: tuple[Cidr, ...] = ()
    tunnel_port: int | None = names.TUNNEL_PORT
    original_source: bool = True
    own_pod: bool = True

    @property
    def active(self) -> bool:
        return self.mode != "none" and self.ports != ()


@value
class UserExclusion:
    """What users send that is never captured: everything, or what goes to some ports by one transport."""

    uids: tuple[IdRange, ...]
    ports: Ports = ALL
    transport: Transports = "all"


@value
class Outbound:
    mode: OutboundMode = "redirect"
    port: int = names.OUTBOUND_PORT
    cidrs: Cidrs = ALL
    exclude_cidrs: tuple[Cidr, ...] = ()
    ports: tuple[PortRange, ...] = ()
    exclude_ports: tuple[PortRange, ...] = ()
    groups: Groups = ALL
    exclude_groups: tuple[int, ...] = ()
    exclude_users: tuple[UserExclusion, ...] = ()
    loopback_cidr: Cidr = read_cidr("127.0.0.1/32")

    @property
    def active(self) -> bool:
        return self.mode != "none" and bool(self.cidrs or self.ports)


@value
class Dns:
    capture: DnsCapture = "off"
    port: int = names.DNS_PORT
    resolvers: tuple[Cidr, ...] = ()


@value
class InterfaceNetwork:
    """An interface and the network behind it: a block of each family that it has."""

    interface: str
    cidrs: tuple[Cidr, ...]


@value
class Interfaces:
    """Interface names; a trailing ``+`` stands for any rest, as in iptables."""

    exclude: tuple[str, ...] = ()
    guest: tuple[str, ...] = ()
    networks: tuple[InterfaceNetwork, ...] = ()

    @property
    def capturing(self) -> tuple[str, ...]:
        """Those by which outbound traffic comes in."""
        return (*self.guest, *(network.interface for network in self.networks))


@value
class Passthrough:
    """The address that the sidecar binds when it passes an inbound connection on without the client's address."""

    ipv4: Cidr = read_cidr(names.PASSTHROUGH4)
    ipv6: Cidr = read_cidr(names.PASSTHROUGH6)

    def of(self, family: Family) -> Cidr:
        return self.ipv4 if family == 4 else self.ipv6


@value
class Marks:
    inbound: int = names.INBOUND_MARK
    outbound: int = names.OUTBOUND_MARK
    mask: int = names.MARK_MASK

    @property
    def inbound_mark(self) -> Mark:
        return Mark(self.inbound, self.mask)

    @property
    def outbound_mark(self) -> Mark:
        return Mark(self.outbound, self.mask)


@value
class Routing:
    table: int = names.ROUTE_TABLE


@value
class Nftables:
    """The table that the backend nftables writes."""

    table: str = names.NFT_TABLE


@value
class Spec:
    """One interception: everything that decides the rules of one pod. Always consistent (``spec/check``)."""

    name: str = "default"
    profile: Profile = "meshnet"
    families: Families = "auto"
    sidecar: Sidecar = Sidecar()
    inbound: Inbound = Inbound()
    outbound: Outbound = Outbound()
    dns: Dns = Dns()
    interfaces: Interfaces = Interfaces()
    passthrough: Passthrough = Passthrough()
    marks: Marks = Marks()
    routing: Routing = Routing()
    drop_invalid: bool = False
    enrol: Enrol = "new-connections"
    nftables: Nftables = Nftables()
