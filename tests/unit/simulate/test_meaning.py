"""The rules of a spec, walked, and the spec's meaning, told in sentences, say the same of every flow.

No kernel takes part: this is the third of three that have to agree, beside tests/netns/test_meaning*.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings

from meshnet.apply.reconcile import fresh_steps
from meshnet.compile.pipeline import compile_spec
from meshnet.compile.resolve import resolve
from meshnet.model.cidr import BITS, read_address, read_cidr
from meshnet.model.facts import Facts
from meshnet.model.flow import Flow
from meshnet.model.host import LOOPBACK_LINK, Address, Host, Link, Listener, Lookup, Route
from meshnet.model.story import Conduct
from meshnet.model.trace import Proxies
from meshnet.model.value import replace
from meshnet.parse.ruleset import read
from meshnet.probe.flows import probes
from meshnet.render.plan import render
from meshnet.simulate.conversation import converse
from meshnet.simulate.walk import Pod
from meshnet.spec.load import load_text
from tests.netns import pods
from tests.strategies import specs
from tests.unit.probe.scenes import RICH, scene, spec

if TYPE_CHECKING:
    from meshnet.model.program import Program
    from meshnet.model.spec import Spec

CASES = sorted(path for path in (Path(__file__).resolve().parents[2] / "cases").iterdir() if path.is_dir())
RESOLVERS = (read_cidr("10.96.0.10/32"), read_cidr("fd00:96::a/128"))
PLACES = {
    "client": pods.CLIENT,
    "pod": pods.POD,
    "second-client": pods.SECOND_CLIENT,
    "second-pod": pods.SECOND_POD,
    "guest": pods.GUEST,
    "guest-pod": pods.GUEST_POD,
    "remote": pods.REMOTE,
    "elsewhere": pods.ELSEWHERE,
    "resolver": pods.RESOLVER,
    "loopback": pods.LOOPBACK,
    "passthrough": pods.PASSTHROUGH,
}


def rules_of(program: Program) -> list[Any]:
    steps = fresh_steps(render(program))
    return [
        read("".join(step.text for step in steps if (step.tool, step.family) == ("restore", family)), family)
        for family in program.families
    ]


def pod_of(program: Program, spec: Spec, links: list[Link], **more: Any) -> Pod:
    loopback = [
        Address(item.address.family, item.address.network, BITS[item.address.family])
        for item in program.loopback_addresses
    ]
    host = Host(
        (replace(LOOPBACK_LINK, addresses=(*LOOPBACK_LINK.addresses, *loopback)), *links),
        (
            *(Route(read_cidr(block), links[0].name) for block in ("0.0.0.0/0", "::/0")),
            *(Route(route.block, "lo", route.table, "local") for route in program.local_routes),
        ),
        tuple(Lookup(rule.family, 109, rule.table, rule.mark) for rule in program.policy_rules),
        forwards=(4, 6),
        **more,
    )
    return Pod(rules_of(program), host, Proxies(spec.inbound.port, spec.outbound.port, spec.dns.port))


def disagreements(wanted: Spec) -> list[str]:
    facts = Facts(resolvers=RESOLVERS)
    settled, families = resolve(wanted, facts)
    names = [*settled.interfaces.exclude, *settled.interfaces.guest]
    where = scene(
        *(name.rstrip("+") + "0" if name.endswith("+") else name for name in names if name != "lo"), families=families
    )
    links = [
        Link(lane.interface, tuple(Address(family, lane.pod[family], 24 if family == 4 else 64) for family in (4, 6)))
        for lane in where.lanes
    ]
    pod = pod_of(compile_spec(wanted, facts), settled, links)
    wrong = []
    for probe in probes(settled, where):
        if probe.lane and probe.flow.way == "out":
            continue  # which link a far address is behind is the prober's own doing
        flow = replace(probe.flow, transparent=True, groups=())
        found = pod.walk(flow)
        if found.disposition != probe.predicted.disposition:
            wrong.append(
                f"{probe.name}: {flow}: {found.disposition} ({found.reason}), not {probe.predicted.disposition}"
            )
    return wrong


@pytest.mark.parametrize("text", ["", RICH, "inbound: {mode: redirect}\n", "inbound: {mode: none}\n"])
def test_walks_and_meaning_agree(text: str) -> None:
    assert disagreements(spec(text)) == []


def test_walks_and_meaning_agree_on_any_spec() -> None:
    @settings(max_examples=60, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    @given(specs())
    def each(wanted: Spec) -> None:
        assert disagreements(wanted) == []

    each()


def test_a_wrong_rule_is_noticed() -> None:
    """The test itself can fail: rules of another spec don't do what this one says."""
    wanted, other = spec("inbound: {mode: redirect}\n"), spec("inbound: {mode: none}\n")
    settled, _ = resolve(wanted, Facts())
    link = Link("mnprobe0", tuple(Address(f, scene().main.pod[f], 24 if f == 4 else 64) for f in (4, 6)))
    pod = pod_of(compile_spec(other, Facts()), settled, [link])
    found = [
        (pod.walk(replace(p.flow, transparent=True)).disposition, p.predicted.disposition)
        for p in probes(settled, scene())
    ]
    assert any(one != two for one, two in found)


