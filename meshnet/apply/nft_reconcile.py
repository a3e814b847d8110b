"""The difference of tables of nftables: one transaction for all of it, and the lines that tell a person."""

from __future__ import annotations

from meshnet.apply.reconcile import chain_differences
from meshnet.model.errors import ToolError
from meshnet.model.names import NFT_TABLE
from meshnet.model.plan import Step
from meshnet.model.value import replace
from meshnet.render.nft_text import set_differences, transaction

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from meshnet.model.nft import NftTable
    from meshnet.model.plan import Observed


def reconcile_tables(wanted: tuple[NftTable, ...], observed: Observed, anew: bool) -> tuple[list[Step], list[str]]:
    """One step, or none when the tables are as they should be; what differs.

    A table is replaced whole, whatever differs in it: that is one instant for the packets, and nothing that somebody
    put into it stays. ToolError when a table of that name is somebody else's.
    """
    for table in wanted:
        if table.name in observed.taken:
            field = "nftables.table"
            raise ToolError(
                f"there is a table inet {table.name} that isn't meshnet's: it lacks our comment",
                hint=f"another name under {field} in the spec, or take it away: nft delete table inet {table.name}",
            )
    there = {table.name: table for table in observed.own.nft}
    lines: list[str] = []
    written = []
    for table in wanted:
        found = list(_differences(table, there.get(table.name)))
        if found or anew:
            written.append(table)
            lines += found
    gone = [name for name in there if name not in {table.name for table in wanted}]
    for name in gone:
        lines += _differences(None, there[name])
    texts = [transaction([between], (), there.values()) for table in written if (between := _between(table, there))]
    at_last = {**there, **{table.name: _between(table, there) or there.get(table.name) for table in written}}
    if written or gone:
        texts.append(transaction(written, gone, [table for table in at_last.values() if table is not None]))
    return [Step("nft", "inet", text) for text in texts], lines


def _between(new: NftTable, there: dict[str, NftTable]) -> NftTable | None:
    """What has to stand for a moment when mangle takes over from nat what enters: both of them.

    One transaction is no instant to a packet on its way from mangle's hook to nat's: the one had no rule for it yet,
    the other has none any more. The other way round it meets the old rule in mangle or the new one in nat.
    """
    old = there.get(new.name)
    if old is None or old.strange or new.text:
        return None
    had = {chain.name: chain for chain in old.chains}
    chains = {chain.name: chain for chain in new.chains if not chain.name.startswith("nat_")}
    if not (had.get("nat_prerouting") and had["nat_prerouting"].head) or "mangle_prerouting" not in chains:
        return None
    kept = {item.name: f"{item.name}_before" for item in old.sets}
    waiting = [name for name in had if name.startswith("nat_")]
    while waiting:  # those that nat's rules lead to as well: somebody may have put a chain of his own in
        name = waiting.pop()
        if name in had and name not in chains:
            chains[name] = replace(had[name], rules=tuple(_renamed(rule, kept) for rule in had[name].rules))
            waiting += [word for rule in had[name].rules for word in rule.split() if word in had]
    sets = (*new.sets, *(replace(item, name=kept[item.name]) for item in old.sets))
    return replace(new, chains=tuple(chains[name] for name in sorted(chains)), sets=sets)


def _renamed(rule: str, names: dict[str, str]) -> str:
    """A rule whose sets have other names."""
    return " ".join(
        f"@{names[word[1:]]}" if word[:1] == "@" and word[1:] in names else word for word in rule.split(" ")
    )


def _differences(new: NftTable | None, old: NftTable | None) -> Iterator[str]:
    """Lines that begin with ``+`` or ``-``; none when the tables are the same."""
    if new == old:
        return
    name = new.name if new else old.name if old else NFT_TABLE
    for line in _lines(new, old):
        yield f"{line[0]} nft inet {name} {line[2:]}"


def _lines(new: NftTable | None, old: NftTable | None) -> Iterator[str]:
    if new is None or old is None:
        yield "+ table" if new else "- table"
    extra = {"+": new.more if new else (), "-": old.more if old else ()}
    yield from (f"{sign} {what}" for sign, things in extra.items() for what in things)
    sets = [{item.name: item for item in table.sets} if table else {} for table in (new, old)]
    for name in dict.fromkeys((*sets[0], *sets[1])):
        yield from set_differences(sets[0].get(name), sets[1].get(name))
    wanted, there = ({chain.name: chain for chain in table.chains} if table else {} for table in (new, old))
    for name in sorted({*wanted, *there}):
        ours, theirs = wanted.get(name), there.get(name)
        if ours is None or theirs is None or ours.head != theirs.head:
            yield from (
                f"{sign} chain {name} {chain.head}".rstrip() for sign, chain in (("-", theirs), ("+", ours)) if chain
            )
        rules, there_now = (chain.rules if chain else () for chain in (ours, theirs))
        lines = chain_differences(name, rules, there_now, str.__eq__)
        yield from (line.replace("-A ", "rule ", 1) for line in lines)
