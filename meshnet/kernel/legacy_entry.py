"""The head of a legacy rule as the kernel keeps it (struct ipt_entry, struct ip6t_entry), from words and to words.

python-iptables can make these heads too, but in its IPv6 half (1.2.0) an interface matches by the lowest bit of each
letter (mask 0x01 for 0xff), and ``! -p tcp`` matches everything, since the flag that says "look at the protocol" is
taken away. So the bytes are made here; parsing and printing of matches and targets stays with libxtables.
"""

from __future__ import annotations

import socket
import struct

from meshnet.model.cidr import BITS, read_address
from meshnet.model.errors import ToolError, Wrong
from meshnet.model.ports import number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from meshnet.model.cidr import Family

HEAD = {4: struct.Struct("=4s4s4s4s16s16s16s16sHBB"), 6: struct.Struct("=16s16s16s16s16s16s16s16sHBBB3x")}
REST = {4: struct.Struct("=IHHIQQ"), 6: struct.Struct("=IHHI4xQQ")}
"""nfcache, target_offset, next_offset, comefrom, packets, bytes; IPv6 has four bytes of padding before the counters."""

SIZE = {family: HEAD[family].size + REST[family].size for family in (4, 6)}
PROTOCOL_FLAG = 0x01
GOTO_FLAG = {4: 0x02, 6: 0x04}
INVERTED = {"-i": 0x01, "-o": 0x02, "-s": 0x08, "-d": 0x10, "-p": 0x40}
"""IPT_F_…, IP6T_F_…, IPT_INV_… of linux/netfilter_ipv4/ip_tables.h and its IPv6 twin."""

PROTOCOLS = {
    "icmp": 1,
    "tcp": 6,
    "udp": 17,
    "dccp": 33,
    "esp": 50,
    "ah": 51,
    "ipv6-icmp": 58,
    "sctp": 132,
    "udplite": 136,
}
NUMBERS = {number: name for name, number in PROTOCOLS.items()}
STANDARD = struct.Struct("=H29sBi4x")
"""struct xt_standard_target: size, name, revision, verdict. libiptc turns the name into the verdict."""

EXTENSION = struct.Struct("=H29sB")
"""The start of every struct xt_entry_match and xt_entry_target."""


class Head:
    """The part of a rule that needs no extension. Set fields by their options, then ``pack``."""

    __slots__ = ("family", "goto", "inverted", "protocol", "words")

    def __init__(self, family: Family) -> None:
        self.family = family
        self.words: dict[str, str] = {}
        self.inverted = 0
        self.protocol = 0
        self.goto = False

    def set(self, option: str, word: str, negated: bool) -> None:
        """Take ``-p``, ``-s``, ``-d``, ``-i`` or ``-o`` with its word. ToolError for a word that is none."""
        if option == "-p":
            self.protocol = _protocol(word)
            if negated and not self.protocol:
                raise ToolError("! -p all matches nothing")
        self.words[option] = word
        if negated:
            self.inverted |= INVERTED[option]

    def pack(self, matches: int = 0, target: int = 0) -> bytes:
        """The bytes, given how many bytes of matches and of target follow."""
        source, source_mask = _address(self.family, self.words.get("-s"))
        to, to_mask = _address(self.family, self.words.get("-d"))
        inside, inside_mask = _interface(self.words.get("-i"))
        out, out_mask = _interface(self.words.get("-o"))
        flags = GOTO_FLAG[self.family] if self.goto else 0
        addresses = (source, to, source_mask, to_mask)
        ends: tuple[int, ...] = (self.protocol, flags, self.inverted)
        if self.family == 6:
            ends = (self.protocol, 0, flags | (PROTOCOL_FLAG if self.protocol else 0), self.inverted)
        head = HEAD[self.family].pack(*addresses, inside, out, inside_mask, out_mask, *ends)
        offset = SIZE[self.family] + matches
        return head + REST[self.family].pack(0, offset, offset + target, 0, 0, 0)


def standard_target(name: str) -> bytes:
    """The bytes of a target that is a verdict or a jump; an empty name is a rule that only counts."""
    return STANDARD.pack(STANDARD.size, name.encode(), 0, 0)


