"""Policy rules, routes and the addresses of ``lo``, read and written through ``ip -batch``: one process each."""

from __future__ import annotations

from meshnet.kernel.run import Started, start
from meshnet.model.errors import ToolError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from meshnet.model.cidr import Family

QUESTIONS = "rule show\nroute show table all\naddr show dev lo\n"
HINTS = {
    "File exists": "somebody else's route or rule is in the way: choose another routing.table, or take it away",
    "Network is down": "bring the loopback interface up first: ip link set lo up",
    "Permission denied": "IPv6 may be switched off here (net.ipv6.conf.*.disable_ipv6): list families: [ipv4]",
    "IPv6 is disabled": "IPv6 is switched off here (net.ipv6.conf.*.disable_ipv6): list families: [ipv4]",
    "Operation not permitted": "the process needs CAP_NET_ADMIN in the namespace",
    "not supported": "this kernel lacks policy routing or the family",
}


def ask(family: Family) -> Started:
    """Start the reading of rules, routes and the addresses of ``lo``; ``answer`` has the three JSON lists."""
    return start(["ip", f"-{family}", "-j", "-N", "-batch", "-"], text=QUESTIONS, timeout=20)


def answer(asked: Started, family: Family) -> str:
    """The lists as ``ip`` printed them, one a line; nothing where the family is not in this kernel."""
    ran = asked.wait()
    if not ran.ok:
        raise ToolError(f"can't read IPv{family} rules and routes", hint=hint_for(ran.err), detail=ran.err)
    return ran.out


def write(family: Family, text: str) -> None:
    """Lines such as ``rule add …`` in order; stops at the first that is refused, with the kernel's words."""
    ran = start(["ip", f"-{family}", "-batch", "-"], text=text, timeout=20).wait()
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
