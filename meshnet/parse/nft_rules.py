"""The kernel's expressions of nftables, read back as the words that ``render/nftables`` writes.

A rule in the kernel is a small program: registers are loaded, masked, compared; the first comparison that fails ends
it. Here the registers are filled with what they would hold, in words, and each comparison becomes a phrase. So it
doesn't matter in how many steps a version of nft says a thing, and a rule is the same when it does the same.
"""

from __future__ import annotations

import sys

from meshnet.model.nft import UNKNOWN
from meshnet.model.ranges import range_text
from meshnet.model.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from meshnet.model.nft import RawExpression, RawRule, SetType

META = {3: "meta mark", 6: "iifname", 7: "oifname", 10: "meta skuid", 11: "meta skgid", 15: "meta nfproto"}
META |= {16: "meta l4proto"}
CT = {0: "ct state", 1: "ct direction", 2: "ct status", 3: "ct mark", 17: "ct zone"}
PROTOCOLS = {6: "tcp", 17: "udp"}
NFPROTOS = {2: "ipv4", 10: "ipv6"}
DIRECTIONS = {0: "original", 1: "reply"}
STATES = {1: "invalid", 2: "established", 4: "related", 8: "new"}
STATE_WORDS = {"invalid": 1, "established": 2, "related": 4, "new": 8}
DNAT = 0x20
FIN_SYN_RST_ACK, SYN = 0x17, 0x02
VERDICTS = {0: "drop", 1: "accept", -5: "return"}
JUMPS = {-3: "jump", -4: "goto"}
NETWORK, TRANSPORT = 1, 2
ADDRESSES = {("ipv4", 12): ("ip saddr", 4), ("ipv4", 16): ("ip daddr", 4)}
ADDRESSES |= {("ipv6", 8): ("ip6 saddr", 16), ("ipv6", 24): ("ip6 daddr", 16)}
EQ, NEQ, LTE, GTE = 0, 1, 3, 5
VALUE, VERDICT = 1, 2
"""Numbers of linux/netfilter/nf_tables.h, nf_conntrack_common.h and of the protocols' headers."""


@value
class Loaded:
    """What a register holds: ``what`` in words, ``length`` bytes of it, masked, and in network order or the host's."""

    what: str
    length: int
    network_order: bool
    mask: int | None = None
    xor: int = 0


def rule_words(rule: RawRule) -> tuple[str, int]:
    """A rule's text, and how many packets its counter has seen."""
    reader = _Reader()
    for expression in rule.expressions:
        reader.read(expression)
    words = reader.finish()
    if rule.comment:
        words.append(f'comment "{rule.comment}"')
    return " ".join(words), reader.packets


