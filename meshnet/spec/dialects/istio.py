"""istio-iptables' settings to a Spec, whether they were given as flags, variables or annotations.

As strict as the rest of the spec's readers, but for what is usual there: empty items of a list, blanks around the
others, port ranges with a colon, and blocks with host bits, which the tools cut off without a word (127.0.0.1/8).
"""

from __future__ import annotations

from meshnet.model import names
from meshnet.model.cidr import BITS, LOOPBACK, network_of, read_address
from meshnet.model.errors import SpecError, Wrong
from meshnet.model.marks import FULL
from meshnet.model.ports import number, read_port, read_ports
from meshnet.model.spec import Dns, Inbound, Interfaces, Marks, Outbound, Routing, Sidecar, Spec
from meshnet.model.value import replace, value
from meshnet.spec import readers
from meshnet.spec.check import conflicts
from meshnet.spec.dialects.istio_options import RULES, read_truth

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, Literal

    from meshnet.model.cidr import Cidr
    from meshnet.model.ports import PortRange
    from meshnet.model.spec import Families, InboundMode, Profile
    from meshnet.spec.dialects.istio_options import Word

    Lookup = Callable[[str], int | None]

MODES: dict[str, InboundMode] = {"REDIRECT": "redirect", "TPROXY": "tproxy", "NONE": "none", "": "redirect"}
WHERE = {
    "inbound.port": "inbound-capture-port",
    "inbound.tunnelPort": "inbound-tunnel-port",
    "inbound.ports": "istio-inbound-ports",
    "inbound.excludePorts": "istio-local-exclude-ports",
    "outbound.port": "envoy-port",
    "outbound.cidrs": "istio-service-cidr",
    "outbound.excludeCidrs": "istio-service-exclude-cidr",
    "outbound.loopbackCidr": "istio-outbound-ipv4-loopback-cidr",
    "outbound.groups": "istio-outbound-owner-groups",
    "interfaces.guest": "kube-virt-interfaces",
    "marks.inbound": "istio-inbound-tproxy-mark",
    "marks.outbound": "istio-inbound-tproxy-mark",
}
"""Which option a conflict between fields of the spec is about."""


def nobody(name: str) -> int | None:
    """A lookup that knows no name."""
    del name
    return None


@value
class Directory:
    """Numbers of users and groups by name, as the pod's own files have them."""

    user: Lookup = nobody
    group: Lookup = nobody


NO_NAMES = Directory()


def spec_of(
    given: Mapping[str, Word],
    *,
    profile: Profile = "istio",
    families: Families = "auto",
    directory: Directory = NO_NAMES,
) -> Spec:
    """The Spec for options by long name; SpecError names every wrong one at once, each with its value."""
    reader = _Reader(given, directory)
    spec = _spec(reader, profile, families)
    if not reader.problems:
        for conflict in conflicts(spec):
            option = WHERE.get(conflict.path.partition("[")[0], "")
            where = reader.label(option) if option else conflict.path
            reader.problems.append(f"{where}: {conflict.what}: {conflict.right}")
    if reader.problems:
        raise SpecError(reader.problems)
    return spec


def wants_both_families(given: Mapping[str, Word]) -> bool:
    return _Reader(given, NO_NAMES).flag("dual-stack")


def _spec(read: _Reader, profile: Profile, families: Families) -> Spec:
    uids, gids = read.identities()
    mode: InboundMode = read.one("istio-inbound-interception-mode", _mode, "redirect")
    mark = read.one("istio-inbound-tproxy-mark", readers.read_mark, names.INBOUND_MARK)
    exact = profile == "istio"
    fits = not (mark | names.OUTBOUND_MARK) & ~names.MARK_MASK
    dns: Literal["off", "all", "resolvers"] = "off"
    if read.flag("redirect-dns"):
        dns = "all" if read.flag("capture-all-dns") else "resolvers"
    spec = Spec(
        name="istio",
        profile=profile,
        families=(4, 6) if exact and families == "auto" and read.flag("dual-stack") else families,
        sidecar=Sidecar(uids, gids),
        inbound=_inbound(read, mode),
        outbound=_outbound(read),
        dns=Dns(dns),
        interfaces=Interfaces(
            read.many("istio-exclude-interfaces", readers.read_interface),
            read.many("kube-virt-interfaces", readers.read_interface),
        ),
        # The original reads and writes whole marks; whoever wants others' bits left alone takes the other profile.
        marks=Marks(mark, names.OUTBOUND_MARK, names.MARK_MASK if fits and not exact else FULL),
        routing=Routing(read.one("istio-inbound-tproxy-route-table", readers.read_table, names.ROUTE_TABLE)),
        drop_invalid=read.flag("drop-invalid"),
    )
    return spec if exact else replace(spec, outbound=without_dead_blocks(spec.outbound))


