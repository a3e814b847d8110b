"""What an istio-iptables run leaves in built-in chains, where no name of a chain tells whose a rule is.

Known by its exact form, and only in a table that has istio's chains: the marks must be those that these chains use,
and an interface's RETURN must have the counterpart that the original always writes beside it.
"""

from __future__ import annotations

from meshnet.model.names import ISTIO_PREFIX, OUTBOUND_MARK
from meshnet.parse.words import canonical

TYPE_CHECKING = False
if TYPE_CHECKING:
    from meshnet.parse.saved import SavedTable

    Form = dict[str, tuple[str, ...]]

HOOKS = ("PREROUTING", "OUTPUT")


def left_by_istio(table: SavedTable) -> frozenset[tuple[str, str]]:
    """The rules, as (hook, words), that belong to istio's chains in this table though they lead to none."""
    marks = istio_marks(table)
    forms = [(rule.chain, rule.words, _form(rule.words)) for rule in table.rules if rule.chain in HOOKS]
    return frozenset(
        (hook, words)
        for hook, words, form in forms
        if _keeps_a_mark(hook, form, marks) or _returns_an_interface(hook, form, [(at, it) for at, _, it in forms])
    )


def istio_marks(table: SavedTable) -> frozenset[str]:
    """The marks that istio's chains of a table set or look at, in hexadecimal, and the one of its own-pod calls."""
    found = {hex(OUTBOUND_MARK)}
    for rule in table.rules:
        if rule.chain.startswith(ISTIO_PREFIX):
            form = _form(rule.words)
            found |= {value for name in ("--mark", "--set-xmark") for value in form.get(name, ())}
    return frozenset(found)


def _form(words: str) -> Form:
    """A rule's options with their values; ``!`` in front of the name of a negated one."""
    return {f"{negation}{name}": tuple(values) for _, name, negation, *values in canonical(words)}


def _keeps_a_mark(hook: str, form: Form, marks: frozenset[str]) -> bool:
    options = {name for name in form if name not in ("-m", "--nfmask", "--ctmask")}
    target = form.get("-j", ("",))[0]
    marked = any(value in marks for name in ("--mark", "--set-xmark") for value in form.get(name, ()))
    if form.get("-p") != ("tcp",) or not marked:
        return False
    if hook == "PREROUTING":
        return target == "CONNMARK" and options == {"-p", "--mark", "-j", "--save-mark"}
    owner = {"--uid-owner"} if "--uid-owner" in form else {"--gid-owner"}
    return (
        (target == "CONNMARK" and options == {"-p", "--mark", "-j", "--restore-mark"})
        or (target == "RETURN" and options == {"-p", "-o", "--mark", "-j"} and form["-o"] == ("lo",))
        or (target == "MARK" and options == {"-p", "-o", "!-d", "-j", "--set-xmark"} | owner and form["-o"] == ("lo",))
    )


def _returns_an_interface(hook: str, form: Form, forms: list[tuple[str, Form]]) -> bool:
    side, other_side = ("-i", "-o") if hook == "PREROUTING" else ("-o", "-i")
    if set(form) != {side, "-j"} or form["-j"] != ("RETURN",):
        return False
    excluded = any(
        at != hook and set(it) == {other_side, "-j"} and it["-j"] == ("RETURN",) and it[other_side] == form[side]
        for at, it in forms
    )
    guest = hook == "PREROUTING" and any(
        at == hook and it.get("-i") == form["-i"] and it.get("-j") == (f"{ISTIO_PREFIX}REDIRECT",) for at, it in forms
    )
    return excluded or guest
