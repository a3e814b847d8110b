"""Where the kernel enters a chain: its hook, and how far conntrack and translation are when its turn comes.

iptables' tables have fixed places (net/ipv4/netfilter/iptable_*.c); a base chain of nftables says its own. What matters
about a priority is its order, and on which side of conntrack and of translation it lies.
"""

from __future__ import annotations

from meshnet.model.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    Kind = Literal["filter", "route", "nat"]
    Stage = Literal["untracked", "tracked", "nat", "translated"]

BUILT_IN = {
    "raw": ("PREROUTING", "OUTPUT"),
    "mangle": ("PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"),
    "nat": ("PREROUTING", "INPUT", "OUTPUT", "POSTROUTING"),
    "filter": ("INPUT", "FORWARD", "OUTPUT"),
    "security": ("INPUT", "FORWARD", "OUTPUT"),
}
"""The hooks of each table of iptables."""

PRIORITIES = {"raw": -300, "mangle": -150, "filter": 0, "security": 50}
CONNTRACK = -200
TRANSLATION = {"PREROUTING": -100, "OUTPUT": -100, "INPUT": 100, "POSTROUTING": 100}
"""linux/netfilter_ipv4.h. All chains of nat at a hook are asked at these, whatever their own priority
(nf_nat_core.c): that one only orders them among themselves."""


@value
class Base:
    """What makes a chain a base chain. Only behind a chain of kind ``route`` does a new mark have a packet that is sent
    routed anew."""

    kind: Kind
    hook: str
    priority: int

    @property
    def stage(self) -> Stage:
        if self.kind == "nat":
            return "nat"
        if self.hook in ("PREROUTING", "OUTPUT") and self.priority < CONNTRACK:
            return "untracked"
        translation = TRANSLATION.get(self.hook)
        return "tracked" if translation is None or self.priority < translation else "translated"

    @property
    def tied(self) -> str:
        """What has the same priority, so that either may come first; empty where nothing has."""
        if self.kind != "nat" and self.priority == TRANSLATION.get(self.hook):
            return "translation"
        if self.hook in ("PREROUTING", "OUTPUT") and self.priority == CONNTRACK:
            return "conntrack"
        return ""


def built_in(table: str, chain: str) -> Base | None:
    """The place of a built-in chain of iptables; None for any other."""
    if chain not in BUILT_IN.get(table, ()):
        return None
    if table == "nat":
        return Base("nat", chain, TRANSLATION[chain])
    return Base("route" if (table, chain) == ("mangle", "OUTPUT") else "filter", chain, PRIORITIES[table])