def head_text(family: Family, entry: bytes) -> str:
    """A rule's head as iptables-save prints it, in its order, with a blank in front of each option."""
    fields = HEAD[family].unpack_from(entry)
    source, to, source_mask, to_mask, inside, out, inside_mask, out_mask, protocol = fields[:9]
    inverted = fields[-1]
    parts = [
        ("-s", _block_text(family, source, source_mask, bool(inverted & INVERTED["-s"]))),
        ("-d", _block_text(family, to, to_mask, bool(inverted & INVERTED["-d"]))),
        ("-i", _interface_text(inside, inside_mask)),
        ("-o", _interface_text(out, out_mask)),
        ("-p", NUMBERS.get(protocol, str(protocol)) if protocol else ""),
    ]
    text = "".join(f"{' !' if inverted & INVERTED[option] else ''} {option} {word}" for option, word in parts if word)
    fragment = "" if family == 6 or not fields[9] & 0x01 else f"{' !' if inverted & 0x20 else ''} -f"
    return text + fragment


def is_goto(family: Family, entry: bytes) -> bool:
    return bool(HEAD[family].unpack_from(entry)[-2] & GOTO_FLAG[family])


def counters_of(family: Family, entry: bytes) -> tuple[int, int]:
    """Packets and bytes that the rule has seen."""
    rest = REST[family].unpack_from(entry, HEAD[family].size)
    return rest[4], rest[5]


def target_offset(family: Family, entry: bytes) -> int:
    return int(REST[family].unpack_from(entry, HEAD[family].size)[1])


def extension_name(raw: bytes, offset: int) -> tuple[int, str, int]:
    """Size, name and revision of the match or target at an offset."""
    size, name, revision = EXTENSION.unpack_from(raw, offset)
    return size, name.split(b"\0")[0].decode(), revision


def _protocol(word: str) -> int:
    if word == "all":
        return 0
    read = {"icmpv6": 58}.get(word, PROTOCOLS.get(word, number(word)))
    if read is None or read > 255:
        raise ToolError(f"not a protocol ({word})")
    return read


def _address(family: Family, word: str | None) -> tuple[bytes, bytes]:
    bits = BITS[family]
    length = bits // 8
    if word is None:
        return b"\0" * length, b"\0" * length
    host, slash, tail = word.partition("/")
    try:
        found, base = read_address(host)
        prefix = number(tail) if slash else bits
        if prefix is None:
            mask = read_address(tail)[1]
        elif prefix <= bits:
            mask = (1 << bits) - (1 << (bits - prefix))
        else:
            raise ToolError(f"not a prefix length ({word})")
    except Wrong as error:
        raise ToolError(str(error)) from error
    if found != family:
        raise ToolError(f"{host} is not an IPv{family} address")
    return (base & mask).to_bytes(length, "big"), mask.to_bytes(length, "big")


def _interface(word: str | None) -> tuple[bytes, bytes]:
    """Name and mask, 16 bytes each: the zero byte that ends a name counts, unless ``+`` stands for any rest."""
    if not word:
        return b"", b""
    name = word.encode()
    if len(name) > 15:
        raise ToolError(f"an interface name of more than 15 bytes ({word})")
    if name.endswith(b"+"):
        return name[:-1], b"\xff" * (len(name) - 1)
    return name, b"\xff" * (len(name) + 1)


def _block_text(family: Family, base: bytes, mask: bytes, inverted: bool) -> str:
    bits = BITS[family]
    value = int.from_bytes(mask, "big")
    if not value and not inverted:
        return ""
    prefix = value.bit_count()
    plain = value == (1 << bits) - (1 << (bits - prefix))
    # inet_ntop(3) as in the tools: it writes ::ffff:0:0 as ::ffff:0.0.0.0
    kind = socket.AF_INET6 if family == 6 else socket.AF_INET
    return f"{socket.inet_ntop(kind, base)}/{prefix if plain else socket.inet_ntop(kind, mask)}"


def _interface_text(name: bytes, mask: bytes) -> str:
    if not mask[0]:
        return ""
    word = name.split(b"\0")[0].decode(errors="replace")
    return word if mask.count(b"\xff") > len(word) else f"{word}+"
