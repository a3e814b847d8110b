"""What rules capture, told by their words: whatever backend, and without the spec they came from.

Conntrack remembers how a connection's first packet was judged. So a UDP exchange that began under other rules goes on
under those, as long as it isn't forgotten; and a connection that was captured needs what carries it until it ends.
"""

from __future__ import annotations

from meshnet.model.names import COMMENT_PREFIX
from meshnet.model.nft import UNKNOWN
from meshnet.model.plan import ChainText, Plan
from meshnet.model.value import replace, value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from meshnet.kernel.conntrack import Entry
    from meshnet.model.nft import NftTable
    from meshnet.model.plan import TableText

DNS = 53
NO_LISTENER = '.no-listener"'
DRAINED = f"{COMMENT_PREFIX}drained."
"""In place of a redirection's comment, with the ports that it led to: whoever drains again, or goes on with a draining
that was given up, has to know which connections are captured ones."""


@value
class Carried:
    """What tells a captured connection: the ports it was led to, and the (mark, mask) kept on it."""

    ports: frozenset[int]
    marks: frozenset[tuple[int, int]]

    def holds(self, entry: Entry) -> bool:
        """Whether a tracked connection is one that was captured, by its translation or its mark."""
        return self.leads_back(entry) or (entry.translated and entry.answered_from in self.ports)

    def leads_back(self, entry: Entry) -> bool:
        """Whether the application's answers to a client's address go to the sidecar, by the connection's mark."""
        return any(entry.mark & mask == mark for mark, mask in self.marks)


def carried(*plans: Plan) -> Carried:
    """Of all backends that hold rules: a move that was killed leaves two at work."""
    ports: set[int] = set()
    marks: set[tuple[int, int]] = set()
    for rule in (rule for plan in plans for rule in plan.rules() if COMMENT_PREFIX in rule):
        ports |= set(_led_to(rule))
        if (mark := _asked_of_connection(rule)) is not None:
            marks.add(mark)
    return Carried(frozenset(ports), frozenset(marks))


def lost(held: Iterable[Plan], wanted: Plan, tracked: Callable[[], tuple[Entry, ...]]) -> int:
    """How many open connections have their answers led back by rules that are there, and not by those of a plan.

    What was translated goes on by itself. Conntrack is asked for nothing where every mark stays.
    """
    old, new = carried(*held), carried(wanted)
    if old.marks <= new.marks:
        return 0
    return sum(entry.open and old.leads_back(entry) and not new.leads_back(entry) for entry in tracked())


def udp_ports(plan: Plan) -> frozenset[int]:
    """The ports to which captured UDP is led, by what an istio-iptables run left too, which has no comment of ours."""
    led = (set(_led_to(rule)) for rule in plan.rules() if "-p udp" in rule or "l4proto udp" in rule)
    return frozenset[int]().union(*led)


def stale(entry: Entry, before: frozenset[int], after: frozenset[int]) -> bool:
    """Whether a query that conntrack remembers goes another way than rules that lead to ``after`` have it.

    ``before``: where earlier rules led. The sidecar's own queries are among what isn't translated; they begin anew and
    go where they went.
    """
    if entry.protocol != 17 or entry.port != DNS:
        return False
    if not entry.translated:
        return bool(after)
    return entry.answered_from in before and entry.answered_from not in after


def without_captures(plan: Plan) -> Plan:
    """The plan with every rule that takes a new connection undone, and all that carries the old ones in it.

    A redirection becomes a return, which remembers the ports; TPROXY's rules are left out.
    """
    return replace(
        plan,
        tables=tuple(_fewer(table) for table in plan.tables),
        nft=tuple(_fewer_nft(table) for table in plan.nft),
    )


def _kept(rules: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(kept for rule in rules if (kept := _undone(rule)))


def _undone(rule: str) -> str:
    """The rule, or what is left of one that captures; empty for nothing, as for what somebody put into a table of ours
    and what can't be written again: with the rest it goes in the end anyway."""
    words = rule.split()
    if UNKNOWN in rule or NO_LISTENER in rule or "tproxy" in words or " -j TPROXY " in f" {rule} ":
        return ""
    ports = _led_to(rule)
    if not ports or COMMENT_PREFIX not in rule or DRAINED in rule:
        return rule
    matches = rule.partition(f'"{COMMENT_PREFIX}')[0]
    if " -j REDIRECT " in rule:
        return f'{matches}"{DRAINED}{ports[0]}-{ports[-1]}" -j RETURN'
    matches = matches.partition("redirect to ")[0]
    return f'{matches}return comment "{DRAINED}{ports[0]}-{ports[-1]}"'


def _fewer(table: TableText) -> TableText:
    return replace(table, chains=tuple(ChainText(chain.name, _kept(chain.rules)) for chain in table.chains))


def _fewer_nft(table: NftTable) -> NftTable:
    chains = tuple(replace(chain, rules=_kept(chain.rules)) for chain in table.chains)
    return replace(table, chains=chains, more=(), text="")


def _led_to(rule: str) -> range:
    """The ports behind ``--to-ports`` or ``redirect to``, or those that a draining remembers."""
    words = rule.split()
    if DRAINED in rule:
        words = ["--to-ports", rule.partition(DRAINED)[2].partition('"')[0], ""]
    for name, cut in (("--to-ports", 0), ("redirect", 1)):
        if name in words[: -1 - cut]:
            first, _, last = words[words.index(name) + 1 + cut].removeprefix(":").partition("-")
            if first.isdigit() and (last or first).isdigit():
                return range(int(first), int(last or first) + 1)
    return range(0)


def _asked_of_connection(rule: str) -> tuple[int, int] | None:
    """The (mark, mask) of a connection that a rule asks for and gives back to a packet."""
    words = rule.split()
    if "--restore-mark" in words and "connmark" in words:
        number, _, mask = words[words.index("connmark") + 2].partition("/")
        return int(number, 0), int(mask or "0xffffffff", 0)
    if "ct mark " in rule and " meta mark set " in rule:
        asked = rule.partition("ct mark ")[2].split()
        return (int(asked[3], 0), int(asked[1], 0)) if asked[0] == "&" else (int(asked[0], 0), 0xFFFFFFFF)
    return None
