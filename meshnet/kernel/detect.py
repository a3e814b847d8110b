"""Which iptables variant a namespace is used with: look without creating anything, then choose and say why.

Rules of both variants can be in force at once, and then the hook that was registered last wins; so the choice goes to
where rules already are. Gathering touches the host, ``choose`` is a pure function of what was found.
"""

from __future__ import annotations

import posix

from meshnet.kernel import nft_table
from meshnet.kernel.run import find, run
from meshnet.kernel.savetext import words
from meshnet.kernel.together import outcomes
from meshnet.kernel.xtables import Xtables, program
from meshnet.model import names
from meshnet.model.errors import MeshnetError, UnsupportedError
from meshnet.model.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Literal

    from meshnet.kernel.ports import Work
    from meshnet.kernel.xtables import Variant
    from meshnet.model.cidr import Family

    Backend = Literal["iptables-nft", "iptables-legacy", "libiptc", "nftables"]

VARIANTS: tuple[Variant, ...] = ("nft", "legacy")
UNREADABLE = "tables exist, but "
LINKS = 40
"""As many as the kernel follows (MAXSYMLINKS of linux/namei.h)."""
BACKEND: dict[Variant, Backend] = {"nft": "iptables-nft", "legacy": "iptables-legacy"}


@value
class Found:
    """What one variant holds for one family: rules of ours, of others; ``problem`` when it couldn't be read.

    ``text`` is what iptables-save printed, so that it need not be asked again.
    """

    variant: Variant
    installed: bool
    ours: int = 0
    foreign: int = 0
    problem: str = ""
    text: str = ""

    @property
    def usable(self) -> bool:
        return self.installed and not self.problem


@value
class Evidence:
    """What was found for one family, and what the plain name ``iptables`` stands for (empty: not installed).

    ``known_by``: the program that the name leads to, or what that calls itself.
    """

    family: Family
    found: tuple[Found, ...]
    system: Variant | Literal[""] = ""
    known_by: str = ""

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


def evidence(
    families: tuple[Family, ...] = (4, 6), meanwhile: Callable[[], object] | None = None
) -> tuple[Evidence, ...]:
    """Look at the namespace that the calling thread is in. Creates no table, needs no tool to be there.

    A tool is started only where the kernel says that there are tables; ``meanwhile`` is done while they read.
    """
    pairs = [(family, variant) for family in families for variant in VARIANTS]
    looked = [pair for pair in pairs if not _missing(*pair)]
    said = dict(zip(looked, outcomes(_begin_look, looked, meanwhile), strict=True))
    return tuple(
        Evidence(
            family,
            tuple(_found(family, variant, said.get((family, variant))) for variant in VARIANTS),
            *_system(family),
        )
        for family in families
    )


def texts(seen: Sequence[Evidence], backend: Backend) -> dict[Family, str] | None:
    """What the save of the chosen backend printed, by family; None when it has to be asked itself."""
    found = {item.family: one for item in seen for one in item.found if BACKEND[one.variant] == backend}
    if not found or not all(one.usable for one in found.values()):
        return None
    return {family: one.text for family, one in found.items()}


def own_tables() -> tuple[str, ...]:
    """The tables of nftables that are ours, by their comment. Needs no program, and reads nothing else of others'."""
    return tuple(name for name, said in nft_table.inet_tables() if said.startswith(names.COMMENT_PREFIX))


def left_tables() -> bool:
    """Whether an istio-iptables run left tables of nftables."""
    return any(name in names.ISTIO_TABLES for name, _ in nft_table.inet_tables())


def choose(seen: Sequence[Evidence], tables: Sequence[str] = ()) -> Choice:
    """The backend for families looked at together; UnsupportedError when a family has no tool.

    ``nftables`` when there are ``tables`` of ours in it; else the variant that holds rules of ours; else the one with
    more foreign rules; else what the plain name ``iptables`` stands for; else nft, else legacy. ``libiptc`` is never
    chosen by itself, and ``nftables`` not without a table of ours: ask for them.
    """
    if tables:
        also = [program(4, variant) for variant in VARIANTS if any(item.of(variant).ours for item in seen)]
        more = f" (rules of ours are in {' and '.join(also)} too: all are in force)" if also else ""
        return Choice("nftables", f"table inet {tables[0]} is ours{more}")
    usable = tuple(variant for variant in VARIANTS if all(item.of(variant).usable for item in seen))
    stuck = [variant for variant in VARIANTS if variant not in usable and any(item.of(variant).ours for item in seen)]
    if not usable or stuck:
        # Our rules in a variant that can't be used for all families: a second set in the other variant would
        # capture twice, so there is no right choice until the tool is there.
        held = tuple(f"iptables-{variant} holds rules of ours" for variant in stuck)
        raise UnsupportedError((*held, *_lacking(seen)), hint="apt-get install iptables")
    choice = _chosen(seen, usable)
    return Choice(choice.backend, "; ".join((choice.reason, *unread(seen))))


