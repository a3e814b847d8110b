"""One row's pod, alive: its places, rules, application and sidecar, and what is watched meanwhile."""

from __future__ import annotations

import contextlib
import json
import sys

from meshnet.apply.session import Session
from meshnet.kernel import links
from meshnet.kernel.netns import Where
from meshnet.kernel.xtables import Xtables
from meshnet.lab import servers
from meshnet.lab.capture import Capture
from meshnet.lab.evidence import Moment, counters, moment
from meshnet.lab.process import Child, start, start_application
from meshnet.lab.servers import Counts
from meshnet.lab.topology import ADDRESSES, FAMILIES, Topology, address, batch
from meshnet.model.value import replace
from meshnet.sidecar.config import Settings, settings_of
from meshnet.sidecar.envoy import Envoy
from meshnet.spec.load import load_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from meshnet.kernel.netns import Namespace
    from meshnet.lab.calls import Call
    from meshnet.lab.capture import Frame
    from meshnet.lab.scenario import Row
    from meshnet.model.cidr import Family
    from meshnet.model.spec import Spec

SEGMENT_SIZES = (1386, 1387)
"""Announced by the sidecar's inbound and outbound listeners: a SYN-ACK in a capture says who answered."""

OPEN_MOST = 600
"""Open connections of a sidecar: above what counts as a loop, and far below what would trouble the machine."""

DIAL_SECONDS = 1.0
MEASURED_PORTS = (15006, 15001)


