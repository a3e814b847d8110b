"""A rule set as the text of iptables-save, with one spelling for everything."""

from __future__ import annotations

from meshnet.model.cidr import BITS, address_text
from meshnet.model.errors import UnsupportedError
from meshnet.model.marks import FULL
from meshnet.model.protocols import PROTOCOLS, TCP_FLAGS
from meshnet.model.rule import (
    Accept,
    AddressesAre,
    AddressIs,
    AddressType,
    AnyOf,
    Call,
    Comment,
    ConnectionIs,
    ConnectionMark,
    Drop,
    FlagsAre,
    Fragment,
    IcmpIs,
    InSet,
    InterfaceIs,
    Note,
    Nothing,
    OwnerIs,
    PacketMark,
    PortIs,
    PortsAre,
    ProtocolIs,
    PutConnectionMark,
    PutMark,
    Reject,
    RestoreConnectionMark,
    Return,
    SaveConnectionMark,
    SenderIs,
    SocketFound,
    ToSocket,
    Track,
    Translate,
    UnknownMatch,
    UnknownTarget,
)
from meshnet.model.value import assert_never

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from meshnet.model.cidr import Family
    from meshnet.model.rule import (
        Action,
        Condition,
        End,
        IdSpan,
    )
    from meshnet.model.ruleset import HeldRule, RuleSet

NAMES = {number: name for name, number in reversed(PROTOCOLS.items())}
QUOTED = set(" \t\"'\\")


def text_of(rules: RuleSet) -> str:
    return "".join(f"{line}\n" for line in _lines(rules))


def _lines(rules: RuleSet) -> Iterator[str]:
    for table in rules.tables:
        yield f"*{table.name}"
        for chain in table.chains:
            yield f":{chain.name} {chain.policy or '-'} [0:0]"
        for chain in table.chains:
            for rule in chain.rules:
                yield f"-A {chain.name} {rule_text(rule, rules.family)}".rstrip()
        yield "COMMIT"


def rule_text(rule: HeldRule, family: Family) -> str:
    """What stands behind ``-A CHAIN``; of a rule of nftables, nft's words."""
    if rule.words:
        return rule.words
    protocol = next(
        (item.number for item in rule.conditions if isinstance(item, ProtocolIs) and not item.negated), None
    )
    words = [word for item in rule.conditions for word in _condition(item, family, protocol)]
    return " ".join(quote(word) for word in (*words, *_action(rule.action, family)))


def quote(word: str) -> str:
    """As xtables_save_string does: in quotes if it has anything but plain letters, with a backslash where needed. What
    isn't printable might be a blank to who reads it, as U+2028 is."""
    if word.isprintable() and word and not QUOTED & set(word):
        return word
    escaped = "".join(f"\\{letter}" if letter in "\"'\\" else letter for letter in word)
    return f'"{escaped}"'


def _not(negated: bool) -> tuple[str, ...]:
    return ("!",) if negated else ()


def _end(end: End) -> str:
    return "-s" if end == "source" else "-d"


def _span(first: int, last: int, between: str = ":") -> str:
    return str(first) if first == last else f"{first}{between}{last}"


def _masked(number: int, mask: int) -> str:
    return f"{number:#x}" if mask == FULL else f"{number:#x}/{mask:#x}"


def _condition(item: Condition, family: Family, protocol: int | None) -> Iterable[str]:  # noqa: C901 (one case for each)
    match item:
        case ProtocolIs(number, negated):
            return (*_not(negated), "-p", NAMES.get(number, str(number)))
        case AddressIs(end, network, mask, negated):
            return (*_not(negated), _end(end), f"{address_text(family, network)}/{_mask(mask, family)}")
        case AddressesAre(end, ((first, last),), negated):
            option = "--src-range" if end == "source" else "--dst-range"
            span = f"{address_text(family, first)}-{address_text(family, last)}"
            return ("-m", "iprange", *_not(negated), option, span)
        case AddressesAre() | SenderIs() | AnyOf():
            raise UnsupportedError([f"iptables has no words for {item}"])
        case InterfaceIs(way, name, negated):
            return (*_not(negated), "-i" if way == "in" else "-o", name)
        case PortIs(end, first, last, negated):
            option = "--sport" if end == "source" else "--dport"
            return ("-m", NAMES.get(protocol or 6, "tcp"), *_not(negated), option, _span(first, last))
        case PortsAre(end, spans, negated):
            option = {"source": "--sports", "destination": "--dports", "either": "--ports"}[end]
            return ("-m", "multiport", *_not(negated), option, ",".join(_span(*span) for span in spans))
        case FlagsAre(mask, wanted, negated):
            return ("-m", "tcp", *_not(negated), "--tcp-flags", _flags(mask), _flags(wanted))
        case IcmpIs(number, first, last, negated):
            return _icmp(number, first, last, negated, family)
        case OwnerIs():
            return ("-m", "owner", *_owner(item))
        case PacketMark(number, mask, negated):
            return ("-m", "mark", *_not(negated), "--mark", _masked(number, mask))
        case ConnectionMark(number, mask, negated):
            return ("-m", "connmark", *_not(negated), "--mark", _masked(number, mask))
        case ConnectionIs():
            return _connection(item)
        case SocketFound(transparent, nowildcard, restore):
            flags = (("--transparent", transparent), ("--nowildcard", nowildcard), ("--restore-skmark", restore))
            return ("-m", "socket", *(name for name, wanted in flags if wanted))
        case AddressType():
            return ("-m", "addrtype", *_address_type(item))
        case InSet(name, sides, negated):
            return ("-m", "set", *_not(negated), "--match-set", name, ",".join(sides))
        case Fragment(negated):
            return (*_not(negated), "-f")
        case Comment(text):
            return ("-m", "comment", "--comment", text)
        case UnknownMatch(words):
            return words
        case _:
            assert_never(item)


