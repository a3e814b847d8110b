"""What fields must be to each other. Each rule is one function; all of them are asked, whatever the others found."""

from __future__ import annotations

from meshnet.model.cidr import LOOPBACK
from meshnet.model.marks import FULL
from meshnet.model.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from meshnet.model.cidr import Cidr
    from meshnet.model.ports import PortRange
    from meshnet.model.spec import Spec


GROUPS_IN_A_RULE = 47
"""Each is a match of five words, and iptables takes 255 words for one rule (MAX_ARGC, iptables/xshared.h). The comment
and the longest target, that of a log rule, need 14."""


@value
class Conflict:
    """``involved`` are the fields that decide it, without list places; ``path`` is where a person looks first."""

    path: str
    what: str
    right: str
    involved: tuple[str, ...]


def conflicts(spec: Spec) -> list[Conflict]:
    """Every rule that a Spec breaks, in the order of the document's fields."""
    return [conflict for rule in RULES for conflict in rule(spec)]


def problems(spec: Spec) -> list[tuple[str, str, str]]:
    """Everything that is wrong with a Spec built by hand, field by field and between them: (path, what, right)."""
    from meshnet.spec.decode import Decoder
    from meshnet.spec.dump import document_of
    from meshnet.spec.nodes import Mapping, node_of

    root = node_of(document_of(spec))
    assert isinstance(root, Mapping)
    decoder = Decoder()
    decoder.document(root)
    return [(problem.path, problem.what, problem.right) for problem in decoder.problems]


def _identity(spec: Spec) -> Iterator[Conflict]:
    if spec.sidecar.known:
        return
    asked = {
        path: word
        for path, word, asks in (
            ("outbound.mode", spec.outbound.mode, spec.outbound.mode != "none"),
            ("dns.capture", spec.dns.capture, spec.dns.capture != "off"),
        )
        if asks
    }
    if asked:
        reason = " and ".join(f"{path} is {word}" for path, word in asked.items())
        yield Conflict(
            "sidecar",
            f"no uid, gid or mark, so the proxy's own traffic would be captured again ({reason})",
            "at least one, such as uids: [1337]",
            ("sidecar.uids", "sidecar.gids", "sidecar.mark", *asked),
        )


def _range(spec: Spec) -> Iterator[Conflict]:
    if spec.inbound.port.single or spec.inbound.mode == "redirect":
        return
    yield Conflict(
        "inbound.port",
        f"a range with mode {spec.inbound.mode} ({spec.inbound.port})",
        f"one port, such as {spec.inbound.port.first}, or mode: redirect",
        ("inbound.port", "inbound.mode"),
    )


def _marks(spec: Spec) -> Iterator[Conflict]:
    marks, mask = spec.marks, spec.marks.mask
    named = {"sidecar.mark": spec.sidecar.mark, "marks.inbound": marks.inbound, "marks.outbound": marks.outbound}
    for path, mark in named.items():
        if mark is not None and mark & ~mask & FULL:
            right = f"bits of {mask:#x}, or a mask that covers it, such as {(mask | mark) & FULL:#x}"
            yield Conflict(path, f"bits outside marks.mask ({mark:#x})", right, (path, "marks.mask"))
    for path, other in (
        ("sidecar.mark", "marks.inbound"),
        ("sidecar.mark", "marks.outbound"),
        ("marks.outbound", "marks.inbound"),
    ):
        one, two = named[path], named[other]
        if one is not None and two is not None and one & mask == two & mask:
            what = f"the same as {other} under the mask ({one:#x})"
            yield Conflict(path, what, "a mark of its own", (path, other, "marks.mask"))


def _ports(spec: Spec) -> Iterator[Conflict]:
    """Two listeners on one port: the second never starts, or takes what was meant for the first."""
    taken: list[tuple[str, PortRange | int, tuple[str, ...]]] = []
    if spec.inbound.active:
        taken.append(("inbound.port", spec.inbound.port, ("inbound.port", "inbound.mode", "inbound.ports")))
        # A range is there to keep source ports apart, and 15006-15009 is the usual one: it holds the tunnel's default
        # port, which is let through before the range is looked at.
        if spec.inbound.tunnel_port is not None and spec.inbound.port.single:
            taken.append(("inbound.tunnelPort", spec.inbound.tunnel_port, ("inbound.tunnelPort", "inbound.mode")))
    if spec.outbound.active:
        taken.append(("outbound.port", spec.outbound.port, ("outbound.port", "outbound.mode", "outbound.cidrs")))
    if spec.dns.capture != "off":
        taken.append(("dns.port", spec.dns.port, ("dns.port", "dns.capture")))
    for place, (path, port, involved) in enumerate(taken):
        for other, before, others in taken[:place]:
            if not isinstance(port, int) or (before != port if isinstance(before, int) else not before.covers(port)):
                continue
            yield Conflict(path, f"the port of {other} too ({port})", "a port of its own", involved + others)


def _interfaces(spec: Spec) -> Iterator[Conflict]:
    """Excluded is left alone; and what enters by one interface has one meaning."""
    interfaces = spec.interfaces
    named = [(f"interfaces.guest[{place}]", name) for place, name in enumerate(interfaces.guest)]
    networks = [
        (f"interfaces.networks[{n}].interface", network.interface) for n, network in enumerate(interfaces.networks)
    ]
    for path, name in (*named, *networks):
        for excluded in interfaces.exclude:
            if _covers(excluded, name):
                yield Conflict(
                    path,
                    f"excluded by interfaces.exclude too ({excluded})",
                    "one of the two; an excluded interface is left alone",
                    (_field(path), "interfaces.exclude"),
                )
    for place, (path, name) in enumerate(networks):
        for other, before in (*named, *networks[:place]):
            if _covers(before, name) or _covers(name, before):
                what = f"an interface that {_field(other)} is about too ({before})"
                yield Conflict(path, what, "one entry for it", (_field(path), _field(other)))