def case_pod(case: Path) -> tuple[Pod, Spec]:
    table = yaml.safe_load((case / "flows.yaml").read_text())
    document = load_text((case / "spec.yaml").read_text(), "spec.yaml")
    facts = Facts(resolvers=(read_cidr(pods.RESOLVER[4]), read_cidr(pods.RESOLVER[6])))
    settled, _ = resolve(document.spec, facts)
    cables = {"eth0": pods.POD}
    for extra in table.get("setup", ()):
        cables |= {"eth1": pods.SECOND_POD} if extra == "second" else {"vm0": pods.GUEST_POD}
    links = [
        Link(name, tuple(Address(f, read_address(ends[f])[1], 24 if f == 4 else 64) for f in (4, 6)))
        for name, ends in cables.items()
    ]
    listeners = (
        Listener("inbound-proxy", "tcp", 15006, transparent=True),
        Listener("outbound-proxy", "tcp", 15001),
        Listener("dns-proxy", "tcp", 15053),
        Listener("dns-proxy", "udp", 15053, transparent=True),
    )
    return pod_of(compile_spec(document.spec, facts), settled, links, listeners=listeners), settled


AT_CLIENT = ("client", "remote", "elsewhere", "resolver")
"""What the client calls there never comes to the pod."""


def flows_of(case: Path) -> list[tuple[dict[str, Any], int]]:
    table = yaml.safe_load((case / "flows.yaml").read_text())
    flows = [flow for flow in table["flows"] if flow["from"] != "client" or flow["to"] not in AT_CLIENT]
    return [(flow, family) for flow in flows for family in flow.get("families", (4, 6))]


def ends_of(flow: dict[str, Any], family: int, pod: Pod) -> Flow:
    def number(word: str) -> int:
        return read_address(PLACES[word][family] if word in PLACES else word)[1]

    destination = number(flow["to"])
    if flow["from"] != "pod":
        caller = "second-client" if flow["to"] == "second-pod" else flow["from"]
        link = {"second-client": "eth1", "guest": "vm0"}.get(caller, "eth0")
        source = number(flow.get("source") or caller)
        return Flow("in", family, flow.get("transport", "tcp"), source, destination, flow["port"], link)
    found = pod.routing(family).find(destination, 0, flow.get("mark", 0), "lo", uid=flow.get("uid", 0))
    link = next((link for link in pod.host.links if found and link.name == found.link), None)
    own = destination if found is None or found.kind == "local" else (link.first(family) if link else 0)
    source = number(flow["source"]) if "source" in flow else own
    ids = flow.get("uid", 0), flow.get("gid", 0), flow.get("mark", 0)
    return Flow(
        "out", family, flow.get("transport", "tcp"), source, destination, flow["port"], "", *ids, transparent=True
    )


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.name)
def test_the_cases_flows_land_where_their_table_says(case: Path) -> None:
    pod, _ = case_pod(case)
    wrong = []
    for flow, family in flows_of(case):
        sent = ends_of(flow, family, pod)
        trace = pod.walk(sent)
        lands = trace.socket or ("remote" if trace.end in ("left", "forwarded") else trace.reason)
        seen = flow.get("seen-as")
        expected = read_address(PLACES[seen][family] if seen in PLACES else seen)[1] if seen else trace.source
        if (lands or "application", trace.source) != (flow["lands"], expected):
            wrong.append(f"IPv{family} {flow}: {lands} ({trace.reason})")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("mode", ["tproxy", "redirect"])
@pytest.mark.parametrize("family", [4, 6])
@pytest.mark.parametrize("original", [True, False])
def test_a_whole_conversation_under_a_spec(mode: str, family: int, original: bool) -> None:
    """The application sees its client, or the passthrough address, whichever way its sidecar was called."""
    wanted = spec(f"inbound: {{mode: {mode}, originalSource: {str(original).lower()}}}\n")
    link = Link("eth0", tuple(Address(f, read_address(pods.POD[f])[1], 24 if f == 4 else 64) for f in (4, 6)))
    pod = pod_of(compile_spec(wanted, Facts()), wanted, [link], listeners=(
        Listener("sidecar", "tcp", 15006, transparent=True, uid=1337, gid=1337),
        Listener("sidecar", "tcp", 15001, uid=1337, gid=1337),
    ))  # fmt: skip
    client, there = (read_address(ends[family])[1] for ends in (pods.CLIENT, pods.POD))
    passthrough = read_address(pods.PASSTHROUGH[family])[1]
    conduct = Conduct(spoofs=original, mark=0x539 if original else 0, bind=None if original else passthrough)
    story = converse(pod, Flow("in", family, "tcp", client, there, 80, "eth0"), conduct)
    assert (story.disposition, story.app_sees) == ("inbound-proxy", client if original else passthrough), story.sentence
    out = Flow("out", family, "tcp", there, read_address(pods.REMOTE[family])[1], 443, "eth0", 1000, 1000)
    story = converse(pod, out, conduct)
    assert (story.disposition, story.app_sees) == ("outbound-proxy", None), story.sentence
    assert "reaches the server" in story.sentence
