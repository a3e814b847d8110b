"""What a scenario is: the pod as it is set up, the steps that are taken in it, and what each of them should show.

A scenario has variants (one difference each, such as the mode), and each is run on its backends and families: a row
is one such run, in places of its own. Whatever a step shows is one word: the address that the application saw, or
how the call ended; with ``through`` also which listeners of the sidecar it passed.
"""

from __future__ import annotations

from meshnet.lab.topology import ADDRESSES, Plan
from meshnet.model.errors import Wrong
from meshnet.model.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    from meshnet.model.cidr import Family
    from meshnet.sidecar.envoy import Carries, Declared

    Verb = Literal["call", "hold", "ask", "stray", "dns", "ports", "apply", "remove", "pin", "members"]
    SidecarKind = Literal["embedded", "envoy", "none"]
    ApplicationKind = Literal["echo", "nginx", "zookeeper", "none"]
    Listens = Literal["any", "pod", "loopback"]
    LabBackend = Literal["iptables-legacy", "iptables-nft", "nftables"]
    Through = Literal["", "direct", "inbound", "outbound", "both", "dns"]

APPLICATION_ID = 1000
LOOP = "loop"
MOST = 500
"""More connections than this, taken by the sidecar for one call, are a loop; its bound of open ones lies above."""


@value
class Sidecar:
    """``uid`` and ``gid`` of None are those of the spec. ``keeps`` of None is what the spec says of the source."""

    kind: SidecarKind = "envoy"
    declared: tuple[Declared, ...] = ()
    dials: Literal["original", "loopback"] = "original"
    carries: Carries = "nothing"
    uid: int | None = None
    gid: int | None = None
    keeps: bool | None = None


@value
class Application:
    """``ports`` are TCP. ``uid`` of None is as started, which is all that there is without root."""

    kind: ApplicationKind = "echo"
    ports: tuple[int, ...] = (80,)
    listens: Listens = "any"
    behind: Carries = "nothing"
    uid: int | None = APPLICATION_ID


@value
class Step:
    """One thing that is done. ``sees`` is a place's name, whose address the row's family decides, or another word."""

    label: str
    verb: Verb
    sees: str = ""
    through: Through = ""
    origin: str = "client"
    target: str = "pod"
    port: int = 80
    ports: tuple[int, ...] = ()
    uid: int | None = None
    held: str = ""
    transport: Literal["tcp", "udp"] = "tcp"
    source_port: int = 0

    def expected(self, family: Family) -> str:
        """The word that this step should show."""
        seen = ADDRESSES[self.sees][family] if self.sees in ADDRESSES else self.sees
        return f"{seen}, {self.through}" if self.through else seen


@value
class Foreign:
    """Somebody else's rule set, as saved, with the policy routing it has, and what its sidecar does beside it."""

    text: str
    policy_routing: bool = True
    route_localnet: bool = False
    mode: Literal["redirect", "tproxy"] = "tproxy"
    mark: int = 0


@value
class Variant:
    """One way to set the pod up: by a spec (its text), by somebody's rules, or by neither."""

    name: str = ""
    spec: str = ""
    rules: Foreign | None = None
    applied: bool = True
    sidecar: Sidecar = Sidecar()
    application: Application = Application()
    sysctls: tuple[tuple[str, int], ...] = ()
    families: tuple[Family, ...] = (4, 6)
    backends: tuple[LabBackend, ...] = ("iptables-legacy", "iptables-nft", "nftables")
    steps: tuple[Step, ...] = ()

    def __post_init__(self) -> None:
        if self.spec and self.rules is not None:
            raise Wrong("a spec and a rule set at once", "one of them")
        labels = [step.label for step in self.steps]
        if len(set(labels)) != len(labels):
            raise Wrong("two steps of one name", "a name of its own for each")


@value
class Scenario:
    name: str
    about: str
    symptom: str
    cure: str
    variants: tuple[Variant, ...]
    plan: Plan = Plan()

    @property
    def rows(self) -> tuple[Row, ...]:
        return tuple(
            Row(self, variant, family, backend)
            for variant in self.variants
            for backend in variant.backends
            for family in variant.families
        )

    @property
    def needs(self) -> frozenset[str]:
        """What has to be installed, or be granted: ``envoy``, ``nginx``, ``zookeeper``, ``ids`` (of other users)."""
        found: set[str] = set()
        for variant in self.variants:
            found |= {variant.sidecar.kind, variant.application.kind} & {"envoy", "nginx", "zookeeper"}
            if variant.application.uid is not None or variant.sidecar.uid is not None:
                found.add("ids")
        return frozenset(found)


@value
class Row:
    """One run: a variant on one backend in one family."""

    scenario: Scenario
    variant: Variant
    family: Family
    backend: LabBackend

    @property
    def name(self) -> str:
        """Unique in its scenario. Somebody else's rule set has one backend and family, and no words for them."""
        variant = self.variant
        where = [] if variant.rules is not None else [self.backend.removeprefix("iptables-"), f"ipv{self.family}"]
        if not variant.spec and not variant.rules:
            where = where[1:]
        return " ".join(filter(None, (variant.name, *where)))

    @property
    def expected(self) -> dict[str, str]:
        return {step.label: step.expected(self.family) for step in self.variant.steps if step.sees}
