"""Program to one nftables table of family ``inet``, for both IP families from one text.

Each chain of the program is a chain here, ``nat_out`` for ``MESHNET_OUT`` in nat, and each hook that it has entries in
is a base chain at the priority of iptables' table, by number: nft 1.0.6 takes the name ``dstnat`` on prerouting alone.
What several values may match is a named set of intervals, of interfaces one of names, and rules that ask for the same
values share it; so 10,000 blocks cost a packet a search in a tree, and are written once.
"""

from __future__ import annotations

from meshnet.model.errors import UnsupportedError
from meshnet.model.marks import FULL
from meshnet.model.names import rule_comment, rule_id_of
from meshnet.model.nft import NftChain, NftSet, NftTable
from meshnet.model.program import (
    TABLES,
    Accept,
    ConnmarkIs,
    CtDirection,
    CtState,
    Destination,
    DestinationPorts,
    Drop,
    InInterface,
    Jump,
    MarkIs,
    OutInterface,
    Owner,
    OwnerWithin,
    Protocol,
    Redirect,
    RestoreMark,
    Return,
    SaveMark,
    SetMark,
    SocketIs,
    Source,
    SourcePorts,
    Syn,
    Tproxy,
    Zone,
)
from meshnet.model.ranges import merged, name_number, range_text
from meshnet.model.value import assert_never, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from meshnet.model.cidr import Cidr
    from meshnet.model.marks import Mark
    from meshnet.model.nft import SetType
    from meshnet.model.program import Chain, Hook, Match, Program, Rule, Table, Target
    from meshnet.model.ranges import Ranges


PRIORITY: dict[Table, int] = {"raw": -300, "mangle": -150, "nat": -100}
"""Those of iptables' tables (linux/netfilter_ipv4.h): ahead of conntrack (-200), behind it, and where nat looks."""

HOOKS: tuple[Hook, ...] = ("PREROUTING", "OUTPUT")
ADDRESS_WORDS = {4: "ip", 6: "ip6"}
SYN_FLAGS = "tcp flags & (fin | syn | rst | ack)"
NO_LISTENER = ".no-listener"
"""Behind the id of a TPROXY rule: the rule for what found nobody. xt_TPROXY drops that, nft's goes on to the next rule,
and a call would reach the application past a sidecar that isn't there yet."""

LOG_GROUP, SNAPLEN, LONGEST_PREFIX = 1337, 20, 127
"""As istio-iptables' own (--iptables-trace-logging); a prefix has 127 bytes (NF_LOG_PREFIXLEN)."""

NO_OWNER = ".no-owner"
"""Behind the id of a rule about everybody but some: the rule for packets that no process sent."""


def render(program: Program, name: str, *, traced: bool = False) -> NftTable:
    """The table ``name``; UnsupportedError, with all reasons at once, for what nft would take and never match."""
    from meshnet.render.nft_support import check

    check(program)
    writer = _Writer(program, traced)
    chains = [chain for item in program.chains for chain in writer.chain(item)]
    chains += [base for table in TABLES for hook in HOOKS if (base := writer.base(table, hook)) is not None]
    return NftTable(name, tuple(writer.sets.values()), tuple(sorted(chains, key=lambda chain: chain.name)))


def program_id(text: str) -> str:
    """The id of the program's rule that a rule's text was made from."""
    said = text.rpartition(' comment "')[2].removesuffix('"')
    return plain_id(rule_id_of(said))


def plain_id(rule_id: str) -> str:
    """The id of the program's rule behind that of one that came of it."""
    return rule_id.removesuffix(NO_LISTENER).removesuffix(NO_OWNER)


def chain_name(table: str, name: str) -> str:
    """The chain of a program's chain, such as ``mangle_inbound``; one of profile istio is ``nat_istio_output``."""
    return f"{table}_{name.removeprefix('MESHNET_').lower()}"


def base_name(table: Table, hook: Hook) -> str:
    return f"{table}_{hook.lower()}"


