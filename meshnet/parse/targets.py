"""What a rule does with a packet: the options of its target to an action, or to its own words if it isn't known."""

from __future__ import annotations

from meshnet.model.marks import FULL
from meshnet.model.rule import (
    Accept,
    Call,
    Drop,
    Note,
    PutConnectionMark,
    PutMark,
    Reject,
    RestoreConnectionMark,
    Return,
    SaveConnectionMark,
    ToSocket,
    Track,
    Translate,
    UnknownTarget,
)
from meshnet.parse.numbers import NotKnown, address, masked, number, span

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from meshnet.model.cidr import Family
    from meshnet.model.rule import Action
    from meshnet.parse.options import Block, Option

NOTES = (
    "AUDIT", "CHECKSUM", "CLASSIFY", "CONNSECMARK", "DSCP", "ECN", "IDLETIMER", "LED", "LOG", "NFLOG", "RATEEST",
    "SECMARK", "TCPMSS", "TCPOPTSTRIP", "TOS", "TRACE", "ULOG",
)  # fmt: skip
"""Targets that go on to the next rule and change nothing that a later rule, a route or a socket asks about."""

EXTENSIONS = frozenset(
    (
        "CLUSTERIP", "CONNMARK", "CT", "DNAT", "DNPT", "HL", "HMARK", "MARK", "MASQUERADE", "NETMAP", "NFQUEUE",
        "NOTRACK", "QUEUE", "REDIRECT", "REJECT", "SET", "SNAT", "SNPT", "SYNPROXY", "TEE", "TPROXY", "TTL", *NOTES,
    )
)  # fmt: skip
"""The targets of iptables 1.8; any other word behind -j is a chain's name."""


def read_target(found: Block, family: Family) -> Action:
    name = found.name
    if found.flag == "-g":
        return Call(name, goto=True)
    plain: dict[str, Action] = {"ACCEPT": Accept(), "DROP": Drop(), "RETURN": Return()}
    if name in plain and not found.options:
        return plain[name]
    if name in NOTES:
        return Note(found.words()[1:])
    if name in READERS:
        try:
            return READERS[name](found.options, family)
        except NotKnown:
            return UnknownTarget(found.words()[1:])
    if name in EXTENSIONS or found.options:
        return UnknownTarget(found.words()[1:])
    return Call(name)


def _options(options: Iterable[Option]) -> dict[str, str]:
    """Options by name with their one value; what is said twice, negated or has several values isn't known."""
    found: dict[str, str] = {}
    for option in options:
        if option.negated or len(option.values) > 1 or option.name in found:
            raise NotKnown
        found[option.name] = option.values[0] if option.values else ""
    return found


def _mark_change(options: dict[str, str]) -> tuple[int, int]:
    """``(number, mask)`` of ``mark & ~mask ^ number`` (xt_mark.c, libxt_MARK.c)."""
    if len(options) != 1:
        raise NotKnown
    ((name, text),) = options.items()
    match name:
        case "--set-xmark":
            return masked(text)
        case "--set-mark":
            bits, mask = masked(text)
            return bits, mask | bits
        case "--and-mark":
            return 0, ~number(text) & FULL
        case "--or-mark":
            return number(text), number(text)
        case "--xor-mark":
            return number(text), 0
        case _:
            raise NotKnown


def _mark(options: Iterable[Option], family: Family) -> Action:
    del family
    return PutMark(*_mark_change(_options(options)))


def _connmark(options: Iterable[Option], family: Family) -> Action:
    del family
    found = _options(options)
    saves, restores = "--save-mark" in found, "--restore-mark" in found
    if saves == restores:
        return PutConnectionMark(*_mark_change(found))
    if not set(found) <= {"--save-mark", "--restore-mark", "--mask", "--nfmask", "--ctmask"}:
        raise NotKnown
    both = number(found["--mask"]) if "--mask" in found else FULL
    masks = number(found.get("--nfmask", str(both))), number(found.get("--ctmask", str(both)))
    return SaveConnectionMark(*masks) if saves else RestoreConnectionMark(*masks)


