"""The rules that are in force in a namespace, and what is around them: iptables' of either variant, and our own table
of nftables. Others' tables of nftables are named and not looked at."""

from __future__ import annotations

from meshnet.model.value import replace, value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from meshnet.cli.simulated import Subject
    from meshnet.doctor.backends import Holder
    from meshnet.kernel.detect import Evidence
    from meshnet.kernel.netns import Namespace
    from meshnet.model.cidr import Family
    from meshnet.model.nft import NftTable, RawTable
    from meshnet.model.ruleset import RuleSet


@value
class InForce:
    """``holders`` are the backends that were looked at; ``unordered`` says for each family where more is in force than
    the subject has, as no text tells what comes first; ``tables`` are ours of nftables, ``legacy`` whether there are
    rules in iptables-legacy."""

    subject: Subject
    holders: tuple[Holder, ...]
    unordered: tuple[str, ...]
    tables: tuple[RawTable, ...]
    legacy: bool

    def numbers(self, family: Family) -> dict[tuple[str, str, int], int]:
        """Of each rule of our tables, by table, chain and handle."""
        from meshnet.parse.nft_ruleset import numbers

        return {key: number for table in self.tables for key, number in numbers(table, family).items()}


POD_FLAGS = ("address", "route_localnet", "src_valid_mark", "no_policy_route")
"""What is said about a pod that nobody looks at."""


def look(command: str, netns: str | None, pid: int | None, given: dict[str, Any]) -> tuple[Subject, tuple[Holder, ...]]:
    """A namespace's rules, and the backends that have any, for a command with these flags. UsageError,
    PermissionMissing, NamespaceError."""
    from meshnet.cli.options import place_of
    from meshnet.kernel.netns import open_namespace, require_capabilities
    from meshnet.model.errors import UsageError
    from meshnet.probe.host import host_of

    if wrong := [f"--{name.replace('_', '-')}" for name in POD_FLAGS if given[name]]:
        raise UsageError(f"{' and '.join(wrong)}: the namespace says so itself", hint="these flags go with --rules")
    place = place_of(netns, pid)
    needed = ("CAP_NET_ADMIN",) if place.kind == "own" else ("CAP_NET_ADMIN", "CAP_SYS_ADMIN")
    require_capabilities(needed, command)
    with open_namespace(place) as namespace:
        found = read(namespace)
        notes = (*found.subject.notes, *found.unordered)
        return replace(found.subject, host=host_of(namespace), notes=notes), found.holders


def read(namespace: Namespace) -> InForce:
    """Needs CAP_NET_ADMIN in the namespace. ToolError, PermissionMissing."""
    from meshnet.apply.nft_host import own_tables
    from meshnet.cli.simulated import Subject
    from meshnet.doctor.backends import Holder
    from meshnet.kernel import detect, nft_read
    from meshnet.parse.nftables import understand

    with namespace.entered():
        seen = detect.evidence()
        there = nft_read.tables()
        mine = own_tables(there)
        raw = tuple(nft_read.content(table) for table in mine)
    tables = [understand(table).table for table in raw]
    families: tuple[Family, ...] = (4, 6)
    holders = [Holder(detect.BACKEND[one.variant], item.family, one.ours) for item in seen for one in item.found]
    holders += [Holder("nftables", family, 1) for family in families if mine]
    rules: list[RuleSet] = []
    notes: list[str] = []
    unordered: list[str] = []
    for item in seen:
        subject, several = _of_iptables(item)
        held, tied = _of_family(subject, item.family, tables)
        rules.append(held)
        notes += [*subject.notes, *_problems(item)]
        unordered += [*several, *tied]
    notes += [f"table inet {table.name} is somebody else's and isn't looked at" for table in there if table not in mine]
    subject = Subject(str(namespace.where), tuple(rules), notes=tuple(notes))
    legacy = any(one.variant == "legacy" and "\n-A " in one.text for item in seen for one in item.found)
    return InForce(subject, tuple(holders), tuple(unordered), raw, legacy)


def _of_family(iptables: Subject, family: Family, tables: Sequence[NftTable]) -> tuple[RuleSet, list[str]]:
    """All that is in force side by side; where no text tells what comes first, our table alone."""
    from meshnet.model.ruleset import RuleSet, together
    from meshnet.parse.nft_ruleset import of_table
    from meshnet.simulate.chains import ties

    ours = [held for table in tables for held in of_table(table) if held.family == family]
    (both,) = together((iptables.of(family), *ours))
    tied = list(ties(both)) if ours else []
    if not tied:
        return both, []
    (alone,) = together((RuleSet(family), *ours))
    followed = " and ".join(table.name for table in alone.tables)
    return alone, [f"IPv{family}: {tied[0]}; both are in force, and followed is {followed}"]


def _of_iptables(seen: Evidence) -> tuple[Subject, list[str]]:
    """Of the variant that has any rules, and of two the one with rules of ours, or with more of them."""
    from meshnet.cli.simulated import of_text

    full = [one for one in seen.found if "\n-A " in one.text]
    full.sort(key=lambda one: (one.ours, one.foreign), reverse=True)
    subject = of_text(full[0].text if full else "", f"IPv{seen.family} rules", seen.family)
    if len(full) < 2:
        return subject, []
    return subject, [
        f"IPv{seen.family} rules are in iptables-{full[0].variant} and in iptables-{full[1].variant}, and both are in "
        f"force; followed are those of iptables-{full[0].variant}"
    ]


def _problems(seen: Evidence) -> Iterator[str]:
    for one in seen.found:
        if one.problem and (one.installed or "tables exist" in one.problem):
            yield f"IPv{seen.family} with {one.variant}: {one.problem}"
