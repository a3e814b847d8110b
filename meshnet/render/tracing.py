"""A plan whose rules tell of their packets: in front of each one a rule with the same matches and target NFLOG.

Group and size are the original's (istio-iptables, iptables-trace-logging), so that what reads there reads here. The
prefix is the rule's id, which leads back to the spec.
"""

from __future__ import annotations

from meshnet.model.names import COMMENT_PREFIX
from meshnet.model.plan import BEHIND, ChainText, EntryText
from meshnet.model.value import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from meshnet.model.plan import Plan, TableText

GROUP, SIZE = 1337, 20
LONGEST = 63
"""Bytes of a prefix (NF_LOG_PREFIXLEN of linux/netfilter/nf_log.h is 128, that of xt_NFLOG 64 with the end)."""


def with_log_rules(plan: Plan) -> Plan:
    """The plan with a logging rule in front of each of its rules, entries into built-in chains included."""
    return replace(plan, tables=tuple(_traced(table) for table in plan.tables))


def _traced(table: TableText) -> TableText:
    chains = tuple(
        ChainText(chain.name, tuple(words for rule in chain.rules for words in (log_rule(rule), rule)))
        for chain in table.chains
    )
    entries = [
        EntryText(entry.hook, words, entry.place if entry.place == BEHIND else 2 * entry.place - 1 + second)
        for entry in table.entries
        for second, words in enumerate((log_rule(entry.rule), entry.rule))
    ]
    return replace(table, chains=chains, entries=tuple(entries))


def log_rule(rule: str) -> str:
    """The words of the rule that logs the packets of another one."""
    matches = rule.rpartition(" -j ")[0]
    prefix = rule.partition(f'--comment "{COMMENT_PREFIX}')[2].partition('"')[0][:LONGEST]
    return f"{matches} -j NFLOG --nflog-prefix {prefix} --nflog-group {GROUP} --nflog-size {SIZE}"
