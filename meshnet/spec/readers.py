"""Words of a spec that only a spec has: ids, tables, names, interfaces. Each takes text and raises ``Wrong``."""

from __future__ import annotations

from meshnet.model.cidr import BITS, LOOPBACK, Cidr, read_address, read_cidr
from meshnet.model.errors import Wrong
from meshnet.model.marks import FULL
from meshnet.model.ports import number
from meshnet.model.spec import HIGHEST_ID, IdRange

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

KERNEL_TABLES = {253: "default", 254: "main", 255: "local"}
LONGEST_INTERFACE = 15
LONGEST_TABLE = 63
REFUSED_IN_INTERFACE = "/:\\'\"`!*,;#{}$"
"""``/`` and ``:`` by the kernel (dev_valid_name); the others mean something in the text of a rule."""


def read_id(word: str) -> int:
    """A user or group id."""
    read = number(word)
    if read is None:
        raise Wrong(f"not an id ({word})", "a decimal number such as 1337; names are not looked up")
    if read > HIGHEST_ID:
        raise Wrong(f"beyond the ids ({word})", f"0 to {HIGHEST_ID}")
    return read


def read_ids(word: str) -> IdRange:
    """A user id, or ``first-last``."""
    first, dash, last = word.partition("-")
    if not dash:
        return IdRange(read_id(word), read_id(word))
    low, high = number(first), number(last)
    if low is None or high is None:
        raise Wrong(f"not a range of ids ({word})", "two decimal numbers, such as 106-108")
    if low > high:
        raise Wrong(f"a range that ends before it begins ({word})", f"the lower end first, {high}-{low}")
    if high > HIGHEST_ID:
        raise Wrong(f"beyond the ids ({word})", f"0 to {HIGHEST_ID}")
    return IdRange(low, high)


def read_mark(word: str) -> int:
    """A packet mark or its mask: hexadecimal or decimal, never octal, never 0 (every unmarked packet has that)."""
    digits = word[2:] if word.startswith("0x") else ""
    if digits and len(digits) <= 16 and all(letter in "0123456789abcdefABCDEF" for letter in digits):
        read: int | None = int(digits, 16)
    else:
        read = number(word)
    if read is None:
        raise Wrong(f"not a mark ({word})", "a hexadecimal or decimal number, such as 0x539 or 1337")
    if not 1 <= read <= FULL:
        raise Wrong(f"outside the marks ({word})", "0x1 to 0xffffffff; 0 is what every unmarked packet carries")
    return read


def read_table(word: str) -> int:
    """A routing table of its own."""
    read = number(word)
    if read is None:
        raise Wrong(f"not a routing table ({word})", "a decimal number such as 133; names are not looked up")
    if read in KERNEL_TABLES:
        raise Wrong(f"the kernel's own table {KERNEL_TABLES[read]} ({word})", "a table of its own, such as 133")
    if not 1 <= read <= FULL:
        raise Wrong(f"outside the routing tables ({word})", f"1 to {FULL} without 253, 254 and 255")
    return read


def read_flag(word: str) -> bool:
    if word in ("true", "True", "TRUE"):
        return True
    if word in ("false", "False", "FALSE"):
        return False
    meant = {"yes": "true", "on": "true", "y": "true", "no": "false", "off": "false", "n": "false"}.get(word.lower())
    raise Wrong(f"not true or false ({word})", meant or "true or false")


def choice(*words: str) -> Callable[[str], str]:
    """A reader for one of a few words."""

    def read(word: str) -> str:
        if word in words:
            return word
        from meshnet.spec.nearest import nearest

        near = nearest(word, words)
        if not near and word.lower() in ("false", "no") and "off" in words:
            near = '"off" in quotes'  # a YAML 1.1 tool read the word off and wrote it back like this
        listed = ", ".join(words[:-1]) + " or " + words[-1] if len(words) > 1 else words[0]
        raise Wrong(f"unknown word ({word})", f"{near} (one of {listed})" if near and len(words) > 1 else listed)

    return read


