"""Which of our rules have seen packets, on whichever backend."""

from __future__ import annotations

from meshnet.model.names import rule_id_of
from meshnet.parse import saved
from meshnet.parse.words import comment_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from meshnet.apply.host import LiveHost
    from meshnet.apply.nft_host import NftHost
    from meshnet.model.cidr import Family

    Key = tuple[Family | str, str, str, str]
    Counters = dict[Key, int]


def counters(host: LiveHost | NftHost) -> Counters:
    """How many packets each rule of ours has seen, by family, table, chain and words."""
    if host.name == "nftables":
        return {
            ("inet", seen.table.name, chain, words): packets
            for seen in host.counted()  # type: ignore[union-attr]
            for (chain, words), packets in seen.packets.items()
            if _id_of(words)
        }
    return {
        (family, table.name, rule.chain, rule.words): rule.packets
        for family, text in host.save(counters=True).items()
        for table in saved.parse(text)
        for rule in table.rules
        if _id_of(rule.words)
    }


def untouched(before: Counters, now: Counters) -> tuple[dict[str, Any], ...]:
    """The rules that have seen no packet since ``before``."""
    return tuple(
        {
            "family": family,
            "table": table,
            "id": _id_of(words),
            "rule": f"{'' if family == 'inet' else '-A '}{chain} {words}",
        }
        for (family, table, chain, words), packets in now.items()
        if packets == before.get((family, table, chain, words), 0)
    )


def _id_of(words: str) -> str:
    """The id in a rule's comment, in iptables' words or nft's."""
    said = words.rpartition(' comment "')[2].removesuffix('"') if words.endswith('"') else ""
    return rule_id_of(said) or rule_id_of(comment_of(words))