class World:
    """A context manager: inside, everything of the row runs. Errors: ToolError and others of the servers.

    ``prefix`` gives the places names; unwatched, no packets are kept.
    """

    def __init__(self, row: Row, *, prefix: str = "", watched: bool = True) -> None:
        self.row = row
        self.variant = row.variant
        self.spec: Spec | None = load_text(self.variant.spec, "spec").spec if self.variant.spec else None
        self.topology = Topology(row.scenario.plan, prefix)
        self.sidecars: dict[str, servers.Sidecar] = {}
        self.applications: dict[str, Child] = {}
        self.held: dict[str, Call] = {}
        self.moments: list[Moment] = []
        self.frames: list[Frame] = []
        self.captures: dict[str, Capture] = {}
        self.begun: list[tuple[int, str]] = []
        self._watched = watched
        self._stack = contextlib.ExitStack()

    @property
    def family(self) -> Family:
        return self.row.family

    @property
    def pods(self) -> tuple[str, ...]:
        """Where the rules go and a sidecar runs: all pods of an ensemble, else the pod alone."""
        if self.variant.application.kind == "zookeeper":
            return ("pod", "second-pod", "third-pod")
        return ("pod",)

    def __enter__(self) -> World:
        try:
            self._stack.enter_context(self.topology)
            self._stack.callback(self._let_go)
            interfaces = ("eth0", "lo", *(("eth1",) if self.row.scenario.plan.second_card else ()))
            if self._watched:
                self.captures["pod"] = self._stack.enter_context(Capture(self.topology.pod, interfaces))
            self._prepare()
            for pod in self.pods:
                if self.variant.applied:
                    self.apply(pod)
            if self.variant.application.kind in ("echo", "nginx"):
                self._applications()
            for pod in self.pods:
                self._sidecar(pod)
            if {step.target for step in self.variant.steps} & {"remote", "client", "client-second"}:
                outside = start_application(self.topology.client, port=80)
                self.applications["application outside"] = self._stack.enter_context(outside)
            if any(step.verb == "dns" for step in self.variant.steps):
                self._resolvers()
            for capture in self.captures.values():
                capture.taken()  # what the servers said to each other while they started
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for child in self.applications.values():  # a Java machine takes 0.4 s to end
            child.ask_to_end()
        self._stack.close()

    def place(self, name: str) -> Namespace:
        """The namespace of a place, or of the place whose second card it is."""
        return self.topology[name.removesuffix("-second") if name.endswith("-second") else name]

    def apply(self, pod: str = "pod") -> None:
        """Put the variant's rules into a pod: a spec's through a session, somebody's as they are."""
        if self.spec is not None:
            with self._session(pod) as session:
                session.apply(self.spec)
        elif self.variant.rules is not None:
            with self.topology[pod].entered():
                Xtables("legacy").restore(4, self.variant.rules.text)

    def remove(self, pod: str = "pod") -> None:
        with self._session(pod) as session:
            session.remove()

    def keep(self, child: Child) -> None:
        """Have a server that a step started ended with the rest."""
        self._stack.enter_context(child)

    def pin(self) -> None:
        """Somebody else's rule that needs connection tracking and a nat table, and does nothing."""
        text = "*nat\n-A POSTROUTING -m conntrack --ctstate RELATED\nCOMMIT\n"
        with self.topology.pod.entered():
            Xtables("legacy" if self.row.backend == "iptables-legacy" else "nft").restore(self.family, text)

    def counts(self) -> Counts:
        """What the pod's sidecar counted so far."""
        sidecar = self.sidecars.get("pod")
        return sidecar.counts() if sidecar is not None else Counts()

    def look(self) -> None:
        """Keep what the pod's kernel holds now."""
        self.moments.append(moment(self.topology.pod))

    def watch(self) -> list[Frame]:
        """Everything that was captured in the pod so far."""
        if "pod" in self.captures:
            self.frames += self.captures["pod"].taken()
        return self.frames

    def counters(self) -> tuple[str, ...]:
        return counters(self.topology.pod, self.row.backend, self.family)

    def access_log(self) -> list[str]:
        """The lines of nginx' access log; none of another application's."""
        if self.variant.application.kind != "nginx":
            return []
        text = "".join(servers.file_of(child, servers.ACCESS_LOG) for child in self.applications.values())
        return text.splitlines()

    def logs(self) -> dict[str, str]:
        """What the servers said so far."""
        sidecars = {f"sidecar in {place}": sidecar.child.stderr for place, sidecar in self.sidecars.items()}
        return {**sidecars, **{place: child.stderr for place, child in self.applications.items()}}

    def settings(self) -> Settings:
        """What the row's sidecar is told."""
        return settings_of_row(self.row)

    def _session(self, pod: str) -> Session:
        return Session(Where("path", f"/proc/self/fd/{self.topology[pod].fd}"), self.row.backend)

    def _prepare(self) -> None:
        rules = self.variant.rules
        pod = self.topology.pod
        if rules is not None:
            links.sysctl(pod, "net/ipv4/conf/eth0/route_localnet", int(rules.route_localnet))
            if rules.policy_routing:
                lines = ["rule add fwmark 1337 lookup 133", "route add local 0.0.0.0/0 dev lo table 133"]
                batch(pod, lines)
        for key, number in self.variant.sysctls:
            links.sysctl(pod, key, number)
        if any(step.target == "service" for step in self.variant.steps):
            self._service()

    def _service(self) -> None:
        """A service's address on the node, as kube-proxy makes it: to the pod, and masqueraded for the pod itself."""
        for family in FAMILIES:
            pod, service = address("pod", family), address("service", family)
            target = f"{pod}:80" if family == 4 else f"[{pod}]:80"
            text = (
                f"*nat\n-A PREROUTING -d {service} -p tcp --dport 80 -j DNAT --to-destination {target}\n"
                f"-A POSTROUTING -s {pod} -d {pod} -j MASQUERADE\nCOMMIT\n"
            )
            with self.topology["node"].entered():
                Xtables("legacy").restore(family, text)

    def _applications(self) -> None:
        wanted = self.variant.application
        for port in wanted.ports:
            if wanted.kind == "nginx":
                trusted = ("127.0.0.6", "::6", "127.0.0.1", "::1")
                child = servers.nginx(
                    self.topology.pod, port=port, uid=wanted.uid, gid=wanted.uid, behind=wanted.behind, trusted=trusted
                )
            else:
                hosts = {"any": [], "pod": list(ADDRESSES["pod"].values()), "loopback": ["127.0.0.1", "::1"]}
                child = start_application(
                    self.topology.pod, port=port, uid=wanted.uid, gid=wanted.uid, hosts=hosts[wanted.listens]
                )
            self.applications[f"application on {port}"] = self._stack.enter_context(child)

    def _sidecar(self, pod: str) -> None:
        wanted = self.variant.sidecar
        if wanted.kind == "none":
            return
        settings = self.settings()
        if wanted.kind == "embedded":
            made = servers.embedded(settings, self.topology[pod])
        else:
            told = Envoy(settings, wanted.declared, wanted.carries, servers.ADMIN, servers.ACCESS_LOG, OPEN_MOST)
            made = servers.envoy(told, self.topology[pod])
        self.sidecars[pod] = self._stack.enter_context(made)

    def _resolvers(self) -> None:
        uid = self.settings().uid
        outside = list(ADDRESSES["resolver"].values())
        for name, place, port, hosts, owner in (
            ("dns-proxy", "pod", 15053, ["0.0.0.0", "::"], uid),  # noqa: S104
            ("upstream", "client", 53, outside, None),
        ):
            told = json.dumps({"name": name, "port": port, "hosts": hosts, "uid": owner})
            command = [sys.executable, "-m", "meshnet.lab.resolver", told]
            self.applications[name] = self._stack.enter_context(start(name, command, self.topology[place]))

    def _let_go(self) -> None:
        for call in self.held.values():
            call.close()


def settings_of_row(row: Row) -> Settings:
    """What a row's sidecar is told: as its spec says, or as a rule set's sidecar behaved, in the lab's bounds."""
    variant, wanted = row.variant, row.variant.sidecar
    if variant.spec:
        spec = load_text(variant.spec, "spec").spec
        families: tuple[Family, ...] = FAMILIES if spec.families == "auto" else spec.families
        made = settings_of(spec, families)
    elif variant.rules is not None:
        made = Settings(inbound_mode=variant.rules.mode, inbound_mark=variant.rules.mark, families=(4,))
    else:
        made = Settings()
    identity = {key: given for key, given in (("uid", wanted.uid), ("gid", wanted.gid)) if given is not None}
    kept = made.original_source if wanted.keeps is None else wanted.keeps
    bounds = {"connections": OPEN_MOST, "connect_seconds": DIAL_SECONDS, "segment_sizes": SEGMENT_SIZES}
    return replace(made, original_source=kept, dials=wanted.dials, **identity, **bounds)