def _track(options: Iterable[Option], family: Family) -> Action:
    del family
    more = tuple(word for option in options for word in option.words())
    found = _options(options)
    known = {"--zone", "--zone-orig", "--zone-reply", "--notrack"}
    side = {"--helper", "--ctevents", "--expevents", "--timeout"}
    if not set(found) <= known | side:
        raise NotKnown
    both = found.get("--zone")
    original, reply = found.get("--zone-orig", both), found.get("--zone-reply", both)
    return Track(
        "--notrack" in found,
        number(original, 65535) if original is not None else None,
        number(reply, 65535) if reply is not None else None,
        more if set(found) & side else (),
    )


def _notrack(options: Iterable[Option], family: Family) -> Action:
    del family
    if _options(options):
        raise NotKnown
    return Track(notrack=True)


NAT_FLAGS = ("--random", "--random-fully", "--persistent")


def _flags(found: dict[str, str]) -> tuple[str, ...]:
    return tuple(name for name in NAT_FLAGS if name in found)


def _only(found: dict[str, str], *names: str) -> None:
    if not set(found) <= {*names, *NAT_FLAGS}:
        raise NotKnown


def _port_span(text: str) -> tuple[int, int]:
    return span(text.replace(":", "-"), "-", 65535)


def _redirect(options: Iterable[Option], family: Family) -> Action:
    del family
    found = _options(options)
    _only(found, "--to-ports", "--to-port")
    text = found.get("--to-ports", found.get("--to-port"))
    return Translate("REDIRECT", ports=_port_span(text) if text is not None else None, flags=_flags(found))


def _masquerade(options: Iterable[Option], family: Family) -> Action:
    del family
    found = _options(options)
    _only(found, "--to-ports")
    text = found.get("--to-ports")
    return Translate("MASQUERADE", ports=_port_span(text) if text is not None else None, flags=_flags(found))


def _dnat(options: Iterable[Option], family: Family) -> Action:
    found = _options(options)
    _only(found, "--to-destination")
    return _to(found.get("--to-destination", "?"), "DNAT", family, _flags(found))


def _snat(options: Iterable[Option], family: Family) -> Action:
    found = _options(options)
    _only(found, "--to-source")
    return _to(found.get("--to-source", "?"), "SNAT", family, _flags(found))


def _to(text: str, kind: str, family: Family, flags: tuple[str, ...]) -> Translate:
    """``[address[-address]][:port[-port[/base]]]``; IPv6 writes the addresses in brackets when ports follow."""
    if family == 6:
        inside, bracket, rest = text[1:].partition("]") if text.startswith("[") else (text, "", "")
        addresses, port_text = inside, rest.removeprefix(":") if bracket else ""
    else:
        addresses, _, port_text = text.partition(":")
    first, dash, last = addresses.partition("-")
    low = address(first.strip("[]"), family) if first else None
    high = address(last.strip("[]"), family) if dash else low
    span_text, slash, base = port_text.partition("/")
    shift = number(base, 65535) if slash else None
    return Translate(kind, low, high, _port_span(span_text) if span_text else None, shift, flags)  # type: ignore[arg-type]


def _tproxy(options: Iterable[Option], family: Family) -> Action:
    found = _options(options)
    if not set(found) <= {"--on-port", "--on-ip", "--tproxy-mark"}:
        raise NotKnown
    bits, mask = masked(found["--tproxy-mark"]) if "--tproxy-mark" in found else (0, 0)
    to = address(found["--on-ip"], family) if "--on-ip" in found else 0
    return ToSocket(number(found.get("--on-port", "0"), 65535), to, bits, mask)


def _reject(options: Iterable[Option], family: Family) -> Action:
    del family
    found = _options(options)
    if not set(found) <= {"--reject-with"}:
        raise NotKnown
    return Reject(found.get("--reject-with", ""))


READERS: dict[str, Callable[[list[Option], Family], Action]] = {
    "MARK": _mark,
    "CONNMARK": _connmark,
    "CT": _track,
    "NOTRACK": _notrack,
    "REDIRECT": _redirect,
    "MASQUERADE": _masquerade,
    "DNAT": _dnat,
    "SNAT": _snat,
    "TPROXY": _tproxy,
    "REJECT": _reject,
}
