"""What an istio-iptables run leaves in built-in chains, where no name of a chain tells whose a rule is.

Known by its exact form, and only in a table that has istio's chains: the marks must be those that these chains use,
and an interface's RETURN must have its counterpart in the other direction, or stand at the head of the chain.
"""

from __future__ import annotations

from meshnet.model.names import (
    DNS_PORT,
    INBOUND_MARK,
    ISTIO_PREFIX,
    OUTBOUND_MARK,
    PASSTHROUGH6,
    ROUTE_PROTOCOL,
    ROUTE_TABLE,
)
from meshnet.parse.words import canonical

TYPE_CHECKING = False
if TYPE_CHECKING:
    from meshnet.kernel.rtnetlink import SeenRoute, SeenRouting, SeenRule
    from meshnet.model.cidr import Family
    from meshnet.parse.saved import SavedTable

    Form = dict[str, tuple[str, ...]]

LOCAL = 2
"""RTN_LOCAL of linux/rtnetlink.h."""

KERNEL = (0, 253, 254, 255)
EVERYTHING = {4: "0.0.0.0/0", 6: "::/0"}
FULL_MASK = "0xffffffff"
OWN_ADDRESS = f"{PASSTHROUGH6}/128"
HOOKS = ("PREROUTING", "OUTPUT")
DNS_LISTENER = (str(DNS_PORT),)
OWNERS = {"--uid-owner", "--gid-owner", "!--gid-owner"}
NFLOG_GROUP = "1337"
"""Where the original's trace logging sends packets; it has such rules in built-in chains too."""


def left_by_istio(table: SavedTable) -> frozenset[tuple[str, str]]:
    """The rules, as (hook, words), that belong to istio's chains in this table though they lead to none."""
    marks = istio_marks(table)
    forms = [(rule.chain, rule.words, _form(rule.words)) for rule in table.rules if rule.chain in HOOKS]
    guests = _returned_guests([(words, form) for hook, words, form in forms if hook == "PREROUTING"])
    pairs = [(hook, form) for hook, _, form in forms]
    dns = any(_about_dns(hook, form) and DNS_LISTENER in form.values() for hook, form in pairs)
    return frozenset(
        (hook, words)
        for hook, words, form in forms
        if _keeps_a_mark(hook, form, marks)
        or _logs(form)
        or (dns and _about_dns(hook, form))
        or _excludes_an_interface(hook, form, pairs)
        or (hook == "PREROUTING" and words in guests)
    )


def istio_marks(table: SavedTable) -> frozenset[str]:
    """The marks that istio's chains of a table set or look at, in hexadecimal, and the one of its own-pod calls."""
    found = {hex(OUTBOUND_MARK)}
    for rule in table.rules:
        if rule.chain.startswith(ISTIO_PREFIX):
            form = _form(rule.words)
            found |= {value for name in ("--mark", "--set-xmark") for value in form.get(name, ())}
    return frozenset(found)


def left_routing(
    family: Family, seen: SeenRouting, tables: tuple[SavedTable, ...]
) -> tuple[tuple[SeenRule, ...], tuple[SeenRoute, ...], tuple[str, ...]]:
    """Policy rules and routes for istio's mark, one for each run of the original, and its address on ``lo``.

    They are looked for without its chains too: its own clean-up leaves them. Then a mark other than the usual one is
    known by where it leads: to the usual table, with the route that delivers everything here.
    """
    marked = [rule for rule in seen.rules if rule.protocol != ROUTE_PROTOCOL and rule.mark.endswith(f"/{FULL_MASK}")]
    marks = {hex(INBOUND_MARK)}
    if marked:
        marks = marks.union(*(istio_marks(table) for table in tables)) - {hex(OUTBOUND_MARK)}
    delivering = [
        route
        for route in seen.routes
        if route.protocol != ROUTE_PROTOCOL
        and (route.kind, route.device, route.gateway) == (LOCAL, "lo", "")
        and route.destination == EVERYTHING[family]
    ]
    usual = any(route.table == ROUTE_TABLE for route in delivering)
    rules = tuple(
        rule
        for rule in marked
        if _only_a_mark(rule) and (rule.mark.partition("/")[0] in marks or (usual and rule.table == ROUTE_TABLE))
    )
    numbers = {ROUTE_TABLE, *(rule.table for rule in rules)}
    routes = tuple(route for route in delivering if route.table in numbers)
    istio = family == 6 and (
        bool(rules) or any(chain.name.startswith(ISTIO_PREFIX) for table in tables for chain in table.chains)
    )
    tagged = any(route.destination == OWN_ADDRESS for route in seen.routes if route.protocol == ROUTE_PROTOCOL)
    addresses = tuple(item for item in seen.loopback if istio and not tagged and item == OWN_ADDRESS)
    return rules, routes, addresses


def _only_a_mark(rule: SeenRule) -> bool:
    selective = (rule.source, rule.destination, rule.incoming, rule.outgoing) != ("", "", "", "")
    return not rule.inverted and not selective and rule.table not in KERNEL


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


def _logs(form: Form) -> bool:
    return form.get("-j") == ("NFLOG",) and form.get("--nflog-group") == (NFLOG_GROUP,)


def _about_dns(hook: str, form: Form) -> bool:
    """Earlier releases had their rules about DNS over UDP in nat's and raw's built-in chains."""
    options = set(form) - OWNERS - {"-m", "-s", "-d"}
    port = next((name for name in ("--dport", "--sport") if name in form), "")
    if not port or form.get("-p") != ("udp",) or form[port] not in (("53",), DNS_LISTENER):
        return False
    asked = hook == "OUTPUT" and port == "--dport"
    match form.get("-j"):
        case ("REDIRECT",):
            return asked and options == {"-p", port, "-j", "--to-ports"} and form["--to-ports"] == DNS_LISTENER
        case ("RETURN",):
            return asked and options == {"-p", port, "-j"} and not OWNERS.isdisjoint(form)
        case ("CT",):
            return options == {"-p", port, "-j", "--zone"} and form["--zone"] in (("1",), ("2",))
    return False


def _excludes_an_interface(hook: str, form: Form, others: list[tuple[str, Form]]) -> bool:
    side, other_side = ("-i", "-o") if hook == "PREROUTING" else ("-o", "-i")
    return _only_returns(form, side) and any(
        at != hook and _only_returns(it, other_side) and it[other_side] == form[side] for at, it in others
    )


def _returned_guests(rules: list[tuple[str, Form]]) -> set[str]:
    """Guests' returns. Their captures tell which interfaces are guests'.

    With no block to capture there are returns alone: those at the very head, where the original puts them.
    """
    captured = {form.get("-i") for _, form in rules if form.get("-j") == (f"{ISTIO_PREFIX}REDIRECT",)} - {None}
    returns = [words if _only_returns(form, "-i") else "" for words, form in rules if not _logs(form)]
    if captured:
        return {words for words, form in rules if _only_returns(form, "-i") and form["-i"] in captured}
    return set(returns[: returns.index("")] if "" in returns else returns)


def _only_returns(form: Form, side: str) -> bool:
    return set(form) == {side, "-j"} and form["-j"] == ("RETURN",)
