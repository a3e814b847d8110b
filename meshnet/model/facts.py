"""What a namespace says about itself and a spec may leave to it."""

from __future__ import annotations

from meshnet.model.cidr import Cidr
from meshnet.model.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from meshnet.model.cidr import Family


@value
class Facts:
    """``families``: those that the namespace speaks; ``global_ipv6``: it has an IPv6 address that others can reach."""

    families: tuple[Family, ...] = (4, 6)
    global_ipv6: bool = False
    resolvers: tuple[Cidr, ...] = ()
    resolvers_from: str = "resolv.conf"
