"""What rules of nftables do to a packet besides plain verdicts, each to an action."""

from __future__ import annotations

from meshnet.model.marks import FULL
from meshnet.model.rule import (
    Note,
    PutConnectionMark,
    PutMark,
    Reject,
    RestoreConnectionMark,
    SaveConnectionMark,
    ToSocket,
    Track,
    Translate,
)
from meshnet.parse.nft_values import Unclear, numeral, spans_of
from meshnet.parse.nft_words import BIT_SIGNS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Literal

    from meshnet.model.cidr import Family
    from meshnet.model.rule import Action
    from meshnet.parse.nft_words import Words

    Kind = Literal["REDIRECT", "DNAT", "SNAT", "MASQUERADE"]

LOG_OPTIONS = ("prefix", "snaplen", "group", "queue-threshold", "level")
WAYS = ("random", "fully-random", "persistent")
KINDS: dict[str, Kind] = {"redirect": "REDIRECT", "masquerade": "MASQUERADE", "dnat": "DNAT", "snat": "SNAT"}
FAMILIES: dict[str, Family] = {"ip": 4, "ip6": 6}


def statement(words: Words, only: Callable[[Family], None]) -> Action | None:
    """The statement that the next words are; None if they are none. ``only`` is told of the family that one names."""
    tokens = words.tokens[words.place : words.place + 3]
    match tokens:
        case ["meta", "mark", "set"]:
            words.place += 3
            return _mark(words, connection=False)
        case ["ct", "mark", "set"]:
            words.place += 3
            return _mark(words, connection=True)
        case ["ct", "zone", "set"]:
            words.place += 3
            zone = numeral(words.next(), 0xFFFF)
            return Track(original_zone=zone, reply_zone=zone, again=True)
        case ["meta", "nftrace", "set"]:
            words.place += 4
            return Note(("nftrace",))
    match words.peek():
        case "notrack":
            words.place += 1
            return Track(notrack=True)
        case "log":
            return _log(words)
        case "reject":
            return _reject(words)
        case "tproxy":
            words.place += 1
            return _tproxy(words, only)
        case "redirect" | "masquerade" | "dnat" | "snat" as kind:
            words.place += 1
            return _translate(words, KINDS[kind], only)
    return None


def _mark(words: Words, *, connection: bool) -> Action:
    """What is written: a number, or a mark with some bits kept, set or turned over, from left to right."""
    kept, put, source = 0, 0, ""
    first = words.next()
    if first in ("meta", "ct"):
        words.wants("mark")
        kept, source = FULL, first
    else:
        put = numeral(first)
    ored = False
    while (sign := BIT_SIGNS.get(words.peek())) is not None:
        words.place += 1
        number = numeral(words.next())
        if sign == "&" and ored:
            raise Unclear  # nft binds & closer than | and ^
        ored |= sign != "&"
        kept &= number if sign == "&" else ~number if sign == "|" else FULL
        put = put & number if sign == "&" else put & ~number | number if sign == "|" else put ^ number
    same = source in ("", "ct" if connection else "meta")
    if same:
        made = PutConnectionMark if connection else PutMark
        return made(put, ~kept & FULL)
    if put:
        raise Unclear
    return SaveConnectionMark(kept, FULL) if connection else RestoreConnectionMark(FULL, kept)


def _log(words: Words) -> Action:
    words.place += 1
    while words.peek() in LOG_OPTIONS:
        words.place += 2
    if words.peek() == "flags":
        raise Unclear
    return Note(("log",))


def _reject(words: Words) -> Action:
    """Whatever it answers with."""
    words.place += 1
    if not words.takes("with"):
        return Reject()
    said = [words.next()]
    if said[0] not in ("tcp", "icmp", "icmpv6", "icmpx"):
        raise Unclear
    words.takes("type")
    said.append(words.next())
    return Reject(" ".join(said))


def _target(words: Words, only: Callable[[Family], None]) -> tuple[int | None, tuple[int, int] | None]:
    """``[ip|ip6] to ADDRESS``, ``to :PORT`` or ``to ADDRESS:PORT``; the address None where none is said."""
    family = FAMILIES.get(words.peek())
    if family is not None:
        words.place += 1
        only(family)
    if not words.takes("to"):
        return None, None
    text = words.next()
    if text.startswith(":"):
        ((first, last),) = spans_of("inet_service", text[1:])
        return None, (first, last)
    six = text.startswith("[") or text.count(":") > 1
    host, _, port = text.rpartition("]:") if text.startswith("[") else (text, "", "") if six else _apart(text)
    ((low, high),) = spans_of("ipv6_addr" if six else "ipv4_addr", host.strip("[]"))
    if low != high:
        raise Unclear
    only(6 if six else 4)
    return low, spans_of("inet_service", port)[0] if port else None


def _apart(text: str) -> tuple[str, str, str]:
    return text.partition(":")


def _tproxy(words: Words, only: Callable[[Family], None]) -> Action:
    address, ports = _target(words, only)
    if ports is not None and ports[0] != ports[1]:
        raise Unclear
    if ports is None and address is None:
        raise Unclear
    return ToSocket(ports[0] if ports is not None else 0, address or 0, goes_on=True)


def _translate(words: Words, kind: Kind, only: Callable[[Family], None]) -> Action:
    address, ports = _target(words, only)
    if kind in ("DNAT", "SNAT") and address is None and ports is None:
        raise Unclear
    if kind in ("REDIRECT", "MASQUERADE") and address is not None:
        raise Unclear
    ways = []
    while words.peek() in (*WAYS, ","):
        ways.append(words.next())
    return Translate(kind, address, address, ports, flags=tuple(f"--{way}" for way in ways if way != ","))
