"""The words of one rule as blocks: what belongs to the rule itself, to each match, and to the target."""

from __future__ import annotations

from meshnet.model.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

LONG = {
    "--protocol": "-p",
    "--proto": "-p",
    "--source": "-s",
    "--src": "-s",
    "--destination": "-d",
    "--dst": "-d",
    "--in-interface": "-i",
    "--out-interface": "-o",
    "--match": "-m",
    "--jump": "-j",
    "--goto": "-g",
    "--fragment": "-f",
    "--set-counters": "-c",
    "--ipv4": "-4",
    "--ipv6": "-6",
}
VALUES = {"-p": 1, "-s": 1, "-d": 1, "-i": 1, "-o": 1, "-m": 1, "-j": 1, "-g": 1, "-f": 0, "-c": 2, "-4": 0, "-6": 0}
TAKES_ANY_WORD = ("--comment", "--log-prefix", "--nflog-prefix", "--string", "--ulog-prefix")
"""Options whose value may begin with a dash."""

OWNED = {
    "--sport": ("tcp", "udp", "sctp", "dccp", "udplite"),
    "--source-port": ("tcp", "udp", "sctp", "dccp", "udplite"),
    "--dport": ("tcp", "udp", "sctp", "dccp", "udplite"),
    "--destination-port": ("tcp", "udp", "sctp", "dccp", "udplite"),
    "--tcp-flags": ("tcp",),
    "--syn": ("tcp",),
    "--icmp-type": ("icmp",),
    "--icmpv6-type": ("icmp6", "icmpv6", "ipv6-icmp"),
}
"""Options that a rule written by hand may have behind another match than their own."""


class Malformed(Exception):
    """The rule's words can't be taken apart; the text says what was expected."""


@value
class Option:
    name: str
    values: tuple[str, ...] = ()
    negated: bool = False

    def words(self) -> tuple[str, ...]:
        return (*(("!",) if self.negated else ()), self.name, *self.values)


class Block:
    """A match or a target: its name and its options. ``flag`` is how it was called: -m, -j, -g, or -p for the
    protocol's own match, which comes with the protocol."""

    __slots__ = ("flag", "name", "options")

    def __init__(self, flag: str, name: str) -> None:
        self.flag = flag
        self.name = name
        self.options: list[Option] = []

    def words(self) -> tuple[str, ...]:
        flag = "-m" if self.flag == "-p" else self.flag
        return (flag, self.name, *(word for option in self.options for word in option.words()))


def take_apart(words: Sequence[str]) -> tuple[list[Option], list[Block]]:
    """The rule's own options, and its blocks in order."""
    own: list[Option] = []
    blocks: list[Block] = []
    place, negated = 0, False
    while place < len(words):
        word = LONG.get(words[place], words[place])
        place += 1
        if word == "!":
            if negated:
                raise Malformed("one ! and not two")
            negated = True
            continue
        if not word.startswith("-") or len(word) < 2:
            raise Malformed(f"an option such as -p or --dport, not {word}")
        values, inner, place = _values(word, words, place)
        option = Option(word, values, negated or inner)
        negated = False
        if word in ("-m", "-j", "-g"):
            if option.negated:
                raise Malformed(f"no ! before {word}")
            blocks.append(Block(word, values[0]))
        elif word.startswith("--"):
            _owner(blocks, word).options.append(option)
        elif word in VALUES:
            own.append(option)
            if word == "-p":
                blocks.append(Block("-p", values[0]))
        else:
            raise Malformed(f"an option of iptables, not {word}")
    if negated:
        raise Malformed("an option behind !")
    return own, blocks


def _values(word: str, words: Sequence[str], place: int) -> tuple[tuple[str, ...], bool, int]:
    """The values behind an option, whether a ``!`` stood between them (the older way), and the place behind them."""
    negated = False
    if words[place : place + 1] == ["!"] and place + 1 < len(words) and not _is_option(words[place + 1]):
        negated, place = True, place + 1
    if word in VALUES or word in TAKES_ANY_WORD:
        count = VALUES.get(word, 1)
        found = tuple(words[place : place + count])
        if len(found) < count:
            raise Malformed(f"a value behind {word}")
        return found, negated, place + count
    end = place
    while end < len(words) and words[end] != "!" and not _is_option(words[end]):
        end += 1
    return tuple(words[place:end]), negated, end


def _is_option(word: str) -> bool:
    return len(word) > 1 and word[0] == "-" and not word[1].isdigit()


def _owner(blocks: list[Block], option: str) -> Block:
    """The block that an option belongs to: the last one, or the one that is known to have it."""
    if not blocks:
        raise Malformed(f"a match (-m) or a protocol (-p) before {option}")
    last = blocks[-1]
    names = OWNED.get(option, ())
    if last.name in names or not names:
        return last
    return next((block for block in reversed(blocks) if block.name in names), last)