class _Reader:
    """One rule under way: registers by number, and the phrases so far."""

    def __init__(self) -> None:
        self._registers: dict[int, Loaded | bytes] = {}
        self._words: list[str] = []
        self._family = ""
        self._family_said = False
        self._transport = ""
        self._low: tuple[Loaded, int] | None = None
        self.packets = 0

    def finish(self) -> list[str]:
        self._settle()
        return self._words

    def read(self, expression: RawExpression) -> None:
        if self._low is not None and expression.name != "cmp":
            self._settle()
        reader = getattr(self, f"_read_{expression.name}", None)
        try:
            words = None if reader is None else reader(expression.attributes)
        except (KeyError, ValueError, IndexError):
            words = None
        if words is None:
            said = " ".join(f"{kind}={body.hex()}" for kind, body in sorted(expression.attributes.items()))
            words = f"{UNKNOWN} {expression.name} {said})"
        if words:
            self._words.append(words)

    def _settle(self) -> None:
        """A lower bound that no upper one followed."""
        if self._low is not None:
            loaded, number = self._low
            self._low = None
            self._words.append(f"{loaded.what} >= {number}")

    def _load(self, found: dict[int, bytes], loaded: Loaded) -> str:
        self._registers[_number(found[1])] = loaded
        return ""

    def _read_meta(self, found: dict[int, bytes]) -> str | None:
        what = META[_number(found[2])]
        if 3 in found:
            return self._put(what, self._registers[_number(found[3])]) if what == "meta mark" else None
        length = {"iifname": 16, "oifname": 16, "meta nfproto": 1, "meta l4proto": 1}.get(what, 4)
        return self._load(found, Loaded(what, length, what in ("iifname", "oifname")))

    def _read_ct(self, found: dict[int, bytes]) -> str | None:
        what = CT[_number(found[2])]
        if 3 in found:  # of one direction alone
            return None
        if 4 in found:
            held = self._registers[_number(found[4])]
            if what == "ct zone" and isinstance(held, bytes):
                return f"ct zone set {int.from_bytes(held[:2], sys.byteorder)}"
            return self._put(what, held) if what == "ct mark" else None
        return self._load(found, Loaded(what, 1 if what == "ct direction" else 4, False))

    def _put(self, what: str, held: Loaded | bytes) -> str | None:
        if isinstance(held, bytes):
            return f"{what} set {int.from_bytes(held, sys.byteorder):#x}"
        if held.mask is None or held.what != what:
            return None
        # Every bit that is set anew is cleared by the mask, or would be turned round.
        if held.xor & held.mask:
            return None
        value = f" | {held.xor:#x}" if held.xor else ""
        return f"{what} set {what} & {held.mask:#x}{value}"

    def _read_payload(self, found: dict[int, bytes]) -> str | None:
        base, offset, length = (_number(found[kind]) for kind in (2, 3, 4))
        if 5 in found:
            return None
        if base == NETWORK:
            for (family, place), (what, whole) in ADDRESSES.items():
                if (family, place) == (self._family, offset) and length <= whole:
                    self._say_family()
                    return self._load(found, Loaded(what, length, True))
        elif base == TRANSPORT and self._transport:
            if (offset, length) in ((0, 2), (2, 2)):
                side = "dport" if offset else "sport"
                return self._load(found, Loaded(f"{self._transport} {side}", 2, True))
            if (self._transport, offset, length) == ("tcp", 13, 1):
                return self._load(found, Loaded("tcp flags", 1, True))
        return None

    def _say_family(self) -> None:
        """An address says its family itself."""
        if not self._family_said:
            self._words.remove(f"meta nfproto {self._family}")
            self._family_said = True

    def _read_socket(self, found: dict[int, bytes]) -> str | None:
        return self._load({1: found[2]}, Loaded("socket transparent", 1, False)) if not _number(found[1]) else None

    def _read_bitwise(self, found: dict[int, bytes]) -> str | None:
        held = self._registers[_number(found[1])]
        if not isinstance(held, Loaded) or held.mask is not None or _number(found.get(6, b"")):
            return None
        mask, xor = (self._value(held, found[kind]) for kind in (4, 5))
        made = Loaded(held.what, held.length, held.network_order, mask, xor)
        self._registers[_number(found[2])] = made
        return ""

    def _read_byteorder(self, found: dict[int, bytes]) -> str | None:
        held = self._registers[_number(found[1])]
        if not isinstance(held, Loaded) or _number(found[3]) != 1 or held.network_order:
            return None
        self._registers[_number(found[2])] = Loaded(held.what, held.length, True, held.mask, held.xor)
        return ""

    def _value(self, held: Loaded, data: bytes) -> int:
        return int.from_bytes(_data(data), "big" if held.network_order else sys.byteorder)

    def _read_cmp(self, found: dict[int, bytes]) -> str | None:
        held = self._registers[_number(found[1])]
        if not isinstance(held, Loaded):
            return None
        operation, data = _number(found[2]), _data(found[3])
        if held.what in ("iifname", "oifname"):
            return _interface(held, operation, data)
        number = self._value(held, found[3])
        if operation == GTE and self._low is None and held.mask is None:
            self._low = (held, number)
            return ""
        if operation == LTE and self._low is not None and self._low[0].what == held.what:
            low, self._low = self._low[1], None
            return f"{held.what} {_span(held, low, number)}"
        self._settle()
        negation = {EQ: "", NEQ: "!= "}.get(operation)
        if negation is None:
            there = (held.what, operation, number) == ("socket transparent", LTE, 1)
            return "socket transparent <= 1" if there else None
        return self._compared(held, negation, number)

    def _compared(self, held: Loaded, negation: str, number: int) -> str | None:
        match held.what:
            case "meta l4proto":
                name = PROTOCOLS.get(number, str(number))
                self._transport = "" if negation else name
                return f"meta l4proto {negation}{name}"
            case "meta nfproto":
                self._family = "" if negation else NFPROTOS[number]
                self._family_said = False
                return f"meta nfproto {negation}{NFPROTOS[number]}"
            case "ct direction":
                return f"ct direction {negation}{DIRECTIONS[number]}"
            case "ct state" | "ct status" | "tcp flags":
                return _flags(held, negation, number)
            case "meta mark" | "ct mark" if held.mask is None:
                return f"{held.what} {negation}{number:#x}"
            case "meta mark" | "ct mark" if not held.xor:
                return f"{held.what} & {held.mask:#x} {negation.strip() or '=='} {number:#x}"
            case "ip saddr" | "ip daddr" | "ip6 saddr" | "ip6 daddr":
                return _block(held, negation, number)
        return f"{held.what} {negation}{number}" if held.mask is None else None

    def _read_range(self, found: dict[int, bytes]) -> str | None:
        held = self._registers[_number(found[1])]
        if not isinstance(held, Loaded) or held.mask is not None:
            return None
        first, last = self._value(held, found[3]), self._value(held, found[4])
        negation = {EQ: "", NEQ: "!= "}[_number(found[2])]
        return f"{held.what} {negation}{_span(held, first, last)}"

    def _read_lookup(self, found: dict[int, bytes]) -> str | None:
        held = self._registers[_number(found[2])]
        if not isinstance(held, Loaded) or held.mask is not None or not held.network_order or 3 in found:
            return None
        return f"{held.what} {'!= ' if _number(found.get(5, b'')) & 1 else ''}@{_text(found[1])}"

    def _read_counter(self, found: dict[int, bytes]) -> str:
        self.packets = _number(found[2])
        return "counter"

    def _read_immediate(self, found: dict[int, bytes]) -> str | None:
        register, data = _number(found[1]), _attributes(found[2])
        if register:
            self._registers[register] = data[VALUE]
            return ""
        verdict = _attributes(data[VERDICT])
        code = int.from_bytes(verdict[1], "big", signed=True)
        return f"{JUMPS[code]} {_text(verdict[2])}" if code in JUMPS else VERDICTS[code]

    def _read_redir(self, found: dict[int, bytes]) -> str | None:
        first, last = (self._port(found[kind]) for kind in (1, 2)) if 2 in found else (self._port(found[1]),) * 2
        return f"redirect to :{first}" if first == last else f"redirect to :{first}-{last}"

    def _read_tproxy(self, found: dict[int, bytes]) -> str | None:
        family = {0: "", 2: " ip", 10: " ip6"}[_number(found.get(1, b""))]
        return None if 2 in found else f"tproxy{family} to :{self._port(found[3])}"

    def _port(self, register: bytes) -> int:
        held = self._registers[_number(register)]
        if not isinstance(held, bytes):
            raise ValueError("a port that was computed")
        return int.from_bytes(held[:2], "big")

    def _read_log(self, found: dict[int, bytes]) -> str:
        group, snaplen = _number(found[1]), _number(found[3])
        return f'log prefix "{_text(found[2])}" snaplen {snaplen} group {group}'


