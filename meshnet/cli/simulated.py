"""From a spec or from saved rules to a pod that packets can walk through."""

from __future__ import annotations

from meshnet.model.story import Conduct
from meshnet.model.trace import Proxies
from meshnet.model.value import replace, value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from meshnet.model.cidr import Cidr, Family
    from meshnet.model.host import Address, AddressSet, Host, Lookup, Route
    from meshnet.model.program import Program
    from meshnet.model.rule import Condition
    from meshnet.model.ruleset import HeldRule, RuleSet
    from meshnet.spec.load import Document

PRIORITY, TABLE = 109, 133


@value
class Subject:
    """What is asked about: rules of both families, and what they came from; ``notes`` are said beside an answer.
    ``host`` is the namespace that the rules are in force in, if it was looked at; ``sets`` are those of ipset that the
    rules look into."""

    name: str
    rules: tuple[RuleSet, ...]
    document: Document | None = None
    program: Program | None = None
    notes: tuple[str, ...] = ()
    host: Host | None = None
    sets: tuple[AddressSet, ...] = ()

    def of(self, family: Family) -> RuleSet:
        from meshnet.model.ruleset import RuleSet

        return next((held for held in self.rules if held.family == family), RuleSet(family))

    def origin(self, rule: HeldRule | None) -> tuple[str, str]:
        """The path in the spec that a rule comes from, and its place as file:line; empty for others' rules."""
        from meshnet.model.names import rule_id_of

        rule_id = rule_id_of(rule.comment) if rule is not None else ""
        if not rule_id or self.program is None or self.document is None:
            return "", ""
        if rule is not None and rule.words:
            from meshnet.render.nftables import plain_id

            rule_id = plain_id(rule_id)
        entries = (entry.rule for entry in self.program.entries)
        origin = next((known.origin for known in (*self.program.rules(), *entries) if known.id == rule_id), "")
        return (origin, self.document.place(origin)) if origin else ("", "")

    @property
    def proxies(self) -> Proxies:
        """The sidecar's ports: the spec's, or the usual ones."""
        if self.document is None:
            return Proxies()
        spec = self.document.spec
        return Proxies(spec.inbound.port, spec.outbound.port, spec.dns.port)


def of_document(document: Document, families: tuple[Family, ...], backend: str = "auto") -> Subject:
    """What a spec's rules are once they are loaded: read back from the text that the tools are given.

    Only the rules of ``families`` are read; a packet has one, and reading both costs a tenth of a short process. All
    backends but ``nftables`` are given the same text.
    """
    from meshnet.apply.reconcile import fresh_steps
    from meshnet.compile.pipeline import compile_spec
    from meshnet.model.facts import Facts
    from meshnet.model.host import address_set
    from meshnet.parse.ruleset import read
    from meshnet.render.plan import render

    program = compile_spec(document.spec, Facts())
    if backend == "nftables":
        from meshnet.parse.nft_ruleset import read as read_nft

        (text,) = (step.text for step in fresh_steps(render(program, backend)) if step.tool == "nft")
        held = tuple(rules for rules in read_nft(text) if rules.family in program.families)
        return Subject(document.file, held, document, program)
    plan = render(program)
    steps = fresh_steps(plan)
    rules = tuple(
        read("".join(step.text for step in steps if (step.tool, step.family) == ("restore", family)), family)
        for family in program.families
        if family in families
    )
    return Subject(document.file, rules, document, program, sets=tuple(address_set(made) for made in plan.sets))


def of_files(rules: str | None, rules6: str | None) -> Subject:
    """Saved rules, by the files' names; ``-`` is standard input."""
    from meshnet.cli.options import once_from_stdin
    from meshnet.model.ruleset import together
    from meshnet.parse.nft_text import is_nft

    once_from_stdin(rules, rules6)
    families: tuple[tuple[Family, str | None], ...] = ((4, rules), (6, rules6))
    texts = [(*read_rules(name), family) for family, name in families if name is not None]
    found = [of_text(*text) for text in texts]
    names = " and ".join(item.name for item in found)
    held = together(held for item in found for held in item.rules)
    notes = [note for item in found for note in item.notes]
    if not any(chain.rules for item in held for table in item.tables for chain in table.chains):
        saved = not any(is_nft(text) for text, _, _ in texts)
        why = ": iptables-legacy-save and iptables-nft-save print those of one variant each" if saved else ""
        notes.append(f"no rule is in {names}{why}")
    return Subject(names, held, notes=tuple(notes))


def of_text(text: str, name: str, family: Family) -> Subject:
    """Saved rules of one family, or tables of nftables, which have families of their own."""
    from meshnet.parse.nft_ruleset import read as read_nft
    from meshnet.parse.nft_text import is_nft
    from meshnet.parse.ruleset import hidden_tables, read

    if is_nft(text):
        return Subject(name, tuple(_checked(held, name) for held in read_nft(text, name)))
    notes = tuple(
        f"{name}: table {table} could not be printed by the tool that saved the rules; what is in it is unknown"
        for table in hidden_tables(text)
    )
    return Subject(name, (_checked(read(text, family, name), name),), notes=notes)


