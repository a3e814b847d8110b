"""Plan minus observed: the steps, in the order in which nothing that both the old and the new spec capture slips by.

Routing that is added comes first, routing that goes comes last, so a mark never leads nowhere. Of two tables, the one
that captures inbound traffic from now on is written first: from TPROXY to REDIRECT that is nat, the other way round
mangle. A kill between two steps then leaves both at work, or one, never none. Each table is one transaction.
"""

from __future__ import annotations

from meshnet.model.names import CHAIN_PREFIX, NEW_TABLE
from meshnet.model.plan import BEHIND, ChangeSet, Observed, Step
from meshnet.model.value import replace
from meshnet.parse.words import same_rule

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from meshnet.model.cidr import Family
    from meshnet.model.plan import EntryText, Plan, RouteText, TableText
    from meshnet.model.program import Hook, Table

FAMILIES: tuple[Family, ...] = (4, 6)
LISTENERS = ("MESHNET_INBOUND", "ISTIO_INBOUND")


def reconcile(plan: Plan, observed: Observed, *, disposable: bool, anew: bool = False) -> ChangeSet:
    """The change set. ``disposable``: an emptied table that came with us can be taken away again (nft). ``anew``:
    tables are written even where nothing differs."""
    adding, going = _routing(plan, observed)
    replaced = [(new, old) for new in adding for old in going if _twins(new, old)]
    adding_text = {family: _lines("add", adding, family, [new for new, _ in replaced]) for family in FAMILIES}
    steps: list[Step] = [Step("ip", family, text) for family, text in adding_text.items() if text]
    differences: list[str] = []
    stale: tuple[Step, ...] = ()
    if plan.sets or observed.own.sets:
        from meshnet.apply.set_reconcile import reconcile_sets

        fresh, stale, differences = reconcile_sets(plan.sets, observed.own.sets)
        steps += fresh
    for family in FAMILIES:
        text, lines = _tables(plan, observed, family, disposable, anew)
        steps += [Step("restore", family, text)] if text else []
        differences += lines
    last = [item for item in reversed(going) if item not in [old for _, old in replaced]]
    if plan.nft or observed.own.nft:
        from meshnet.apply.nft_reconcile import reconcile_tables

        step, lines = reconcile_tables(plan.nft, observed, anew)
        steps += step
        differences += lines
    steps += [Step("ip", family, text) for family in FAMILIES if (text := _lines("del", last, family))]
    steps += stale
    if disposable:
        kept = {(table.family, table.table) for table in plan.tables}
        steps += [Step("drop", family, table) for family, table in sorted(observed.made - kept)]
    differences += [f"+ ip -{item.family} {item.object} {item.words}" for item in adding]
    differences += [f"- ip -{item.family} {item.object} {item.words}" for item in going]
    return ChangeSet(tuple(steps), tuple(differences))


def fresh_steps(plan: Plan) -> tuple[Step, ...]:
    """The steps of a plan in a namespace that holds nothing at all."""
    return reconcile(plan, Observed(), disposable=False).steps


def _routing(plan: Plan, observed: Observed) -> tuple[list[RouteText], list[RouteText]]:
    there = list(observed.own.routing)
    wanted = [item for item in plan.routing if not _given(item, observed, there)]
    adding = [item for item in wanted if item not in there]
    going = list(there)
    for item in wanted:
        if item in going:
            going.remove(item)  # once: a second copy of the same rule goes
    return adding, going


def _given(item: RouteText, observed: Observed, there: list[RouteText]) -> bool:
    """An address that was on ``lo`` before us is used as it is, and neither it nor a route for it becomes ours.

    Ours stays ours when the spec names another table: the route that says so has to be in the new one too.
    """
    if item.object == "rule" or item in there:
        return False
    address = item.words
    if item.object == "route":
        address = f"{item.words.split()[1]}/{32 if item.family == 4 else 128} dev lo"
    return address in observed.on_loopback and replace(item, object="addr", words=address) not in there


def _twins(new: RouteText, old: RouteText) -> bool:
    """Whether two routes differ in their owner's tag alone: the kernel takes the second only in place of the first."""
    if (new.object, new.family) != ("route", old.family) or old.object != "route":
        return False
    return _untagged(new) == _untagged(old)


def _untagged(item: RouteText) -> list[str]:
    parts = item.words.split()
    place = parts.index("proto") if "proto" in parts else len(parts)
    return parts[:place] + parts[place + 2 :]


def _lines(verb: str, items: Iterable[RouteText], family: Family, replacing: Sequence[RouteText] = ()) -> str:
    return "".join(
        f"{item.object} {'replace' if item in replacing else verb} {item.words}{_tail(item, verb)}\n"
        for item in items
        if item.family == family
    )


def _tail(item: RouteText, verb: str) -> str:
    """Without ``nodad`` an IPv6 address can't be bound for a second, while the kernel asks whether it is taken."""
    return " nodad" if (item.object, verb, item.family) == ("addr", "add", 6) else ""


def _tables(plan: Plan, observed: Observed, family: Family, disposable: bool, anew: bool) -> tuple[str, list[str]]:
    wanted = {table.table: table for table in plan.tables if table.family == family}
    there = {table.table: table for table in observed.own.tables if table.family == family}
    texts: list[str] = []
    differences: list[str] = []
    for name in _order(wanted):
        new, old = wanted.get(name), there.get(name)
        lines = table_differences(new, old)
        if not lines and not (anew and new):
            continue
        came_with_us = disposable and ((family, name) not in observed.present or (family, name) in observed.made)
        texts.append(_table_text(name, new, old, came_with_us, (family, name) in observed.marked))
        differences += [
            f"{line[0]} {'ip6tables' if family == 6 else 'iptables'} -t {name} {line[2:]}" for line in lines
        ]
    return "".join(texts), differences