def _interface(held: Loaded, operation: int, data: bytes) -> str | None:
    """A whole name is compared with its end, so in 16 bytes; the beginning of one in as many as it has."""
    negation = {EQ: "", NEQ: "!= "}.get(operation)
    if negation is None:
        return None
    name = data.rstrip(b"\0").decode("ascii", "replace")
    return f'{held.what} {negation}"{name}"' if len(data) == held.length else f'{held.what} {negation}"{name}*"'


def _flags(held: Loaded, negation: str, number: int) -> str | None:
    mask = held.mask
    if held.what == "tcp flags" and (mask, number, held.xor) == (FIN_SYN_RST_ACK, SYN, 0):
        return f"tcp flags & (fin | syn | rst | ack) {negation.strip() or '=='} syn"
    if held.what == "ct status" and (mask, number, held.xor) == (DNAT, 0, 0):
        return "ct status dnat" if negation else "ct status & dnat == 0"
    if held.what != "ct state" or held.xor:
        return None
    if mask is None:
        return f"ct state {negation}{STATES[number]}"
    names = [name for name, bit in STATE_WORDS.items() if mask & bit]
    if number or mask & ~0xF:
        return None
    if negation:
        return f"ct state {','.join(names)}"
    return f"ct state & ({' | '.join(names)}) == 0" if len(names) > 1 else f"ct state != {names[0]}"


def _block(held: Loaded, negation: str, number: int) -> str | None:
    """A prefix of whole bytes is compared in as many of them, any other one under a mask."""
    whole = 4 if held.what.startswith("ip ") else 16
    bits = 8 * held.length
    if held.mask is not None:
        if held.xor or held.length != whole:
            return None
        low = ~held.mask & ((1 << bits) - 1)
        if low & (low + 1):  # holes in the mask
            return None
        length = bits - low.bit_length()
    else:
        length = bits
    first = number << 8 * (whole - held.length)
    return f"{held.what} {negation}{_span(held, first, first | ((1 << 8 * whole - length) - 1))}"


def _span(held: Loaded, first: int, last: int) -> str:
    kind: SetType = "inet_service"
    if held.what.startswith("ip"):
        kind = "ipv4_addr" if held.what.startswith("ip ") else "ipv6_addr"
    return range_text(kind, first, last)


def _attributes(body: bytes) -> dict[int, bytes]:
    """The attributes within a netlink attribute, by kind."""
    found: dict[int, bytes] = {}
    place, end = 0, len(body)
    while place + 4 <= end:
        length, kind = (int.from_bytes(body[at : at + 2], sys.byteorder) for at in (place, place + 2))
        if not 4 <= length <= end - place:
            break
        found[kind & 0x3FFF] = body[place + 4 : place + length]
        place += (length + 3) & ~3
    return found


def _data(body: bytes) -> bytes:
    return _attributes(body)[VALUE]


def _number(body: bytes) -> int:
    return int.from_bytes(body, "big")


def _text(body: bytes) -> str:
    return body.rstrip(b"\0").decode("utf-8", "replace")
