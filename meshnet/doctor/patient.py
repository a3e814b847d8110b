"""What is examined: rules of one family, the namespace around them, and who the sidecar is."""

from __future__ import annotations

from meshnet.model.trace import Proxies
from meshnet.model.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from meshnet.model.host import Host
    from meshnet.model.ruleset import RuleSet
    from meshnet.model.story import Conduct


@value
class Patient:
    """``hosts`` are the namespace as it is, or as it may be where nobody says: one for each setting that matters, with
    the setting in words. ``sidecars`` are the identities that a sidecar may have. ``assumed``: no namespace was looked
    at, so that the pod's addresses are made up."""

    rules: RuleSet
    hosts: tuple[tuple[str, Host], ...]
    sidecars: tuple[Conduct, ...]
    proxies: Proxies = Proxies()
    assumed: bool = False