def _inbound(read: _Reader, mode: InboundMode) -> Inbound:
    port = read.one("inbound-capture-port", read_port, names.INBOUND_PORT)
    return Inbound(
        mode=mode,
        port=read_ports(port),
        ports=read.some_or_all("istio-inbound-ports", _ports, ()),
        exclude_ports=read.many("istio-local-exclude-ports", _ports),
        tunnel_port=read.one("inbound-tunnel-port", read_port, names.TUNNEL_PORT),
        original_source=mode == "tproxy",
    )


def _outbound(read: _Reader) -> Outbound:
    return Outbound(
        port=read.one("envoy-port", read_port, names.OUTBOUND_PORT),
        cidrs=read.some_or_all("istio-service-cidr", read_block, ()),
        exclude_cidrs=read.many("istio-service-exclude-cidr", read_block),
        ports=read.many("istio-outbound-ports", _ports),
        exclude_ports=read.many("istio-local-outbound-ports-exclude", _ports),
        groups=read.some_or_all("istio-outbound-owner-groups", read.group, "*"),
        exclude_groups=read.many("istio-outbound-owner-groups-exclude", read.group),
        loopback_cidr=read.one("istio-outbound-ipv4-loopback-cidr", _loopback, Outbound().loopback_cidr),
    )


def without_dead_blocks(outbound: Outbound) -> Outbound:
    """The same without blocks that exclusion or loopback takes away again: a spec's own document refuses those."""
    if outbound.cidrs == "*":
        return outbound
    dead = frozenset(outbound.exclude_cidrs)
    kept = (block for block in outbound.cidrs if block not in dead and not outbound.loopback_cidr.covers(block))
    return replace(outbound, cidrs=tuple(block for block in kept if not LOOPBACK[6].covers(block)))


class _Reader:
    """Reads options one by one and keeps every problem, so that all are told at once."""

    def __init__(self, given: Mapping[str, Word], directory: Directory) -> None:
        self.given = given
        self.directory = directory
        self.problems: list[str] = []
        self._options = {option.name: option for option in RULES}

    def label(self, name: str) -> str:
        word = self.given.get(name)
        return word.label if word else self._options[name].label

    def one(self, name: str, read: Callable[[str], Any], default: Any) -> Any:
        text = self._text(name)
        if not text:
            return default
        return self._try(name, read, text, default)

    def many(self, name: str, read: Callable[[str], Any]) -> tuple[Any, ...]:
        # Templates that put lists together leave items empty: 15090,,15021 when there is no status port.
        items = [item.strip() for item in self._text(name).split(",")]
        found = [self._try(name, read, item, None) for item in items if item]
        return tuple(dict.fromkeys(item for item in found if item is not None))

    def some_or_all(self, name: str, read: Callable[[str], Any], default: Any) -> Any:
        if name not in self.given:
            return default
        return "*" if self._text(name) == "*" else self.many(name, read)

    def flag(self, name: str) -> bool:
        return bool(self.one(name, read_truth, False))

    def identities(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """uids and gids; gids are the uids' numbers where none are given, as in the original."""
        uids = self.many("proxy-uid", self._user)
        if not uids:
            known = self.directory.user(self._text("envoy-user") or "istio-proxy")
            uids = (names.SIDECAR_ID if known is None else known,)
        return uids, self.many("proxy-gid", self.group) or uids

    def group(self, word: str) -> int:
        return _id(word, self.directory.group, "group")

    def _user(self, word: str) -> int:
        return _id(word, self.directory.user, "user")

    def _text(self, name: str) -> str:
        return self.given[name].text.strip() if name in self.given else ""

    def _try(self, name: str, read: Callable[[str], Any], text: str, default: Any) -> Any:
        try:
            return read(text)
        except Wrong as wrong:
            from meshnet.spec.nodes import printable

            self.problems.append(f"{self.label(name)}: {printable(wrong.what, 160)}: {wrong.right}")
            return default


def _id(word: str, lookup: Lookup, what: str) -> int:
    if word and not word[0].isdigit():
        found = lookup(word)
        if found is None:
            raise Wrong(f"an unknown {what} ({word})", f"a number, or a {what} that exists here")
        return found
    return readers.read_id(word)


def _mode(word: str) -> InboundMode:
    if word.upper() not in MODES:
        raise Wrong(f"not a mode ({word})", "REDIRECT, TPROXY or NONE")
    return MODES[word.upper()]


def _ports(word: str) -> PortRange:
    return read_ports(word.replace(":", "-"))


def read_block(word: str) -> Cidr:
    """A block or one address; host bits are cut off, as the tools do it."""
    text, slash, length = word.partition("/")
    if word == "*":
        raise Wrong("* beside other entries (*)", "* alone, or a list without it")
    family, address = read_address(text)
    prefix = number(length) if slash else BITS[family]
    if prefix is None or prefix > BITS[family]:
        raise Wrong(f"not a prefix length ({word})", f"0 to {BITS[family]}, such as 10.0.0.0/8")
    return network_of(family, address, prefix)


def _loopback(word: str) -> Cidr:
    return readers.read_loopback(str(read_block(word)))
