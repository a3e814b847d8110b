"""Tables and sets of nftables as the kernel hands them over, in the form of a plan; their rules by ``nft_rules``."""

from __future__ import annotations

from meshnet.model.nft import NftChain, NftSet, NftTable
from meshnet.model.ranges import merged
from meshnet.model.value import value
from meshnet.parse.nft_rules import rule_words

TYPE_CHECKING = False
if TYPE_CHECKING:
    from meshnet.model.nft import RawChain, RawSet, RawTable, SetType

HOOKS = {0: "prerouting", 1: "input", 2: "forward", 3: "output", 4: "postrouting"}
POLICIES = {0: "drop", 1: "accept"}
KEY_TYPES: dict[int, SetType] = {7: "ipv4_addr", 8: "ipv6_addr", 13: "inet_service", 24: "uid", 25: "gid", 41: "ifname"}
"""nft's own numbers for types (enum datatypes of its datatype.h); the kernel hands them back as they came."""

WIDTHS = {"ipv4_addr": 4, "ipv6_addr": 16, "inet_service": 2, "uid": 4, "gid": 4, "ifname": 16}
INTERVAL = 0x4
INTERVAL_END = 0x1
"""NFT_SET_… and NFT_SET_ELEM_… of linux/netfilter/nf_tables.h."""


@value
class Understood:
    """``packets`` counts each rule's, by its chain and text, as often as it is there."""

    table: NftTable
    packets: dict[tuple[str, str], int]


def understand(raw: RawTable) -> Understood:
    """The table in meshnet's words; what isn't among them is in it as what it is, so that it differs from any plan."""
    sets = tuple(made for item in raw.sets if (made := _set(item)) is not None)
    rules: dict[str, list[str]] = {chain.name: [] for chain in raw.chains}
    packets: dict[tuple[str, str], int] = {}
    for rule in raw.rules:
        words, count = rule_words(rule)
        rules.setdefault(rule.chain, []).append(words)
        packets[rule.chain, words] = packets.get((rule.chain, words), 0) + count
    chains = tuple(NftChain(chain.name, _head(chain), tuple(rules[chain.name])) for chain in raw.chains)
    table = NftTable(raw.name, sets, tuple(sorted(chains, key=lambda chain: chain.name)), tuple(_more(raw)))
    return Understood(table, packets)


def _more(raw: RawTable) -> list[str]:
    found = [f"flags {raw.flags:#x}"] if raw.flags else []
    found += [f"set {item.name}" for item in raw.sets if _set(item) is None]
    others = raw.use - len(raw.chains) - len(raw.sets)
    return found + ([f"{others} objects or flow tables"] if others > 0 else [])


def _head(chain: RawChain) -> str:
    if chain.hook is None:
        return ""
    policy = POLICIES.get(chain.policy, str(chain.policy))
    return f"type {chain.type} hook {HOOKS.get(chain.hook)} priority {chain.priority}; policy {policy};"


def _set(raw: RawSet) -> NftSet | None:
    """A named set of a type that meshnet uses, of intervals but for names; None for any other and anonymous ones."""
    kind = KEY_TYPES.get(raw.key_type)
    if kind is None or raw.flags != (0 if kind == "ifname" else INTERVAL):
        return None
    if kind == "ifname":
        names = sorted(int.from_bytes(key, "big") for key, _ in raw.elements)
        return NftSet(raw.name, kind, tuple((name, name) for name in names))
    limit = (1 << 8 * WIDTHS[kind]) - 1
    # The end of a range is the value behind it, and bears a flag; a range up to the last value has none.
    points = sorted((int.from_bytes(key, "big"), not flags & INTERVAL_END) for key, flags in raw.elements)
    ranges: list[tuple[int, int]] = []
    start: int | None = None
    for number, begins in points:
        if start is not None:
            ranges.append((start, number - 1))
        start = number if begins else None
    if start is not None:
        ranges.append((start, limit))
    return NftSet(raw.name, kind, merged(ranges))
