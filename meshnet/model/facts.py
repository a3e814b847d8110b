"""What a namespace says about itself and a spec may leave to it."""

from __future__ import annotations

from meshnet.model.cidr import Cidr
from meshnet.model.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from meshnet.model.cidr import Family


@value
class Facts:
    """``families``: those that the namespace speaks; ``global_…``: it has an address that others can reach.

    That is an address of global scope on an interface other than ``lo``, private ones (RFC 1918, RFC 4193) included
    and those of 169.254.0.0/16 left out.
    """

    families: tuple[Family, ...] = (4, 6)
    global_ipv4: bool = False
    global_ipv6: bool = False
    resolvers: tuple[Cidr, ...] = ()
    resolvers_from: str = "resolv.conf"