def _mask(mask: int, family: Family) -> str:
    bits = BITS[family]
    prefix = mask.bit_count()
    every = (1 << bits) - 1
    return str(prefix) if mask == every ^ (every >> prefix) else address_text(family, mask)


def _flags(bits: int) -> str:
    return ",".join(name for name, bit in TCP_FLAGS.items() if bits & bit) or "NONE"


def _icmp(number: int | None, first: int, last: int, negated: bool, family: Family) -> Iterable[str]:
    module, option = ("icmp", "--icmp-type") if family == 4 else ("icmp6", "--icmpv6-type")
    text = "any" if number is None else str(number) if last > first else f"{number}/{first}"
    return ("-m", module, *_not(negated), option, text)


def _owner(item: OwnerIs) -> Iterator[str]:
    if item.socket is not None:
        yield from (*_not(not item.socket), "--socket-exists")
    if item.uid is not None:
        yield from _ids("--uid-owner", item.uid)
    if item.gid is not None:
        yield from _ids("--gid-owner", item.gid)
    if item.groups:
        yield "--suppl-groups"


def _ids(option: str, ids: IdSpan) -> Iterator[str]:
    yield from (*_not(ids.negated), option, _span(ids.first, ids.last, "-"))


def _connection(item: ConnectionIs) -> Iterator[str]:
    yield from ("-m", "state" if item.old else "conntrack")
    if item.states:
        yield from (*_not(item.states_negated), "--state" if item.old else "--ctstate", ",".join(item.states))
    if item.direction:
        yield from ("--ctdir", item.direction)


def _address_type(item: AddressType) -> Iterator[str]:
    if item.source:
        yield from (*_not(item.source_negated), "--src-type", ",".join(item.source))
    if item.destination:
        yield from (*_not(item.destination_negated), "--dst-type", ",".join(item.destination))
    if item.limit:
        yield f"--limit-iface-{item.limit}"


def _action(action: Action, family: Family) -> Iterable[str]:  # noqa: C901 (one case for each)
    match action:
        case Accept():
            return ("-j", "ACCEPT")
        case Drop():
            return ("-j", "DROP")
        case Return():
            return ("-j", "RETURN")
        case Call(chain, goto):
            return ("-g" if goto else "-j", chain)
        case Reject(reason):
            return ("-j", "REJECT", *(("--reject-with", reason) if reason else ()))
        case PutMark(number, mask):
            return ("-j", "MARK", "--set-xmark", f"{number:#x}/{mask:#x}")
        case PutConnectionMark(number, mask):
            return ("-j", "CONNMARK", "--set-xmark", f"{number:#x}/{mask:#x}")
        case SaveConnectionMark(packet, connection):
            return ("-j", "CONNMARK", "--save-mark", "--nfmask", f"{packet:#x}", "--ctmask", f"{connection:#x}")
        case RestoreConnectionMark(packet, connection):
            return ("-j", "CONNMARK", "--restore-mark", "--nfmask", f"{packet:#x}", "--ctmask", f"{connection:#x}")
        case Track():
            return ("-j", "CT", *_track(action))
        case Translate():
            return ("-j", action.kind, *_translate(action, family))
        case ToSocket(port, address, number, mask):
            marked = ("--tproxy-mark", f"{number:#x}/{mask:#x}")
            return ("-j", "TPROXY", "--on-port", str(port), "--on-ip", address_text(family, address), *marked)
        case Note(words) | UnknownTarget(words):
            return ("-j", *words)
        case Nothing():
            return ()
        case _:
            assert_never(action)


def _track(action: Track) -> Iterator[str]:
    if action.more:
        yield from action.more
        return
    if action.notrack:
        yield "--notrack"
    if action.original_zone is not None and action.original_zone == action.reply_zone:
        yield from ("--zone", str(action.original_zone))
        return
    if action.original_zone is not None:
        yield from ("--zone-orig", str(action.original_zone))
    if action.reply_zone is not None:
        yield from ("--zone-reply", str(action.reply_zone))


def _translate(action: Translate, family: Family) -> Iterator[str]:
    ports = _span(*action.ports, "-") if action.ports else ""
    if action.kind in ("REDIRECT", "MASQUERADE"):
        if ports:
            yield from ("--to-ports", ports)
    else:
        addresses = ""
        if action.first is not None and action.last is not None:
            ends = [action.first] if action.first == action.last else [action.first, action.last]
            addresses = "-".join(address_text(family, address) for address in ends)
        if family == 6 and addresses and ports:
            addresses = f"[{addresses}]"
        shift = f"/{action.shift}" if action.shift is not None else ""
        yield "--to-destination" if action.kind == "DNAT" else "--to-source"
        yield f"{addresses}:{ports}{shift}" if ports else addresses
    yield from action.flags