def read_name(word: str) -> str:
    """A label as in RFC 1123, since it ends up in names of Kubernetes objects."""
    right = "1 to 63 lower-case letters, digits and -, with a letter or digit at both ends"
    good = word.isascii() and all(c.isdigit() or c.islower() or c == "-" for c in word)
    if not good or not 1 <= len(word) <= 63 or word[0] == "-" or word[-1] == "-":
        raise Wrong(f"not a name ({word})", right)
    return word


def read_nft_table(word: str) -> str:
    """A name that nft takes without quotes, which for a table it knows none of."""
    right = f"a lower-case letter and up to {LONGEST_TABLE - 1} more of them, digits, - or _, such as meshnet"
    good = word.isascii() and all(c.isdigit() or c.islower() or c in "-_" for c in word)
    if not good or not word[:1].islower() or len(word) > LONGEST_TABLE:
        raise Wrong(f"not a name of a table ({word})", right)
    return word


def read_interface(word: str) -> str:
    """An interface name as the kernel takes it, or its beginning and ``+``."""
    if not word.isascii() or not word.isprintable() or " " in word:
        raise Wrong(f"not an interface name ({word})", "ASCII without blanks, such as eth0")
    if len(word) > LONGEST_INTERFACE:
        raise Wrong(f"an interface name of {len(word)} bytes ({word})", f"at most {LONGEST_INTERFACE}, such as eth0")
    found = [letter for letter in word if letter in REFUSED_IN_INTERFACE]
    if word.endswith("*") and found == ["*"] and word != "*":
        raise Wrong(f"a * in an interface name ({word})", f"{word[:-1]}+ for every name that begins with {word[:-1]}")
    if found or not word or word[0] == "-":
        bad = found[0] if found else word[:1]
        raise Wrong(
            f"{bad} in an interface name ({word})" if bad else "an empty interface name", "such as eth0 or net+"
        )
    if word in (".", "..", "all", "default"):
        raise Wrong(f"a name that no interface can have ({word})", "such as eth0; the kernel keeps this word")
    if word == "+":
        raise Wrong("every interface at once (+)", "the beginning of a name and +, such as net+")
    if word == "lo" or (word.endswith("+") and "lo".startswith(word[:-1])):
        raise Wrong(
            f"the loopback interface ({word})",
            "another interface; a sidecar hands captured traffic over by lo, so lo can't be excluded or a guest",
        )
    return word


def read_single(word: str) -> Cidr:
    """One address, without a prefix."""
    family, address = read_address(word)
    return Cidr(family, address, BITS[family])


def read_passthrough4(word: str) -> Cidr:
    read = read_single(word)
    if not LOOPBACK[4].covers(read) or read.network in (LOOPBACK[4].network, LOOPBACK[4].last):
        raise Wrong(f"not a loopback address ({word})", "one in 127.0.0.0/8, such as 127.0.0.6")
    if read.network == LOOPBACK[4].network + 1:
        raise Wrong(f"the address that applications use themselves ({word})", "another one, such as 127.0.0.6")
    return read


def read_passthrough6(word: str) -> Cidr:
    read = read_single(word)
    if read.family != 6:
        raise Wrong(f"not an IPv6 address ({word})", "such as ::6")
    if read.network <= 1:
        raise Wrong(f"an address that applications use themselves ({word})", "another one, such as ::6")
    if read.network >> 120 == 0xFF:
        raise Wrong(f"a multicast address ({word})", "an address of one host, such as ::6")
    return read


def read_loopback(word: str) -> Cidr:
    read = read_cidr(word)
    if not LOOPBACK[4].covers(read):
        raise Wrong(f"not inside the loopback block ({word})", "an IPv4 block in 127.0.0.0/8, such as 127.0.0.1/32")
    return read
