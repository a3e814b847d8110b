"""The world of ``fuzz`` with a table of nftables in place of iptables' rules."""

from __future__ import annotations

from meshnet.kernel import links, nft_read
from meshnet.model.ruleset import RuleSet
from meshnet.parse.nft_rules import rule_words
from meshnet.parse.nft_ruleset import read
from tests.netns.fuzz import World
from tests.netns.snapshot import run

NAME = "fuzz"


class TableWorld(World):
    """Counters are found by the rules' comments: what the kernel has of others' words isn't read back."""

    def __init__(self, family: int, backend: str) -> None:
        super().__init__(family, backend)
        if family == 4:  # a table is of both families, and IPv6 has something to say of itself for seconds
            for namespace in (self.client, self.pod):
                links.sysctl(namespace, "net.ipv6.conf.all.disable_ipv6", 1)
        self._places: dict[str, tuple[str, str, int]] = {}

    def load(self, text: str) -> None:
        self._places = {
            rule.comment: (table.name, chain.name, number)
            for table in self.understood(text).tables
            for chain in table.chains
            for number, rule in enumerate(chain.rules, 1)
        }
        run(self.pod, "nft", "-f", "-", text=f"add table inet {NAME}\ndelete table inet {NAME}\n{text}")

    def understood(self, text: str) -> RuleSet:
        return next(held for held in read(text) if held.family == self.family)

    def counters(self) -> dict[tuple[str, str, int], int]:
        with self.pod.entered():
            (table,) = (nft_read.content(item) for item in nft_read.tables() if item.name == NAME)
        counted = {rule.comment: rule_words(rule)[1] for rule in table.rules}
        return {place: counted[comment] for comment, place in self._places.items()}
