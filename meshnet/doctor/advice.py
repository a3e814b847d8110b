"""A next step in the words of those whose rules they are."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from meshnet.model.ruleset import RuleSet


def in_words_of(rules: RuleSet, iptables: str, nft: str) -> str:
    """Of nft if any rule is one of nftables, else of iptables."""
    theirs = any(rule.words for table in rules.tables for chain in table.chains for rule in chain.rules)
    return nft if theirs else iptables