def _order(wanted: dict[Table, TableText]) -> tuple[Table, ...]:
    nat = wanted.get("nat")
    return ("nat", "raw", "mangle") if nat is not None and _takes_inbound(nat) else ("mangle", "raw", "nat")


def _takes_inbound(table: TableText) -> bool:
    """Whether anything in the table leads to the inbound listener's chain; it may be there without being used."""
    rules = [rule for chain in table.chains if chain.name not in LISTENERS for rule in chain.rules]
    rules += [entry.rule for entry in table.entries if entry.hook == "PREROUTING"]
    return any(rule.endswith(f"-j {name}") for rule in rules for name in LISTENERS)


def table_differences(new: TableText | None, old: TableText | None) -> list[str]:
    """What has to change in a table, as ``+ -A CHAIN rule`` and ``- -A CHAIN rule``; empty when it is in sync."""
    wanted = {chain.name: chain.rules for chain in new.chains} if new else {}
    there = {chain.name: chain.rules for chain in old.chains} if old else {}
    lines: list[str] = []
    for name in sorted({*wanted, *there}):
        if name not in wanted:
            lines.append(f"- -N {name}")
        elif name not in there:
            lines.append(f"+ -N {name}")
        lines += chain_differences(name, wanted.get(name, ()), there.get(name, ()))
    for hook in _hooks(new, old):
        lines += chain_differences(hook, _entry_rules(new, hook), _entry_rules(old, hook))
    return lines


def chain_differences(
    chain: str, wanted: tuple[str, ...], there: tuple[str, ...], same: Callable[[str, str], bool] = same_rule
) -> list[str]:
    """Lines that begin with ``+`` or ``-``; none when each rule is the ``same`` one."""
    if wanted == there or (len(wanted) == len(there) and all(map(same, wanted, there))):
        return []
    if not there or not wanted:
        return [f"- -A {chain} {rule}" for rule in there] + [f"+ -A {chain} {rule}" for rule in wanted]
    from difflib import SequenceMatcher

    lines: list[str] = []
    matcher = SequenceMatcher(None, there, wanted, autojunk=False)
    for _, old_from, old_to, new_from, new_to in (op for op in matcher.get_opcodes() if op[0] != "equal"):
        lines += [f"- -A {chain} {rule}" for rule in there[old_from:old_to]]
        lines += [f"+ -A {chain} {rule}" for rule in wanted[new_from:new_to]]
    return lines


def _entries(new: TableText | None, old: TableText | None) -> tuple[list[EntryText], list[EntryText]]:
    """Entries that come and those that go. Where the order of several matters, all of a hook are written anew.

    An entry that has a place is written anew when it stands elsewhere: a roll-back puts it where it was again.
    """
    missing: list[EntryText] = []
    surplus: list[EntryText] = []
    for hook in _hooks(new, old):
        wanted = [entry for entry in new.entries if entry.hook == hook] if new else []
        there = [entry for entry in old.entries if entry.hook == hook] if old else []
        if len(wanted) == 1:
            kept = next((entry for entry in there if _stands(wanted[0], entry)), None)
            if kept is not None:
                there.remove(kept)
                wanted = []
        elif len(wanted) == len(there) and all(map(_stands, wanted, there)):
            continue
        missing += wanted
        surplus += there
    return missing, surplus


def _stands(wanted: EntryText, there: EntryText) -> bool:
    return wanted.place in (BEHIND, there.place) and same_rule(wanted.rule, there.rule)


def _hooks(*tables: TableText | None) -> tuple[Hook, ...]:
    return tuple(dict.fromkeys(entry.hook for table in tables if table for entry in table.entries))


def _entry_rules(table: TableText | None, hook: Hook) -> tuple[str, ...]:
    return tuple(entry.rule for entry in table.entries if entry.hook == hook) if table else ()


def _table_text(name: str, new: TableText | None, old: TableText | None, came_with_us: bool, marked: bool) -> str:
    """One transaction: chains emptied or made, entries that go, rules, entries that come, chains that go."""
    chains = new.chains if new else ()
    kept = {chain.name for chain in chains}
    stale = [chain.name for chain in old.chains if chain.name not in kept] if old else []
    missing, surplus = _entries(new, old)
    # Profile istio leaves no chain that isn't the original's: its table is known as ours by what is in it. And where no
    # mark is, none is taken away: for one deletion nf_tables waits longer than for the whole rest of a restore.
    unmarked = bool(chains) and not any(chain.name.startswith(CHAIN_PREFIX) for chain in chains)
    lines = [f"*{name}", *([f":{NEW_TABLE} - [0:0]"] if came_with_us and not unmarked else [])]
    lines += [f":{chain} - [0:0]" for chain in (*(chain.name for chain in chains), *stale)]
    lines += [f"-D {entry.hook} {entry.rule}" for entry in surplus]
    lines += [f"-A {chain.name} {rule}" for chain in chains for rule in chain.rules]
    # From the first place to the last, so that each is counted when everything ahead of it stands again.
    placed = sorted((entry for entry in missing if entry.place != BEHIND), key=lambda item: item.place)
    lines += [f"-I {entry.hook} {entry.place} {entry.rule}" for entry in placed]
    lines += [f"-A {entry.hook} {entry.rule}" for entry in missing if entry.place == BEHIND]
    lines += [f"-X {chain}" for chain in (*stale, *([NEW_TABLE] if unmarked and marked else []))]
    return "\n".join([*lines, "COMMIT", ""])
