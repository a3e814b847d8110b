"""A scenario: a client, a pod with a sidecar, a rule set, and what was measured there."""

from __future__ import annotations

from meshnet.model.marks import Mark
from meshnet.model.story import Conduct
from meshnet.model.value import value


@value
class Topology:
    """One client and one pod on one network; ``mark`` leads to ``table``, where everything is local."""

    client: int
    pod: int
    prefix: int
    application_port: int
    mark: Mark
    table: int


@value
class Measurement:
    proxy_uid: int
    route_localnet: bool
    outcome: str


@value
class Case:
    """``rules`` is the name of a file of iptables-save text beside the scenario's own."""

    name: str
    about: str
    rules: str
    policy_routing: bool
    conduct: Conduct
    measured: tuple[Measurement, ...]


@value
class Scenario:
    topology: Topology
    cases: tuple[Case, ...]