def _networks(spec: Spec) -> Iterator[Conflict]:
    for place, network in enumerate(spec.interfaces.networks):
        seen: dict[int, Cidr] = {}
        for number, block in enumerate(network.cidrs):
            path = f"interfaces.networks[{place}].cidrs[{number}]"
            if block.everything:
                what = f"every address, so that nothing goes beyond it ({block})"
                yield Conflict(path, what, "the block behind the interface", ("interfaces.networks",))
            if block.family in seen:  # "none of these blocks" is nothing that one rule can ask
                what = f"a second IPv{block.family} block, beside {seen[block.family]} ({block})"
                yield Conflict(
                    path, what, "one of each family, such as a block that holds both", ("interfaces.networks",)
                )
            seen.setdefault(block.family, block)


def _covers(pattern: str, name: str) -> bool:
    """Whether a pattern stands for a name, or for every name of another pattern."""
    return name == pattern or (pattern.endswith("+") and name.startswith(pattern[:-1]))


def _field(path: str) -> str:
    return path.partition("[")[0]


def _dead_cidrs(spec: Spec) -> Iterator[Conflict]:
    if spec.outbound.cidrs == "*" or spec.profile == "istio":  # whose lists are taken as they are
        return
    excluded, loopback = frozenset(spec.outbound.exclude_cidrs), spec.outbound.loopback_cidr
    for place, block in enumerate(spec.outbound.cidrs):
        path = f"outbound.cidrs[{place}]"
        if block in excluded:
            what = f"in excludeCidrs too, where exclusion wins ({block})"
            yield Conflict(path, what, "one of the two", ("outbound.cidrs", "outbound.excludeCidrs"))
        if loopback.covers(block):
            what = f"inside loopbackCidr {loopback}, which stays direct ({block})"
            right = "a narrower loopbackCidr, or no such entry"
            yield Conflict(path, what, right, ("outbound.cidrs", "outbound.loopbackCidr"))
        elif LOOPBACK[6].covers(block):
            what = f"the IPv6 loopback address, which stays direct ({block})"
            yield Conflict(path, what, "no such entry", ("outbound.cidrs",))


def _families(spec: Spec) -> Iterator[Conflict]:
    if spec.families == "auto" or spec.profile == "istio":  # one list serves pods of every kind there
        return
    lists: dict[str, tuple[Cidr, ...]] = {
        "inbound.excludeSources": spec.inbound.exclude_sources,
        "outbound.cidrs": () if spec.outbound.cidrs == "*" else spec.outbound.cidrs,
        "outbound.excludeCidrs": spec.outbound.exclude_cidrs,
        "dns.resolvers": spec.dns.resolvers,
        **{f"interfaces.networks[{n}].cidrs": network.cidrs for n, network in enumerate(spec.interfaces.networks)},
    }
    for path, blocks in lists.items():
        for place, block in enumerate(blocks):
            if block.family not in spec.families:
                said = block.address if path == "dns.resolvers" else block
                what = f"an IPv{block.family} entry, and families leaves IPv{block.family} out ({said})"
                right = f"no such entry, or ipv{block.family} in families"
                yield Conflict(f"{path}[{place}]", what, right, (_field(path), "families"))


def _groups(spec: Spec) -> Iterator[Conflict]:
    if spec.outbound.groups != "*" and len(spec.outbound.groups) > GROUPS_IN_A_RULE:
        what = f"{len(spec.outbound.groups)} groups, which iptables has to take in one rule"
        yield Conflict("outbound.groups", what, f"at most {GROUPS_IN_A_RULE}", ("outbound.groups",))


def _istio(spec: Spec) -> Iterator[Conflict]:
    """What istio-iptables has no rule for. Left out in silence, it would be a promise that nobody keeps."""
    if spec.profile != "istio":
        return
    right = "no such entry, or profile: meshnet"
    asked = (
        ("sidecar.mark", spec.sidecar.mark is not None, "it knows the sidecar by uid and gid alone"),
        ("inbound.excludeSources", bool(spec.inbound.exclude_sources), "it looks at no client's address"),
        ("inbound.ownPod", not spec.inbound.own_pod, "it takes the sidecar's calls to its own pod to the listener"),
        ("outbound.excludeUsers", bool(spec.outbound.exclude_users), "it asks for no user but the sidecar's"),
        ("interfaces.networks", bool(spec.interfaces.networks), "it knows interfaces without a network of their own"),
    )
    for path, there, why in asked:
        if there:
            yield Conflict(path, f"nothing that profile istio has rules for: {why}", right, (path, "profile"))
    if spec.inbound.original_source and spec.inbound.mode == "redirect":
        what = "true, and profile istio keeps the client's address under tproxy alone"
        right = "false, mode: tproxy, or profile: meshnet"
        yield Conflict("inbound.originalSource", what, right, ("inbound.originalSource", "inbound.mode", "profile"))


RULES = (_identity, _range, _marks, _ports, _interfaces, _networks, _dead_cidrs, _families, _groups, _istio)
