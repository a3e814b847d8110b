"""When are two rules of iptables the same rule, though different versions print them differently?

Versions differ in the order of matches, in ``-m tcp`` beside ``-p tcp``, in ``/32``, in hexadecimal or decimal marks
and in a full mask that is written out or not. A comparison by text would call a healthy namespace tampered with.
"""

from __future__ import annotations

from meshnet.model.cidr import read_cidr
from meshnet.model.errors import Wrong

SPELLINGS = {
    "--to-port": "--to-ports",
    "--protocol": "-p",
    "--source": "-s",
    "--destination": "-d",
    "--in-interface": "-i",
    "--out-interface": "-o",
    "--jump": "-j",
    "--source-port": "--sport",
    "--destination-port": "--dport",
    "--source-ports": "--sports",
    "--destination-ports": "--dports",
    "--set-mark": "--set-xmark",
}
PROTOCOLS = {"6": "tcp", "17": "udp"}
IMPLIED = ("tcp", "udp")
FULL_MASK = "0xffffffff"


def split(words: str) -> list[str]:
    """The words of a rule; a quoted comment is one of them, also an empty one."""
    if '"' not in words:
        return words.split()
    head, _, rest = words.partition('"')
    quote, _, tail = rest.partition('"')
    # Nearly every rule has one comment, and no letter of it needs a look of its own.
    if rest.count('"') == 1 and "\\" not in words and head.endswith(" ") and quote and tail[:1] in ("", " "):
        return [*head.split(), quote, *tail.split()]
    found: list[str] = []
    word, begun, quoted, escaped = "", False, False, False
    for letter in words:
        if escaped:
            word, escaped = word + letter, False
        elif letter == "\\" and quoted:
            escaped = True
        elif letter == '"':
            quoted, begun = not quoted, True
        elif letter == " " and not quoted:
            found += [word] if begun else []
            word, begun = "", False
        else:
            word, begun = word + letter, True
    return [*found, word] if begun else found


def comment_of(words: str) -> str:
    """The text of a rule's comment, or nothing."""
    if "--comment" not in words:
        return ""
    parts = split(words)
    return parts[parts.index("--comment") + 1] if "--comment" in parts[:-1] else ""


def target_of(words: str) -> str:
    parts = split(words)
    for flag in ("-j", "-g"):
        if flag in parts[:-1]:
            return parts[parts.index(flag) + 1]
    return ""


def same_rule(one: str, other: str) -> bool:
    return one == other or canonical(one) == canonical(other)


def canonical(words: str) -> tuple[tuple[str, ...], ...]:
    """A rule's options, each as (match, name, negation, values …), sorted; equal for equal rules of any version."""
    options: list[tuple[str, ...]] = []
    current: list[str] = []
    module, negated = "", False
    for word in split(words):
        if word == "!":
            negated = True
        elif word.startswith("-") and len(word) > 1 and not word[1].isdigit():
            options += _finished(module, current)
            if not word.startswith("--"):
                module = ""
            elif current and current[0] == "-m":
                module = current[-1]
            current = [SPELLINGS.get(word, word), "!" if negated else ""]
            negated = False
        else:
            current.append(word)
            if negated:  # the older way: the negation between an option and its value
                current[1], negated = "!", False
    return tuple(sorted([*options, *_finished(module, current)]))


def _finished(module: str, current: list[str]) -> list[tuple[str, ...]]:
    if not current:
        return []
    name, negation, *values = current
    if name == "-m":  # tells something alone: ``-m socket`` matches without any option; ``-m tcp`` goes with ``-p tcp``
        return [] if values[-1:] and values[-1] in IMPLIED else [("", name, "", *values)]
    values = [_value(name, item) for item in values]
    if (name, negation) in (("-s", ""), ("-d", "")) and values in (["0.0.0.0/0"], ["::/0"]):  # is forgotten by iptables
        return []
    if name == "--tproxy-mark" or name.endswith("mark"):
        values = [item.removesuffix(f"/{FULL_MASK}") for item in values]
    if name == "--on-ip" and values in (["0.0.0.0"], ["::"]):  # noqa: S104 (what is printed when none was given)
        return []
    # ``--mark`` is said of packets by one match and of connections by another
    owner = module if name.startswith("--") and module not in IMPLIED else ""
    return [(owner, name, negation, *values)]


def _value(name: str, text: str) -> str:
    if name == "-p":
        return PROTOCOLS.get(text, text)
    if name in ("-s", "-d"):
        return _block(text)
    if "mark" in name or "mask" in name:
        return "/".join(_number(part) for part in text.split("/"))
    if name == "--ctstate":
        return ",".join(sorted(text.split(",")))
    return text


def _block(text: str) -> str:
    """A block as meshnet writes it: the tools print ``::7f00:35`` as ``::127.0.0.53``,"""
    try:
        block = read_cidr(text)
    except Wrong:
        return text
    return block.address if block.single else str(block)


def _number(text: str) -> str:
    """A number in hexadecimal, however it was written; anything else as it is."""
    try:
        return hex(int(text, 0))
    except ValueError:
        return text
