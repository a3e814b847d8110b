"""A pod under test: its client, its rules, its servers, and what becomes of a call.

Everything is in network namespaces without a name, so that nothing is left of a test, however it ended.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Literal

from meshnet.apply.session import Session
from meshnet.kernel.netns import Where
from meshnet.lab import predict, servers
from meshnet.lab.calls import Call
from meshnet.lab.calls import Where as From
from meshnet.lab.capture import Capture
from meshnet.lab.installed import has_envoy
from meshnet.lab.process import start_application
from meshnet.lab.scenario import APPLICATION_ID, Application, Row, Scenario, Sidecar, Step, Variant
from meshnet.lab.steps import through
from meshnet.lab.story import Told, story
from meshnet.lab.topology import ADDRESSES, Plan, Topology
from meshnet.lab.world import DIAL_SECONDS, OPEN_MOST, SEGMENT_SIZES
from meshnet.model.cidr import address_text
from meshnet.model.errors import MeshnetError, UsageError
from meshnet.model.value import replace, value
from meshnet.sidecar.config import settings_of
from meshnet.sidecar.envoy import Envoy
from meshnet.spec.dump import to_yaml
from meshnet.spec.load import load_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from meshnet.kernel.netns import Namespace
    from meshnet.lab.scenario import LabBackend, SidecarKind
    from meshnet.lab.servers import Counts
    from meshnet.lab.story import Arrow
    from meshnet.model.cidr import Family
    from meshnet.model.spec import Spec
    from meshnet.model.trace import Trace

Who = Literal["inbound-proxy", "outbound-proxy", "direct", "loop", "nobody"]
CAPTURING: tuple[Who, ...] = ("inbound-proxy", "outbound-proxy")
HEAD = "apiVersion: meshnet/v1\nkind: Interception\n"
UNANSWERED = ("reset", "refused", "timeout", "unreachable")


@value
class Answered:
    """What became of a call: who answered, whom the application saw, what the sidecar counted, which packets passed."""

    who: Who
    saw: str
    counts: Counts
    arrows: tuple[Arrow, ...]


def from_client(port: int = 80, *, family: Family = 4) -> tuple[Family, Step]:
    """A flow from the client to a port of the pod."""
    return family, Step("call", "call", port=port)


def from_pod(
    to: str = "remote", port: int = 80, *, uid: int = APPLICATION_ID, family: Family = 4
) -> tuple[Family, Step]:
    """A flow from a process of a user in the pod; ``to`` is ``remote``, ``client``, ``pod`` or ``loopback``."""
    if to not in ("remote", "client", "pod", "loopback"):
        raise UsageError(f"a pod calls nobody of this name ({to})", hint="remote, client, pod or loopback")
    return family, Step("call", "call", origin="pod", target=to, port=port, uid=uid)


class Pod:
    """A client and a pod on one cable, both families. A context manager; ``addresses`` says who has which."""

    addresses = ADDRESSES

    def __init__(self, backend: LabBackend = "iptables-nft") -> None:
        self.backend: LabBackend = backend
        self.spec: Spec | None = None
        self.sidecar: servers.Sidecar | None = None
        self._ports: list[int] = []
        self._outside = False
        self._stack = contextlib.ExitStack()
        self._topology = Topology(Plan())

    def __enter__(self) -> Pod:
        try:
            self._stack.enter_context(self._topology)
            self._capture = self._stack.enter_context(Capture(self.namespace, ("eth0", "lo")))
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def namespace(self) -> Namespace:
        return self._topology.pod

    @property
    def client(self) -> Namespace:
        """The namespace of the client, which holds the rest of the world's addresses too."""
        return self._topology.client

    def apply(self, spec: str | Spec) -> None:
        """Make the pod do what a spec says: the text of a document, or of its fields alone, or a Spec. SpecError."""
        try:
            self.spec = _read(spec) if isinstance(spec, str) else spec
            with self._session() as session:
                session.apply(self.spec)
        except MeshnetError as error:
            error.add_note("\n".join(error.lines()))  # pytest shows it; the message alone says how many problems
            raise

    def remove(self) -> None:
        """Take the rules away again."""
        with self._session() as session:
            session.remove()
        self.spec = None

    def start_application(self, port: int = 80, *, uid: int | None = APPLICATION_ID) -> None:
        """The HTTP application that names its peer, on a port of the pod."""
        self._stack.enter_context(start_application(self.namespace, port=port, uid=uid, gid=uid))
        self._ports.append(port)

    def start_sidecar(self, kind: Literal["auto", "envoy", "embedded"] = "auto") -> servers.Sidecar:
        """The sidecar of the applied spec; ``auto`` is Envoy where it is installed. UsageError, ToolError."""
        if self.spec is None:
            raise UsageError("a sidecar ahead of its spec", hint="pod.apply(spec) first")
        families: tuple[Family, ...] = (4, 6) if self.spec.families == "auto" else self.spec.families
        settings = replace(
            settings_of(self.spec, families),
            connections=OPEN_MOST,
            connect_seconds=DIAL_SECONDS,
            segment_sizes=SEGMENT_SIZES,
        )
        if kind == "envoy" or (kind == "auto" and has_envoy()):
            made = servers.envoy(Envoy(settings, admin=servers.ADMIN, connections=OPEN_MOST), self.namespace)
        else:
            made = servers.embedded(settings, self.namespace)
        self.sidecar = self._stack.enter_context(made)
        return self.sidecar

    def who_answers(self, flow: tuple[Family, Step]) -> Who:
        """Who answers a call: the sidecar's inbound or outbound side, nobody's (``direct``), or ``nobody``."""
        return self.call(flow).who

    def call(self, flow: tuple[Family, Step]) -> Answered:
        """Make a call and tell everything of it."""
        family, step = flow
        if step.target in ("remote", "client") and not self._outside:
            self._stack.enter_context(start_application(self.client, port=80))
            self._outside = True
        before = self.sidecar.counts() if self.sidecar is not None else servers.Counts()
        origin = self.namespace if step.origin == "pod" else self.client
        where = From(origin, family, ADDRESSES[step.target][family], step.port, step.uid)
        self._capture.taken()
        with Call(where) as made:
            saw = made.connect() or made.ask(last=True)
        told = Told(SEGMENT_SIZES, has_sidecar=self.sidecar is not None)
        arrows, _ = story(self._capture.taken(), told)
        counts = (self.sidecar.counts() if self.sidecar is not None else servers.Counts()).since(before)
        return Answered(_who(saw, counts), saw, counts, tuple(arrows))

    def assert_app_sees(self, address: str, flow: tuple[Family, Step] | None = None) -> None:
        """The application sees this address, or that of a place by its name (``client``, ``passthrough``, …)."""
        given = flow or from_client()
        expected = ADDRESSES[address][given[0]] if address in ADDRESSES else address
        answered = self.call(given)
        if answered.saw != expected:
            self._fail(f"the application sees {answered.saw}, not {expected}", given, answered)

    def assert_captured(self, flow: tuple[Family, Step], by: Who | None = None) -> None:
        """The sidecar gets this call; ``by`` says which side of it."""
        if by not in (None, *CAPTURING):
            raise UsageError(f"nothing of this name captures ({by})", hint=" or ".join(CAPTURING))
        answered = self.call(flow)
        wanted = (by,) if by is not None else CAPTURING
        if answered.who not in wanted:
            self._fail(f"answered by {answered.who}, not by {' or '.join(wanted)}", flow, answered)

    def assert_direct(self, flow: tuple[Family, Step]) -> None:
        """Nobody takes this call on its way."""
        answered = self.call(flow)
        if answered.who != "direct":
            self._fail(f"answered by {answered.who}, not directly", flow, answered)

    def _fail(self, what: str, flow: tuple[Family, Step], answered: Answered) -> None:
        lines = [what, "", "expected by the simulator:", *self._expected(flow), "", "seen:", *_seen(answered)]
        raise AssertionError("\n".join(lines))

    def _expected(self, flow: tuple[Family, Step]) -> list[str]:
        family, step = flow
        row = self._row(family, step)
        story_told = predict.told(row, step)
        if story_told is not None:
            saw = "" if story_told.app_sees is None else f"; it sees {address_text(family, story_told.app_sees)}"
            made = [f"  {story_told.sentence}{saw}"]
            for item in story_told.steps:
                made += [f"  {item.title}", *_hops(item.trace)]
            return made
        trace = predict.trace(row, step)
        return ["  the simulator has no word on this call"] if trace is None else [*_hops(trace), f"  {trace.reason}"]

    def _row(self, family: Family, step: Step) -> Row:
        kind: SidecarKind = "none" if self.sidecar is None else "envoy" if self.sidecar.kind == "envoy" else "embedded"
        variant = Variant(
            spec=to_yaml(self.spec) if self.spec is not None else "",
            sidecar=Sidecar(kind),
            application=Application(ports=tuple(self._ports) or (80,)),
            steps=(step,),
        )
        return Row(Scenario("test", "", "", "", (variant,)), variant, family, self.backend)

    def _session(self) -> Session:
        return Session(Where("path", f"/proc/self/fd/{self.namespace.fd}"), self.backend)


def _read(text: str) -> Spec:
    return load_text(text if "apiVersion" in text else HEAD + text, "spec").spec


def _who(saw: str, counts: Counts) -> Who:
    if counts.loops:
        return "loop"
    way = through(counts)
    if way != "direct":
        return "inbound-proxy" if way == "inbound" else "outbound-proxy"
    return "nobody" if saw in UNANSWERED else "direct"


def _hops(trace: Trace) -> list[str]:
    made = []
    for hop in trace.hops:
        where = f"{hop.table} {hop.chain}:{hop.number}" if hop.number else hop.chain
        comment = f" ({hop.rule.comment})" if hop.rule is not None and hop.rule.comment else ""
        made.append(f"    {hop.hook:<12} {where:<32} {hop.verdict}{comment}")
    return made


def _seen(answered: Answered) -> Sequence[str]:
    counts = answered.counts
    lines = [f"  {item.at:9.3f} ms  {item.interface:<5} {item.source} > {item.target}  {item.text}" +
             (f"   <-- {item.wrong}" if item.wrong else "") for item in answered.arrows]  # fmt: skip
    return [*lines, f"  the sidecar counted {counts.inbound} inbound and {counts.outbound} outbound connections"]
