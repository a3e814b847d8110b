"""Rules of profile istio as the words of iptables, without our comments: what its own source says can be read off."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from meshnet.compile.pipeline import compile_spec
from meshnet.model.cidr import read_cidr
from meshnet.model.facts import Facts
from meshnet.render.plan import render
from meshnet.spec.dialects.istio import spec_of
from meshnet.spec.dialects.istio_options import RULES, Word

if TYPE_CHECKING:
    from meshnet.model.cidr import Family
    from meshnet.model.plan import Plan
    from meshnet.model.program import Program
    from meshnet.model.spec import Spec

NAMES = {option.short: option.name for option in RULES if option.short}
BOTH: tuple[Family, ...] = (4, 6)


def spec(families: tuple[Family, ...] = BOTH, **options: str) -> Spec:
    given = {NAMES.get(name, name.replace("_", "-")): text for name, text in options.items()}
    return spec_of({name: Word(text, name) for name, text in given.items()}, families=families)


def program(families: tuple[Family, ...] = BOTH, resolvers: tuple[str, ...] = (), **options: str) -> Program:
    return compile_spec(spec(families, **options), Facts(families, resolvers=tuple(map(read_cidr, resolvers))))


def plan(families: tuple[Family, ...] = BOTH, resolvers: tuple[str, ...] = (), **options: str) -> Plan:
    return render(program(families, resolvers, **options))


def rules(made: Plan, table: str, chain: str, family: int = 4) -> list[str]:
    """A chain's rules in order, built-in ones included: those that go first, then the others."""
    (found,) = [it for it in made.tables if (it.table, it.family) == (table, family)] or [None]
    if found is None:
        return []
    own = [rule for it in found.chains if it.name == chain for rule in it.rules]
    entries = [entry for entry in found.entries if entry.hook == chain]
    first = sorted((entry for entry in entries if entry.place), key=lambda entry: entry.place)
    own += [entry.rule for entry in (*first, *(entry for entry in entries if not entry.place))]
    return [re.sub(r'-m comment --comment "[^"]*" ?', "", rule) for rule in own]


def chains(made: Plan, table: str, family: int = 4) -> set[str]:
    return {chain.name for it in made.tables if (it.table, it.family) == (table, family) for chain in it.chains}
