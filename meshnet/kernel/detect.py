"""Which iptables variant a namespace is used with: look without creating anything, then choose and say why.

Rules of both variants can be in force at once, and then the hook that was registered last wins; so the choice goes to
where rules already are. Gathering touches the host, ``choose`` is a pure function of what was found.
"""

from __future__ import annotations

from itertools import pairwise

from meshnet.kernel.run import find, run
from meshnet.kernel.savetext import sections, words
from meshnet.kernel.xtables import Xtables, legacy_tables, program
from meshnet.model import names
from meshnet.model.errors import MeshnetError, UnsupportedError
from meshnet.model.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Literal

    from meshnet.kernel.xtables import Variant
    from meshnet.model.cidr import Family

    Backend = Literal["iptables-nft", "iptables-legacy", "libiptc"]

VARIANTS: tuple[Variant, ...] = ("nft", "legacy")
UNREADABLE = "tables exist, but "
BACKEND: dict[Variant, Backend] = {"nft": "iptables-nft", "legacy": "iptables-legacy"}


@value
class Found:
    """What one variant holds for one family: rules of ours, of others; ``problem`` when it couldn't be read."""

    variant: Variant
    installed: bool
    ours: int = 0
    foreign: int = 0
    problem: str = ""

    @property
    def usable(self) -> bool:
        return self.installed and not self.problem


@value
class Evidence:
    """What was found for one family, and what the plain name ``iptables`` stands for (empty: not installed)."""

    family: Family
    found: tuple[Found, ...]
    system: Variant | Literal[""] = ""
    version: str = ""

    @property
    def usable(self) -> bool:
        """Whether any variant can be used for this family; an image may have the IPv4 tools alone."""
        return any(item.usable for item in self.found)

    def of(self, variant: Variant) -> Found:
        return next(item for item in self.found if item.variant == variant)


@value
class Choice:
    """The backend and the evidence it was chosen on, as a sentence."""

    backend: Backend
    reason: str


def evidence(family: Family) -> Evidence:
    """Look at the namespace that the calling thread is in. Creates no table, needs no tool to be there."""
    system, version = _system(family)
    return Evidence(family, tuple(_look(family, variant) for variant in VARIANTS), system, version)


def choose(seen: Sequence[Evidence]) -> Choice:
    """The backend for families looked at together; UnsupportedError when a family has no tool.

    The variant that holds rules of ours; else the one with more foreign rules; else what the plain name ``iptables``
    stands for; else nft, else legacy. ``libiptc`` is never chosen by itself: ask for it.
    """
    usable = tuple(variant for variant in VARIANTS if all(item.of(variant).usable for item in seen))
    stuck = [variant for variant in VARIANTS if variant not in usable and any(item.of(variant).ours for item in seen)]
    if not usable or stuck:
        # Our rules in a variant that can't be used for all families: a second set in the other variant would
        # capture twice, so there is no right choice until the tool is there.
        held = tuple(f"iptables-{variant} holds rules of ours" for variant in stuck)
        raise UnsupportedError((*held, *_lacking(seen)), hint="apt-get install iptables")
    unread = [line for line in _lacking(seen) if UNREADABLE in line]
    choice = _chosen(seen, usable)
    return Choice(choice.backend, "; ".join((choice.reason, *unread)))


def ours(line: str) -> bool:
    """Whether a rule line is ours: it is in a chain of ours, jumps to one, or carries our comment."""
    if names.CHAIN_PREFIX not in line and names.COMMENT_PREFIX not in line:
        return False
    parts = words(line)
    return any(
        (option in ("-A", "-j", "-g") and word.startswith(names.CHAIN_PREFIX))
        or (option == "--comment" and word.startswith(names.COMMENT_PREFIX))
        for option, word in pairwise(parts)
    )


def _chosen(seen: Sequence[Evidence], usable: tuple[Variant, ...]) -> Choice:
    ours = {variant: sum(item.of(variant).ours for item in seen) for variant in usable}
    foreign = {variant: sum(item.of(variant).foreign for item in seen) for variant in usable}
    for count, whose in ((ours, "rules of ours"), (foreign, "foreign rules")):
        holders = [variant for variant in usable if count[variant]]
        if holders:
            return _by_count(holders, count, whose)
    system = next((item.system for item in seen if item.system), "")
    if system and system in usable:
        version = next(item.version for item in seen if item.system)
        return Choice(BACKEND[system], f"no rules yet, and iptables is {version}")
    which = "no rules yet, and the plain name iptables is not installed" if not system else "no rules yet"
    return Choice(BACKEND[usable[0]], f"{which}: {program(seen[0].family, usable[0])} is there")


def _by_count(holders: list[Variant], count: dict[Variant, int], whose: str) -> Choice:
    best = max(holders, key=lambda variant: count[variant])
    reason = f"{program(4, best)} holds {count[best]} {whose}"
    others = [f"{program(4, other)} holds {count[other]}" for other in holders if other != best]
    if others:
        reason += f" ({', '.join(others)} too: both are in force, and the hook registered last wins)"
    return Choice(BACKEND[best], reason)


def _lacking(seen: Sequence[Evidence]) -> tuple[str, ...]:
    """Per family what is missing, so that an image with IPv4 tools alone is told apart from one without any."""
    return tuple(
        f"IPv{item.family} with {found.variant}: {found.problem}"
        for item in seen
        for found in item.found
        if not found.usable
    )


def _look(family: Family, variant: Variant) -> Found:
    tools = [program(family, variant, verb) for verb in ("save", "restore")]
    installed = all(find(tool) for tool in tools)
    try:
        if not installed:
            # the rules may be there all the same: loaded from the host, by a CNI plugin or an injector's image
            there = variant == "legacy" and bool(legacy_tables(family))
            return Found(variant, False, problem=f"{UNREADABLE if there else ''}{tools[0]} is missing")
        text = Xtables(variant).save(family)
    except MeshnetError as error:
        return Found(variant, installed, problem="; ".join(line.strip() for line in error.lines()))
    found = sections(text)
    lines = [line for section in found for line in section.lines]
    mine = sum(1 for line in lines if ours(line))
    foreign = len(lines) - mine
    if not mine:  # a remove that was killed leaves chains without rules: that is where the next one has to go
        mine = sum(name.startswith(names.CHAIN_PREFIX) for section in found for name in section.chains)
    return Found(variant, True, mine, foreign)


def _system(family: Family) -> tuple[Variant | Literal[""], str]:
    """What ``iptables --version`` says: ``iptables v1.8.9 (nf_tables)``; before 1.8 there was only legacy."""
    name = "ip6tables" if family == 6 else "iptables"
    if find(name) is None:
        return "", ""
    ran = run([name, "--version"], timeout=10.0)
    if not ran.ok:
        return "", ""
    version = ran.out.strip()
    return ("nft" if "nf_tables" in version else "legacy"), version
