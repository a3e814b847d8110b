"""Policy rules, routes and the addresses of ``lo``, written through ``ip -batch``: one process for a family."""

from __future__ import annotations

from meshnet.kernel.run import start
from meshnet.kernel.together import awaited
from meshnet.model.errors import ToolError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from meshnet.kernel.ports import Work
    from meshnet.kernel.run import Ran
    from meshnet.model.cidr import Family

HINTS = {
    "File exists": "somebody else's route or rule is in the way: choose another routing.table, or take it away",
    "Network is down": "bring the loopback interface up first: ip link set lo up",
    "Permission denied": "IPv6 may be switched off here (net.ipv6.conf.*.disable_ipv6): list families: [ipv4]",
    "IPv6 is disabled": "IPv6 is switched off here (net.ipv6.conf.*.disable_ipv6): list families: [ipv4]",
    "Operation not permitted": "the process needs CAP_NET_ADMIN in the namespace",
    "not supported": "this kernel lacks policy routing or the family",
}


def begin(family: Family, text: str) -> Work[None]:
    """Start to carry out lines such as ``rule add …`` in order, and return at once.

    ``finish`` raises ToolError with the first line that was refused, where ``ip`` stopped, and its words.
    """
    started = start(["ip", f"-{family}", "-batch", "-"], text=text, timeout=20)
    return awaited(started, lambda ran: _written(ran, family, text))


def _written(ran: Ran, family: Family, text: str) -> None:
    if not ran.ok:
        line = _failed_line(ran.err, text)
        what = f"ip -{family} {line}" if line else f"ip -{family}"
        raise ToolError(f"refused: {what}", hint=hint_for(ran.err), detail=ran.err)


def hint_for(said: str) -> str:
    return next((hint for words, hint in HINTS.items() if words in said), "")


def _failed_line(said: str, text: str) -> str:
    """``ip`` names the line that it stopped at as ``Command failed -:N``."""
    _, found, rest = said.rpartition("Command failed -:")
    number = rest.strip().partition("\n")[0]
    lines = text.splitlines()
    if not found or not number.isdigit() or not 1 <= int(number) <= len(lines):
        return ""
    return lines[int(number) - 1]