def head(table: Table, hook: Hook) -> str:
    """What makes a base chain. In mangle's OUTPUT only the type ``route`` has a packet routed by its new mark."""
    kind = "nat" if table == "nat" else "route" if (table, hook) == ("mangle", "OUTPUT") else "filter"
    return f"type {kind} hook {hook.lower()} priority {PRIORITY[table]}; policy accept;"


class _Writer:
    """One table while it is written; ``sets`` by what is in them, in the order in which rules asked for them."""

    def __init__(self, program: Program, traced: bool) -> None:
        self._program = program
        self._traced = traced
        self.sets: dict[tuple[SetType, Ranges], NftSet] = {}
        self._names: set[str] = set()

    def chain(self, chain: Chain) -> Iterator[NftChain]:
        """A chain of the program; more than one where a rule about everybody but some needs the rest of it apart."""
        name = chain_name(chain.table, chain.name)
        written, texts, part = name, [], 1
        for rule in self._rules(chain.rules):
            if _everybody_but(rule):
                part += 1
                rest = f"{name}_{part}"
                texts += self._everybody_but(rule, rest)
                yield NftChain(written, "", tuple(texts))
                written, texts = rest, []
            else:
                texts += self._texts(rule)
        yield NftChain(written, "", tuple(texts))

    def base(self, table: Table, hook: Hook) -> NftChain | None:
        entries = [entry.rule for entry in self._program.entries if (entry.table, entry.hook) == (table, hook)]
        texts = [text for rule in self._rules(self._in_families(entries)) for text in self._texts(rule)]
        return NftChain(base_name(table, hook), head(table, hook), tuple(texts)) if texts else None

    def _rules(self, rules: Iterable[Rule]) -> Iterator[Rule]:
        held = (rule for rule in rules if any(rule.holds_for(family) for family in self._program.families))
        return (part for rule in held for part in _apart(rule))

    def _in_families(self, rules: Iterable[Rule]) -> Iterator[Rule]:
        """A table is of both families: a program of one alone has its entries say so."""
        families = self._program.families
        return (replace(rule, family=families[0]) if len(families) == 1 else rule for rule in rules)

    def _everybody_but(self, rule: Rule, rest: str) -> list[str]:
        """``! --gid-owner`` holds for packets that no process sent, too; ``skgid !=`` gives up on those.

        So whoever is listed goes on in the rest of the chain, and all others take the rule's way back.
        """
        (who,) = [match for match in rule.matches if isinstance(match, Owner)]
        listed = replace(who, negated=False)
        family = self._family(rule)
        return [
            *self._written([*family, *self._match(listed, rule, "")], f"goto {rest}", rule.id),
            *self._written(family, "return", rule.id + NO_OWNER),
            *(self._written([], f"goto {rest}", rule.id) if family else []),
        ]

    def _texts(self, rule: Rule) -> list[str]:
        """The rules of nftables that one rule of the program becomes: none when it can't match anything."""
        transport = next((match.name for match in rule.matches if isinstance(match, Protocol)), "")
        words = self._family(rule)
        for match in sorted(rule.matches, key=_place):
            if isinstance(match, (Source, Destination)) and any(cidr.everything for cidr in match.cidrs):
                if match.negated:
                    return []
                continue
            words += self._match(match, rule, transport)
        texts = self._written(words, _target(rule), rule.id)
        if isinstance(rule.target, Tproxy):
            texts += self._written(words, "drop", rule.id + NO_LISTENER)
        return texts

    def _written(self, words: list[str], target: str, rule_id: str) -> list[str]:
        comment = f'comment "{rule_comment(rule_id)}"'
        logged = [*words, f'log prefix "{rule_id[:LONGEST_PREFIX]}" snaplen {SNAPLEN} group {LOG_GROUP}', comment]
        rule = [*words, "counter", target, comment]
        return [" ".join(text) for text in ([logged, rule] if self._traced else [rule])]

    def _family(self, rule: Rule) -> list[str]:
        """The family, where no address says it."""
        about = [match for match in rule.matches if isinstance(match, (Source, Destination))]
        named = any(not any(cidr.everything for cidr in match.cidrs) for match in about)
        return [] if rule.family is None or named else [f"meta nfproto ipv{rule.family}"]

    def _match(self, match: Match, rule: Rule, transport: str) -> list[str]:  # noqa: C901 (one case for one match)
        match match:
            case Protocol(name):
                return [f"meta l4proto {name}"]
            case Source(cidrs, negated):
                return [self._blocks("saddr", cidrs, negated, rule)]
            case Destination(cidrs, negated):
                return [self._blocks("daddr", cidrs, negated, rule)]
            case InInterface(names, negated):
                return self._interfaces("iifname", names, negated, rule)
            case OutInterface(names, negated):
                return self._interfaces("oifname", names, negated, rule)
            case SourcePorts(ports, negated):
                return [self._among(f"{transport} sport", "inet_service", _spans(ports), negated, rule)]
            case DestinationPorts(ports, negated):
                return [self._among(f"{transport} dport", "inet_service", _spans(ports), negated, rule)]
            case Owner(kind, ids, negated):
                return [self._among(f"meta sk{kind}", kind, [(number, number) for number in ids], negated, rule)]
            case OwnerWithin(ranges):
                return [self._among("meta skuid", "uid", _spans(ranges), False, rule)]
            case MarkIs(mark, negated):
                return [_mark("meta mark", mark, negated)]
            case ConnmarkIs(mark, negated):
                return [_mark("ct mark", mark, negated)]
            case CtState(states, negated):
                return [_state(states, negated)]
            case CtDirection(direction):
                return [f"ct direction {direction.lower()}"]
            case SocketIs(transparent):
                return ["socket transparent 1" if transparent else "socket transparent <= 1"]
            case Syn(negated):
                return [f"{SYN_FLAGS} {'!=' if negated else '=='} syn"]
            case _:
                assert_never(match)

    def _blocks(self, side: str, cidrs: Iterable[Cidr], negated: bool, rule: Rule) -> str:
        family = 6 if rule.family == 6 else 4
        kind: SetType = "ipv6_addr" if family == 6 else "ipv4_addr"
        ranges = [(cidr.network, cidr.last) for cidr in cidrs]
        return self._among(f"{ADDRESS_WORDS[family]} {side}", kind, ranges, negated, rule)

    def _interfaces(self, what: str, names: tuple[str, ...], negated: bool, rule: Rule) -> list[str]:
        whole, beginnings = _named(names)
        numbers = [(number, number) for number in map(name_number, whole)]
        listed = [self._among(what, "ifname", numbers, negated, rule)] if numbers else []
        return [*listed, *(f'{what} {_not(negated)}"{name[:-1]}*"' for name in beginnings)]

    def _among(self, what: str, kind: SetType, ranges: Iterable[tuple[int, int]], negated: bool, rule: Rule) -> str:
        """One value or range in the rule itself, more of them in a set."""
        found = merged(ranges)
        if len(found) == 1:
            return f"{what} {_not(negated)}{range_text(kind, *found[0])}"
        return f"{what} {_not(negated)}@{self._set(kind, found, rule)}"

    def _set(self, kind: SetType, ranges: Ranges, rule: Rule) -> str:
        """The name of the set with these values: the spec's field that first asked for them, and a family."""
        made = self.sets.get((kind, ranges))
        if made is None:
            wanted = "".join(letter if letter.isalnum() else "_" for letter in rule.origin).strip("_") or "values"
            wanted += {"ipv4_addr": "_ipv4", "ipv6_addr": "_ipv6"}.get(kind, "")
            name, number = wanted, 1
            while name in self._names:
                number += 1
                name = f"{wanted}_{number}"
            self._names.add(name)
            made = self.sets[kind, ranges] = NftSet(name, kind, ranges)
        return made.name