def _checked(held: RuleSet, name: str) -> RuleSet:
    """RulesError, with the file's name, for what no kernel would have taken."""
    from meshnet.model.errors import RulesError
    from meshnet.simulate.chains import check

    try:
        check(held)
    except RulesError as error:
        places = [
            f"{name}:{item.removeprefix('line ') if item.startswith('line ') else f' {item}'}"
            for item in error.problems
        ]
        raise RulesError(places, hint=error.hint) from error
    return held


def read_rules(file: str) -> tuple[str, str]:
    """Rules in anybody's words, and the file's name in messages."""
    from meshnet.cli.options import read_bytes
    from meshnet.model.errors import UsageError

    data, name = read_bytes(file, "rule set")
    if b"\0" in data:
        hint = "is this what iptables-save or nft list printed?"
        raise UsageError(f"{name} is no text (byte {data.index(0)} is 0)", hint=hint)
    # A comment may be in any bytes: the kernel takes it as it is, and iptables-save prints it so.
    return data.decode("utf-8", "replace"), name


def host_for(subject: Subject, given: dict[str, Any], route_localnet: bool) -> Host:
    """A pod for a question: the one that was looked at, or one link with the addresses that the flags name and the
    routing that the rules expect."""
    from meshnet.cli.flow_options import POD, address_of, family_of
    from meshnet.model.cidr import BITS, Cidr
    from meshnet.model.host import LOOPBACK_LINK, Address, Host, Link, Route

    if subject.host is not None:
        return subject.host
    family = family_of(given)
    iface, way = given["iface"], given["way"] or "in"
    addresses = _given_addresses(given["address"])
    mine = given["dst"] if way == "in" else given["src"]
    if "eth0" not in addresses and mine and (way == "out" or iface == "eth0") and not _is_loopback(mine):
        addresses["eth0"] = [Address(family, address_of(mine, "--dst")[1], 24 if family == 4 else 64)]
    own = addresses.setdefault("eth0", [])
    families: tuple[Family, ...] = (4, 6)
    for each in families:
        if not any(item.family == each for item in own):
            own.append(Address(each, address_of(POD[each], "")[1], 24 if each == 4 else 64))
    if iface not in addresses and iface != "lo":
        addresses[iface] = [Address(4, 0xC6120001, 24), Address(6, 0x20010DB8000200000000000000000001, 64)]
    links = tuple(
        Link(name, tuple(items), route_localnet=route_localnet, src_valid_mark=given["src_valid_mark"])
        for name, items in addresses.items()
    )
    lookups, routes, local = _policy(subject, given)
    default = tuple(Route(Cidr(each, 0, 0), "eth0") for each in families)
    loopback = replace(
        LOOPBACK_LINK,
        addresses=(*LOOPBACK_LINK.addresses, *(Address(b.family, b.network, BITS[b.family]) for b in local)),
    )
    forwards: tuple[Family, ...] = (4, 6) if given["forward"] else ()
    return Host((loopback, *links), (*default, *routes), lookups, sets=subject.sets, forwards=forwards)


def _is_loopback(text: str) -> bool:
    from meshnet.cli.flow_options import address_of
    from meshnet.model.cidr import LOOPBACK

    family, address = address_of(text, "--src")
    return LOOPBACK[family].holds(family, address) or (family == 6 and address < 0x10000)


def _given_addresses(words: Iterable[str]) -> dict[str, list[Address]]:
    from meshnet.cli.flow_options import address_of, number_of
    from meshnet.model.cidr import BITS
    from meshnet.model.host import Address

    found: dict[str, list[Address]] = {}
    for word in words:
        link, sign, block = word.rpartition("=")
        text, slash, prefix = block.partition("/")
        family, address = address_of(text, "--address")
        bits = number_of(prefix, "--address", BITS[family]) if slash else BITS[family]
        found.setdefault(link if sign else "eth0", []).append(Address(family, address, bits))
    return found


def _policy(subject: Subject, given: dict[str, Any]) -> tuple[tuple[Lookup, ...], tuple[Route, ...], tuple[Cidr, ...]]:
    """The policy rules and local routes of a spec; for saved rules, those that TPROXY's marks need, unless denied."""
    from meshnet.model.cidr import Cidr
    from meshnet.model.host import Lookup, Route

    if given["no_policy_route"]:
        return (), (), ()
    if subject.program is not None:
        program = subject.program
        lookups = tuple(Lookup(rule.family, PRIORITY, rule.table, rule.mark) for rule in program.policy_rules)
        routes = tuple(Route(route.block, "lo", route.table, "local") for route in program.local_routes)
        return lookups, routes, tuple(item.address for item in program.loopback_addresses)
    marks = [(held.family, mark) for held in subject.rules for mark in tproxy_marks(held)]
    families = sorted({family for family, _ in marks})
    return (
        tuple(Lookup(family, PRIORITY, TABLE, mark) for family, mark in marks),
        tuple(Route(Cidr(family, 0, 0), "lo", TABLE, "local") for family in families),
        (),
    )


