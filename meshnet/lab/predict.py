"""What the simulator says of a row ahead of it: from the rules' text and the sidecar's conduct, without a packet.

Calls between the client, the pod and itself are predicted; what needs time, several connections or another place's
rules (a held connection, DNS, a service) is not, and has no word.
"""

from __future__ import annotations

from meshnet.apply.reconcile import fresh_steps
from meshnet.compile.pipeline import compile_spec
from meshnet.lab.measured import ELSE, MEASURED
from meshnet.lab.scenario import LOOP
from meshnet.lab.topology import ADDRESSES, FAMILIES, LENGTH
from meshnet.lab.world import settings_of_row
from meshnet.model.cidr import Cidr, address_text, read_address
from meshnet.model.facts import Facts
from meshnet.model.flow import Flow
from meshnet.model.host import LOOPBACK_LINK, Address, Host, Link, Listener, Lookup, Route
from meshnet.model.marks import Mark
from meshnet.model.story import Conduct
from meshnet.model.trace import Proxies
from meshnet.model.value import replace
from meshnet.parse.ruleset import read
from meshnet.render.plan import render
from meshnet.simulate.conversation import converse
from meshnet.simulate.walk import Pod
from meshnet.spec.load import load_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from meshnet.lab.scenario import Row, Step
    from meshnet.model.cidr import Family
    from meshnet.model.ruleset import RuleSet
    from meshnet.model.spec import Spec
    from meshnet.model.story import Story
    from meshnet.model.trace import Trace

OUTSIDE = ("client", "node", "second-pod")
FOREIGN_TABLE, FOREIGN_MARK, FOREIGN_PRIORITY = 133, 1337, 32765
"""The policy routing of the measurements, and what ``ip rule add`` takes as a priority by itself."""


def predicted(row: Row) -> dict[str, str]:
    """The words that the simulator has for the steps of a row, by label."""
    variant = row.variant
    if variant.application.kind == "zookeeper" or not (variant.applied and (variant.spec or variant.rules)):
        return {}
    if variant.sidecar.carries != "nothing":  # the application is told by a header, which no packet's address shows
        return {}
    if variant.sidecar.kind == "none" or any(key.endswith("src_valid_mark") for key, _ in variant.sysctls):
        return {}
    pod = _pod(row)
    conduct = _conduct(row)
    made = {}
    for step in variant.steps:
        flow = _flow(row, step) if step.verb == "call" and step.target == "pod" else None
        if flow is not None and step.port in variant.application.ports:
            made[step.label] = _word(pod, flow, conduct, row.family)
    if variant.rules is not None and made.get(ELSE) == LOOP:
        made[MEASURED] = LOOP
    return {label: word for label, word in made.items() if label in row.expected}


def trace(row: Row, step: Step) -> Trace | None:
    """The path that the first packet of a step should take; None for a step that has no single one."""
    flow = _flow(row, step)
    return _pod(row).walk(flow) if flow is not None else None


def told(row: Row, step: Step) -> Story | None:
    """The whole conversation of a step; None for a step that isn't a call of the pod."""
    flow = _flow(row, step) if step.target == "pod" else None
    return converse(_pod(row), flow, _conduct(row)) if flow is not None else None


def _word(pod: Pod, flow: Flow, conduct: Conduct, family: Family) -> str:
    story = converse(pod, flow, conduct)
    if story.disposition == LOOP:
        return LOOP
    return "reset" if story.app_sees is None else address_text(family, story.app_sees)


def _flow(row: Row, step: Step) -> Flow | None:
    family = row.family
    target, pod = _number(ADDRESSES[step.target][family]), _number(ADDRESSES["pod"][family])
    if step.origin in OUTSIDE and step.target == "pod":
        source = _number(ADDRESSES[step.origin][family])
        return Flow("in", family, "tcp", source, target, step.port, "eth0")
    if step.origin != "pod" or step.target not in (*OUTSIDE, "pod", "remote"):
        return None
    uid = step.uid if step.uid is not None else row.variant.application.uid or 0
    link = "lo" if step.target == "pod" else "eth0"
    return Flow("out", family, "tcp", pod, target, step.port, link, uid, uid)


def _pod(row: Row) -> Pod:
    variant, family = row.variant, row.family
    if variant.rules is not None:
        rules = read(variant.rules.text, 4, "rules")
        wanted = variant.rules.policy_routing
        mark, table, priority = Mark(FOREIGN_MARK), FOREIGN_TABLE, FOREIGN_PRIORITY
        return Pod([rules], _host(row, [(mark, table, priority)] if wanted else [], variant.rules.route_localnet))
    if not variant.spec:
        return Pod([], _host(row, [], localnet=False))
    spec = load_text(variant.spec, "spec").spec
    rules = _compiled(spec, family)
    way = (spec.marks.inbound_mark, spec.routing.table, 109)
    localnet = dict(variant.sysctls).get("net/ipv4/conf/all/route_localnet", 0)
    proxies = Proxies(spec.inbound.port, spec.outbound.port, spec.dns.port)
    return Pod([rules], _host(row, [way], bool(localnet)), proxies)


def _compiled(spec: Spec, family: Family) -> RuleSet:
    """The rules as they are once they are loaded: read back from the text that the tools are given."""
    steps = fresh_steps(render(compile_spec(spec, Facts())))
    return read("".join(step.text for step in steps if (step.tool, step.family) == ("restore", family)), family)


def _host(row: Row, ways: list[tuple[Mark, int, int]], localnet: bool) -> Host:
    addresses = tuple(Address(each, _number(ADDRESSES["pod"][each]), LENGTH[each]) for each in FAMILIES)
    routes = [Route(Cidr(each, 0, 0), "eth0") for each in FAMILIES]
    lookups = []
    for mark, table, priority in ways:
        for each in FAMILIES:
            routes.append(Route(Cidr(each, 0, 0), "lo", table, "local"))
            lookups.append(Lookup(each, priority, table, mark))
    loopback = replace(LOOPBACK_LINK, addresses=(*LOOPBACK_LINK.addresses, Address(6, 6, 128)))
    links = (loopback, Link("eth0", addresses, route_localnet=localnet))
    return Host(links, tuple(routes), tuple(lookups), _listeners(row), assume=False)


def _listeners(row: Row) -> tuple[Listener, ...]:
    conduct, application = _conduct(row), row.variant.application
    settings = settings_of_row(row)
    inbound = range(settings.inbound_ports.first, settings.inbound_ports.last + 1)
    made = [
        Listener("sidecar", "tcp", port, row.family, None, conduct.transparent, conduct.uid, conduct.gid)
        for port in (*inbound, conduct.outbound_port)
    ]
    place = {"any": None, "pod": ADDRESSES["pod"][row.family], "loopback": ADDRESSES["loopback"][row.family]}
    host = place[application.listens]
    number = None if host is None else _number(host)
    return (*made, *(Listener("application", "tcp", port, row.family, number) for port in application.ports))


def _conduct(row: Row) -> Conduct:
    settings, family = settings_of_row(row), row.family
    loopback = settings.dials == "loopback"
    kept = settings.original_source
    return Conduct(
        uid=settings.uid or 0,
        gid=settings.gid or 0,
        inbound_port=settings.inbound_ports.first,
        outbound_port=settings.outbound_port,
        transparent=settings.transparent,
        dials=(_number(ADDRESSES["loopback"][family]), 80) if loopback else None,
        bind=None if kept or loopback else _number(settings.passthrough(family)),
        spoofs=kept,
        mark=settings.inbound_mark if kept else 0,
    )


def _number(host: str) -> int:
    return read_address(host)[1]