def merged_mark(loaded: str, mark: Mark) -> str:
    """The value that has the mark's bits under its mask, and those of ``loaded`` elsewhere."""
    kept = FULL & ~mark.mask
    if not kept:
        return f"{mark.number:#x}"
    return f"{loaded} & {kept:#x} | {mark.number:#x}" if mark.number else f"{loaded} & {kept:#x}"


def _everybody_but(rule: Rule) -> bool:
    return (
        isinstance(rule.target, Return)
        and len(rule.matches) == 1
        and isinstance(rule.matches[0], Owner)
        and rule.matches[0].negated
    )


def _place(match: Match) -> int:
    """Addresses, interfaces and the protocol first, as in the rules of iptables: cheap, and what ports need."""
    order = (Source, Destination, InInterface, OutInterface, Protocol, SourcePorts, DestinationPorts)
    return order.index(type(match)) if type(match) in order else len(order)


def _not(negated: bool) -> str:
    return "!= " if negated else ""


def _named(names: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Whole names, and beginnings of names (``eth+``), without those that another beginning covers."""
    given = tuple(dict.fromkeys(names))
    wild = [name for name in given if name.endswith("+")]
    kept = [name for name in given if not any(name != other and name.startswith(other[:-1]) for other in wild)]
    return tuple(name for name in kept if name not in wild), tuple(name for name in kept if name in wild)


def _apart(rule: Rule) -> Iterator[Rule]:
    """A rule for the whole names, and one for each beginning of a name: nft before 1.0.3 takes none into a set."""
    for place, match in enumerate(rule.matches):
        if isinstance(match, (InInterface, OutInterface)) and not match.negated:
            whole, beginnings = _named(match.names)
            parts = [part for part in (whole, *((name,) for name in beginnings)) if part]
            if len(parts) > 1:
                for names in parts:
                    matches = (*rule.matches[:place], replace(match, names=names), *rule.matches[place + 1 :])
                    yield from _apart(replace(rule, matches=matches))
                return
    yield rule


def _spans(items: Iterable[object]) -> list[tuple[int, int]]:
    return [(item.first, item.last) for item in items]  # type: ignore[attr-defined]


def _mark(loaded: str, mark: Mark, negated: bool) -> str:
    if mark.mask == FULL:
        return f"{loaded} {_not(negated)}{mark.number:#x}"
    return f"{loaded} & {mark.mask:#x} {'!=' if negated else '=='} {mark.number:#x}"


def _state(states: Iterable[str], negated: bool) -> str:
    """``DNAT`` is a status and no state to nft; the two don't meet in one match (``nft_support``)."""
    names = [name for name in ("invalid", "established", "related", "new") if name.upper() in states]
    if not names:
        return "ct status & dnat == 0" if negated else "ct status dnat"
    if negated:
        return f"ct state != {names[0]}" if len(names) == 1 else f"ct state & ({' | '.join(names)}) == 0"
    return f"ct state {','.join(names)}"


def _target(rule: Rule) -> str:
    target: Target = rule.target
    match target:
        case Accept():
            return "accept"
        case Drop():
            return "drop"
        case Return():
            return "return"
        case Jump(chain):
            return f"jump {chain_name(rule.id.partition('.')[0], chain)}"
        case SetMark(mark):
            return f"meta mark set {merged_mark('meta mark', mark)}"
        case SaveMark(mask):
            return f"ct mark set {merged_mark('ct mark', copied(rule, MarkIs, mask))}"
        case RestoreMark(mask):
            return f"meta mark set {merged_mark('meta mark', copied(rule, ConnmarkIs, mask))}"
        case Zone(number):
            return f"ct zone set {number}"
        case Redirect(ports):
            return f"redirect to :{ports}"
        case Tproxy(port, mark):
            # Where an address has said the family, nft wants to hear it again.
            family = "" if rule.family is None else f" {ADDRESS_WORDS[rule.family]}"
            return f"tproxy{family} to :{port} meta mark set {merged_mark('meta mark', mark)} accept"
        case _:
            assert_never(target)


def copied(rule: Rule, known_by: type[MarkIs] | type[ConnmarkIs], mask: int) -> Mark:
    """The bits that a rule copies between a packet and its connection.

    nft puts together the bits of two marks since 1.1.2 alone, with Linux 6.13 under it. But whoever copies a mark has
    asked for it in the same rule, so that its value is known and can be written.
    """
    for match in rule.matches:
        if isinstance(match, known_by) and not match.negated and match.mark.mask & mask == mask:
            return replace(match.mark, number=match.mark.number & mask, mask=mask)
    raise UnsupportedError([f"rule {rule.id} copies a mark that it doesn't ask for: nft can't merge the bits of two"])