def tproxy_marks(held: RuleSet) -> list[Any]:
    """The marks that TPROXY sets, in order and once."""
    from meshnet.model.marks import Mark
    from meshnet.model.rule import ToSocket

    found = [
        Mark(rule.action.number & rule.action.mask, rule.action.mask)
        for table in held.tables
        for chain in table.chains
        for rule in chain.rules
        if isinstance(rule.action, ToSocket) and rule.action.mask
    ]
    return list(dict.fromkeys(found))


def conduct_for(subject: Subject, given: dict[str, Any], family: Family) -> tuple[Conduct, tuple[str, ...]]:
    """How the sidecar behaves, and what that was taken from: the flags, the spec, or what the rules provide for."""
    spec = subject.document.spec if subject.document is not None else None
    if spec is not None:
        conduct = Conduct(
            next(iter(spec.sidecar.uids), 0),
            next(iter(spec.sidecar.gids), 0),
            inbound_port=spec.inbound.port.first,
            outbound_port=spec.outbound.port,
            transparent=spec.inbound.mode == "tproxy",
            bind=None if spec.inbound.original_source else spec.passthrough.of(family).network,
            spoofs=spec.inbound.original_source,
            mark=spec.marks.inbound if spec.inbound.original_source else 0,
            own_mark=spec.sidecar.mark or 0,
        )
    else:
        conduct = _seen(subject.of(family), family)
    ids = {name: given[name] for name in ("uid", "gid") if given[name] is not None and given["way"] != "out"}
    if given["sidecar_uid"] is not None:
        ids["uid"] = given["sidecar_uid"]
    if given["sidecar_gid"] is not None:
        ids["gid"] = given["sidecar_gid"]
    conduct = replace(_way_of_dialling(conduct, given, family), **ids)
    way = "keeps the client's address" if conduct.spoofs else "binds an address of its own" if conduct.bind else "dials"
    mark = conduct.mark or conduct.own_mark
    marked = f", mark {mark:#x}" if mark else ""
    reason = "as the spec says" if spec is not None else "as far as the rules tell; see --sidecar, --uid and --gid"
    return conduct, (f"the sidecar runs under uid {conduct.uid}, gid {conduct.gid} and {way}{marked}: {reason}",)


def _way_of_dialling(conduct: Conduct, given: dict[str, Any], family: Family) -> Conduct:
    from meshnet.cli.flow_options import number_of, port_of
    from meshnet.model import names
    from meshnet.model.cidr import read_address

    passthrough = read_address(names.PASSTHROUGH4 if family == 4 else names.PASSTHROUGH6)[1]
    match given["sidecar"]:
        case "original-source":
            conduct = replace(conduct, spoofs=True, bind=None, dials=None)
        case "passthrough":
            conduct = replace(conduct, spoofs=False, bind=passthrough, dials=None, mark=0)
        case "loopback":
            to = read_address("127.0.0.1" if family == 4 else "::1")[1]
            conduct = replace(conduct, dials=(to, port_of(given, family)))
    if given["sidecar_mark"] is not None:
        conduct = replace(conduct, mark=number_of(given["sidecar_mark"], "--sidecar-mark"))
    if given["inbound_port"] is not None:
        conduct = replace(conduct, inbound_port=given["inbound_port"])
    if given["outbound_port"] is not None:
        conduct = replace(conduct, outbound_port=given["outbound_port"])
    return conduct


def _seen(held: RuleSet, family: Family) -> Conduct:
    """The sidecar that rules provide for: the owner that they name first, and the client's address if they save a mark
    on a connection or give it back; where one half of that is missing, it is what they were meant to do."""
    from meshnet.model import names
    from meshnet.model.cidr import read_address

    rules = [rule for table in held.tables for chain in table.chains for rule in chain.rules]
    owners = [owner for rule in rules for item in rule.conditions for owner in _owners(item)]
    uid = next((number for kind, number in owners if kind == "uid"), names.SIDECAR_ID)
    gid = next((number for kind, number in owners if kind == "gid"), uid)
    marks = tproxy_marks(held)
    keeps = any(rule.saves_mark or rule.restores_mark for rule in rules)
    mark = marks[0].number if marks else _connection_mark(rules)
    passthrough = read_address(names.PASSTHROUGH4 if family == 4 else names.PASSTHROUGH6)[1]
    return Conduct(
        uid,
        gid,
        bind=None if keeps else passthrough,
        spoofs=keeps,
        mark=mark if keeps else 0,
        transparent=True,
    )


def _owners(item: Condition) -> Iterator[tuple[str, int]]:
    from meshnet.model.rule import OwnerIs, SenderIs

    match item:
        case OwnerIs(uid, gid, _, _):
            yield from ((kind, ids.first) for kind, ids in (("uid", uid), ("gid", gid)) if ids is not None)
        case SenderIs(kind, spans, _):
            yield from ((kind, first) for first, _ in spans[:1])


def _connection_mark(rules: Iterable[HeldRule]) -> int:
    from meshnet.model.rule import ConnectionMark

    def marks(conditions: Iterable[Condition]) -> Iterator[int]:
        for item in conditions:
            if isinstance(item, ConnectionMark):
                yield item.number

    return next((mark for rule in rules for mark in marks(rule.conditions)), 0)
