"""What a simulator predicts for each measurement of a scenario.

Two calls are followed, since a pod has both: the client's, and that of an ordinary process in the pod to the pod's
own address, as a readiness check makes it. The second never leaves by a link, so its answers can't get lost, and a
sidecar that dials the address it was called at may meet itself there and nowhere else. A loop in either is a loop.
"""

from __future__ import annotations

from meshnet.model.cidr import Cidr, address_text
from meshnet.model.flow import Flow
from meshnet.model.host import LOOPBACK_LINK, Address, Host, Link, Listener, Lookup, Route
from meshnet.model.value import replace, value
from meshnet.simulate.conversation import converse
from meshnet.simulate.walk import Pod

TYPE_CHECKING = False
if TYPE_CHECKING:
    from meshnet.model.ruleset import RuleSet
    from meshnet.model.scenario import Case, Measurement, Topology
    from meshnet.model.story import Conduct, Story

RULE_PRIORITY = 32765
"""What ``ip rule add`` takes by itself: the one ahead of ``main``."""


@value
class Predicted:
    """``outcome`` is in the words of the measurement; ``by_itself`` that it is the pod's own call that loops."""

    outcome: str
    story: Story
    by_itself: bool = False


def predict(topology: Topology, case: Case, measurement: Measurement, rules: RuleSet) -> Predicted:
    conduct = replace(case.conduct, uid=measurement.proxy_uid)
    pod = Pod([rules], host_of(topology, case, measurement, conduct))
    port = topology.application_port
    story = converse(pod, Flow("in", 4, "tcp", topology.client, topology.pod, port, "eth0"), conduct)
    if story.disposition != "loop":
        own = Flow("out", 4, "tcp", topology.pod, topology.pod, port, "lo", 0, 0)
        check = converse(pod, own, conduct)
        if check.disposition == "loop":
            return Predicted("loop", check, by_itself=True)
    return Predicted(_outcome(story), story)


def _outcome(story: Story) -> str:
    if story.disposition == "loop":
        return "loop"
    return "reset" if story.app_sees is None else address_text(4, story.app_sees)


def host_of(topology: Topology, case: Case, measurement: Measurement, conduct: Conduct) -> Host:
    """The namespace of a measurement."""
    everything = Cidr(4, 0, 0)
    eth0 = Link("eth0", (Address(4, topology.pod, topology.prefix),), route_localnet=measurement.route_localnet)
    routes = [Route(everything, "eth0")]
    lookups = []
    if case.policy_routing:
        routes.append(Route(everything, "lo", topology.table, "local"))
        lookups.append(Lookup(4, RULE_PRIORITY, topology.table, topology.mark))
    sidecar = (
        Listener("sidecar", "tcp", port, 4, None, conduct.transparent, conduct.uid, conduct.gid)
        for port in (conduct.inbound_port, conduct.outbound_port)
    )
    application = Listener("application", "tcp", topology.application_port, 4)
    return Host((LOOPBACK_LINK, eth0), tuple(routes), tuple(lookups), (application, *sidecar), assume=False)