def unread(seen: Sequence[Evidence]) -> tuple[str, ...]:
    """The variants that have tables here and no tool to read them."""
    return tuple(line for line in _lacking(seen) if UNREADABLE in line)


def ours(line: str) -> bool:
    """Whether a rule line is ours: it is in a chain of ours, jumps to one, or carries our comment."""
    if names.CHAIN_PREFIX not in line and names.COMMENT_PREFIX not in line:
        return False
    if line.startswith(f"-A {names.CHAIN_PREFIX}"):
        return True
    parts = words(line)
    if _behind("--comment", parts).startswith(names.COMMENT_PREFIX):
        return True
    return any(_behind(option, parts).startswith(names.CHAIN_PREFIX) for option in ("-j", "-g"))


def _behind(option: str, parts: list[str]) -> str:
    """An option's word, or nothing. A rule has one target; of several comments the first one counts."""
    return parts[parts.index(option) + 1] if option in parts[:-1] else ""


def _chosen(seen: Sequence[Evidence], usable: tuple[Variant, ...]) -> Choice:
    ours = {variant: sum(item.of(variant).ours for item in seen) for variant in usable}
    foreign = {variant: sum(item.of(variant).foreign for item in seen) for variant in usable}
    for count, whose in ((ours, "rules of ours"), (foreign, "foreign rules")):
        holders = [variant for variant in usable if count[variant]]
        if holders:
            return _by_count(holders, count, whose)
    system = next((item.system for item in seen if item.system), "")
    if system and system in usable:
        known_by = next(item.known_by for item in seen if item.system)
        return Choice(BACKEND[system], f"no rules yet, and iptables is {known_by}")
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


def _missing(family: Family, variant: Variant) -> str:
    """The first program of a variant that isn't installed."""
    return next((tool for verb in ("save", "restore") if not find(tool := program(family, variant, verb))), "")


def _begin_look(asked: tuple[Family, Variant]) -> Work[str]:
    family, variant = asked
    return Xtables(variant).begin_save(family)


def _found(family: Family, variant: Variant, said: str | MeshnetError | None) -> Found:
    if said is None:
        return Found(variant, False, problem=_absent(family, variant))
    if isinstance(said, MeshnetError):
        return Found(variant, True, problem="; ".join(line.strip() for line in said.lines()))
    rules = [line for line in said.splitlines() if line.startswith("-A ")]
    mine = sum(map(ours, rules))
    foreign = len(rules) - mine
    if not mine:  # a remove that was killed leaves chains without rules: that is where the next one has to go
        mine = said.count(f"\n:{names.CHAIN_PREFIX}")
    return Found(variant, True, mine, foreign, text=said)


def _absent(family: Family, variant: Variant) -> str:
    """Rules may be there without the tool: loaded from the host, by a CNI plugin or an injector's image."""
    try:
        there = UNREADABLE if Xtables(variant).present(family) else ""
    except MeshnetError as error:
        return "; ".join(line.strip() for line in error.lines())
    return f"{there}{_missing(family, variant)} is missing"


def _system(family: Family) -> tuple[Variant | Literal[""], str]:
    """Debian, Red Hat and Alpine have one program for each variant, and the plain name is a link to it.

    Where it is anything else, a wrapper or a program from before the variants, it is asked: ``iptables v1.8.9
    (nf_tables)``; before 1.8 there was only legacy.
    """
    name = "ip6tables" if family == 6 else "iptables"
    path = find(name)
    if path is None:
        return "", ""
    linked = _end_of_links(path).rpartition("/")[2]
    for variant in VARIANTS:
        if linked in (f"xtables-{variant}-multi", program(family, variant)):
            return variant, linked
    ran = run([name, "--version"], timeout=10.0)
    if not ran.ok:
        return "", ""
    version = ran.out.strip()
    return ("nft" if "nf_tables" in version else "legacy"), version


def _end_of_links(path: str) -> str:
    for _ in range(LINKS):
        try:
            target = posix.readlink(path)
        except OSError:  # no link
            break
        path = target if target.startswith("/") else f"{path.rpartition('/')[0]}/{target}"
    return path
