"""One visit to a namespace: who may enter, which backend and families it speaks, and the work done there."""

from __future__ import annotations

from meshnet.kernel import detect, facts, ipsets, netns
from meshnet.kernel.xtables import Xtables
from meshnet.model import names
from meshnet.model.errors import BusyError, MeshnetError, UnsupportedError
from meshnet.model.plan import ChangeSet, Receipt
from meshnet.model.value import replace, value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import TracebackType
    from typing import Any, Literal

    from meshnet.apply.apply import Kept
    from meshnet.apply.counters import Counters
    from meshnet.apply.host import LiveHost
    from meshnet.apply.nft_host import NftHost
    from meshnet.kernel.detect import Backend, Evidence, Found
    from meshnet.kernel.netns import Namespace, Where
    from meshnet.kernel.ports import PacketFilter
    from meshnet.model.cidr import Family
    from meshnet.model.facts import Facts
    from meshnet.model.plan import Plan
    from meshnet.model.program import Program
    from meshnet.model.spec import Spec

    Asked = Literal["auto", "iptables-nft", "iptables-legacy", "libiptc", "nftables"]
    AnyHost = LiveHost | NftHost

LOCK_WAIT = 10.0
"""Seconds to wait for somebody else's work in the same namespace."""


@value
class Compiled:
    program: Program
    plan: Plan


class Session:
    """A context manager; inside, the calling thread is in the namespace and alone there among meshnet's processes.

    ``adopting``: what an istio-iptables run left counts as ours. ``traced``: each rule is preceded by one that logs.
    ``meanwhile`` is given the facts and called while the tools read, for whoever has work of his own to do.
    PermissionMissing, NamespaceError and BusyError on entering; UnsupportedError when no backend can be used.
    """

    def __init__(
        self,
        place: Where,
        backend: Asked = "auto",
        *,
        alone: bool = True,
        adopting: bool = False,
        traced: bool = False,
        meanwhile: Callable[[Facts], object] | None = None,
    ) -> None:
        # An init container has no CAP_SYS_ADMIN, and needs none to stay where it is.
        needed = ("CAP_NET_ADMIN",) if place.kind == "own" else ("CAP_NET_ADMIN", "CAP_SYS_ADMIN")
        netns.require_capabilities(needed, "changing the rules of a network namespace")
        self.place = place
        self._asked: Asked = backend
        self._adopting = adopting
        self._traced = traced
        self._meanwhile = meanwhile
        self._namespace = netns.open_namespace(place)
        self._held = netns.held(self._namespace, LOCK_WAIT) if alone else None
        self._entered = self._namespace.entered()
        self.notices: list[str] = []

    def __enter__(self) -> Session:
        try:
            if self._held is not None:
                self._held.__enter__()
            self._entered.__enter__()
            try:
                self._look()
            except BaseException:
                self.__exit__(None, None, None)
                raise
        except BaseException:
            self._namespace.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._entered.__exit__(kind, error, trace)
        if self._held is not None:
            self._held.__exit__(kind, error, trace)
        self._namespace.close()

    def _look(self) -> None:
        seen = detect.evidence(meanwhile=self._prepare)
        self.evidence: tuple[Evidence, ...] = seen
        self._tables = detect.own_tables()
        self.families: tuple[Family, ...] = tuple(
            item.family for item in seen if item.family == 4 or any(found.installed for found in item.found)
        )
        usable = [item for item in seen if item.family in self.families]
        if self._asked == "auto":
            choice = detect.choose(usable, self._tables)
            self.backend: Backend = choice.backend
            self.reason = choice.reason
        else:
            self.backend = self._asked
            self.reason = "asked for"
        if self._asked != "auto" or self.backend == "nftables":  # else the reason says it
            self.notices += [f"{line}: rules of ours may be in force there" for line in detect.unread(seen)]
        if self.backend == "nftables":
            self.families = (4, 6)
            self.host: AnyHost = self._nft_host(adopting=self._adopting)
            return
        seen_here = detect.texts(usable, self.backend)
        self.host = self._live_host(adapter(self.backend), self.families, seen_here, adopting=self._adopting)

    def _nft_host(self, *, adopting: bool) -> NftHost:
        from meshnet.apply.nft_host import NftHost

        return NftHost((4, 6), adopting=adopting)

    def _prepare(self) -> None:
        """What is needed next, while the tools read: loading the compiler takes as long as they do."""
        from meshnet.apply import apply, host
        from meshnet.compile.pipeline import compile_spec
        from meshnet.render.plan import render

        self.facts: Facts = facts.gather(self.place)
        self._program_of, self._plan_of = compile_spec, render
        self._work, self._live_host = apply, host.LiveHost
        if self._meanwhile is not None:
            self._meanwhile(self.facts)

    def compile(self, spec: Spec) -> Compiled:
        """The program and plan of a spec here; raises where IPv6 is needed and can't be had."""
        given = self.facts
        asked = spec.families != "auto" and 6 in spec.families
        if 6 not in self.families and (asked or (spec.families == "auto" and 6 in given.families)):
            if asked or given.global_ipv6:
                raise UnsupportedError(
                    ["ip6tables is missing, and this namespace speaks IPv6: its traffic would pass uncaptured"],
                    hint="apt-get install iptables, or list families: [ipv4] to leave IPv6 alone",
                )
            self.notices.append("IPv6 left out: ip6tables is missing, and no interface has a global IPv6 address")
            given = replace(given, families=(4,))
        return self._compiled(spec, given)

    def _compiled(self, spec: Spec, given: Facts) -> Compiled:
        # Profile istio writes chains of the original's names: those of an earlier run of the original are replaced.
        self.host.adopting = self._adopting or spec.profile == "istio"
        if spec.profile == "istio" and any(
            f":{names.AMBIENT_POD} " in one.text for it in self.evidence for one in it.found
        ):
            raise UnsupportedError(
                ["this pod is in Istio's ambient mode, whose agent has chains of the same names as profile istio"],
                hint="take the pod out of ambient mode first (istio.io/dataplane-mode: none)",
            )
        program = self._program_of(spec, given)
        sets = self._sets_for(program)
        return Compiled(program, self._plan_of(program, self.backend, traced=self._traced, sets=sets))

    def _sets_for(self, program: Program) -> bool:
        """Whether long lists may be sets: where there is no ipset, each entry is a rule, which is slow but the same."""
        from meshnet.render.iptables import long_lists

        if self.backend == "nftables" or not long_lists(program) or ipsets.installed():
            return True
        note = "ipset is missing, so each entry of a long list is a rule of its own: apt-get install ipset"
        if note not in self.notices:
            self.notices.append(note)
        return False

    def changes(self, spec: Spec) -> ChangeSet:
        """What ``apply`` would do, on another backend too that holds rules of ours."""
        plan = self.compile(spec).plan
        others = tuple(self._elsewhere())
        here = self._work.changes(self.host, plan, lambda before: self._tell_lost(before, others, plan))
        return _joined(here, tuple(self._work.rules_to_remove(host) for host in others))

    def apply(self, spec: Spec, *, anew: bool = False) -> Receipt:
        """Make the namespace hold the spec, on this backend alone; rules of ours on another one go afterwards.

        ``anew``: write the tables even where nothing differs.
        """
        compiled = self.compile(spec)
        with self._all_or_nothing():
            try:
                receipt = self._applied(compiled.plan, anew)
            except MeshnetError as error:
                needed = spec.families != "auto" or self.facts.global_ipv6
                if needed or compiled.program.families == (4,) or isinstance(error, BusyError):
                    raise
                compiled = self._compiled(spec, replace(self.facts, families=(4,)))
                receipt = self._applied(compiled.plan, anew)
                said = " ".join(error.lines())
                self.notices.append(f"IPv6 left out, no interface has a global IPv6 address: {said}")
            elsewhere = self._clear_elsewhere()
            if elsewhere and self.host.read_sets() != compiled.plan.sets:  # which those rules looked into
                elsewhere = (*elsewhere, self._work.apply(self.host, compiled.plan).changes)
        return self._receipt(_joined(receipt.changes, elsewhere))

    def _applied(self, plan: Plan, anew: bool) -> Receipt:
        others = tuple(self._elsewhere())
        wanted = self._for_now(plan, others)
        return self._work.apply(
            self.host, wanted, anew=anew, ahead=lambda before: self._tell_lost(before, others, plan)
        )

    def _tell_lost(self, before: Plan, others: tuple[AnyHost, ...], after: Plan) -> None:
        """A word about open connections that the rules in force carry, and that a plan's rules won't.

        In a fresh namespace nothing is loaded for it.
        """
        if not others and before == self._work.NOTHING:
            return
        from meshnet.apply.captures import lost
        from meshnet.apply.observe import observe

        count = lost((before, *(observe(host).own for host in others)), after, self.host.tracked)
        if count:
            many = "s lose" if count > 1 else " loses"
            note = f"{count} open connection{many} the way back to the sidecar, which the new rules don't have"
            self.notices.append(f"{note}: meshnet remove --drain, before apply, waits for the end of such")

    def held(self) -> dict[str, Plan]:
        """What is ours, by each backend that holds any of it, and by this one."""
        from meshnet.apply.observe import observe

        return {host.name: observe(host).own for host in (self.host, *self._elsewhere())}

    def settle(self, changed: Callable[[Plan], Plan]) -> Receipt:
        """Have each backend hold, of what is ours there, what ``changed`` makes of it."""
        from meshnet.apply.observe import observe

        hosts = (self.host, *self._elsewhere())
        with self._all_or_nothing():
            done = [self._work.apply(host, changed(observe(host).own)).changes for host in hosts]
        return self._receipt(_joined(done[0], tuple(done[1:])))

    def remove(self) -> Receipt:
        """Take away all that is ours, on every backend that holds any of it."""
        with self._all_or_nothing():
            receipt = self._work.apply(self.host, self._for_now(self._work.NOTHING, tuple(self._elsewhere())))
            elsewhere = self._clear_elsewhere()
            if elsewhere and self.host.read_sets():
                elsewhere = (*elsewhere, self._work.remove(self.host).changes)
        return self._receipt(_joined(receipt.changes, elsewhere))

    def _for_now(self, plan: Plan, others: tuple[AnyHost, ...]) -> Plan:
        """With the sets that rules on another backend look into: they can't go ahead of those."""
        if not others:
            return plan
        wanted = {item.name for item in plan.sets}
        return replace(plan, sets=(*plan.sets, *(it for it in self.host.read_sets() if it.name not in wanted)))

    def _receipt(self, done: ChangeSet) -> Receipt:
        """With a word about sets that should have gone and that the kernel keeps."""
        going = {
            line.split()[1] for step in done.steps if step.tool == "ipset destroy" for line in step.text.splitlines()
        }
        for name in sorted(going & {item.name for item in self.host.read_sets()} if going else ()):
            self.notices.append(f"the set {name} stays: a rule that isn't meshnet's looks into it")
        return Receipt(self.host.name, done, tuple(self.notices))

    def removal(self) -> ChangeSet:
        """What ``remove`` would do."""
        here = self._work.changes(self.host, self._work.NOTHING)
        return _joined(here, tuple(self._work.rules_to_remove(host) for host in self._elsewhere()))

    @property
    def namespace(self) -> Namespace:
        return self._namespace

    def counters(self) -> Counters:
        """How many packets each rule of ours has seen, by family, table, chain and words."""
        from meshnet.apply.counters import counters

        return counters(self.host)

    def untouched(self, before: Counters) -> tuple[dict[str, Any], ...]:
        """The rules of ours that have seen no packet since ``before``."""
        from meshnet.apply.counters import untouched

        return untouched(before, self.counters())

    def _all_or_nothing(self) -> Kept:
        """Around work on several backends: when it fails on one, what was done on another before is taken back; last
        what was done here, so that rules stand again elsewhere before the new ones go."""
        others = tuple(self._elsewhere())
        return self._work.Kept((*others, self.host) if others else ())

    def _clear_elsewhere(self) -> tuple[ChangeSet, ...]:
        """Take rules of ours away from the other backends' tables."""
        done: list[ChangeSet] = []
        for host in self._elsewhere():
            if not (taken := self._work.remove_rules(host).changes).empty:
                done.append(taken)
                self.notices.append(f"rules of ours were in {host.name} too: taken away there")
        return tuple(done)

    def _elsewhere(self) -> Iterator[AnyHost]:
        """The other backends with rules of ours: with both in force, the hook registered last would win."""
        for variant in detect.VARIANTS:
            backend = detect.BACKEND[variant]
            here = backend == self.backend or (self.backend == "libiptc" and variant == "legacy")
            families = tuple(item.family for item in self.evidence if self._holds_ours(item.of(variant)))
            if families and not here:
                yield self._live_host(adapter(backend), families, adopting=self.host.adopting)
        if self.backend != "nftables" and (self._tables or (self.host.adopting and detect.left_tables())):
            yield self._nft_host(adopting=self.host.adopting)

    def _holds_ours(self, found: Found) -> bool:
        return bool(found.ours) or (self.host.adopting and names.ISTIO_PREFIX in found.text)


def adapter(backend: Backend) -> PacketFilter:
    match backend:
        case "iptables-nft":
            return Xtables("nft")
        case "iptables-legacy":
            return Xtables("legacy")
        case "libiptc":
            from meshnet.kernel.xtables_legacy import LegacyLibrary, available

            if problem := available():
                raise UnsupportedError([problem], hint="pip install 'meshnet[libiptc]', or another --backend")
            return LegacyLibrary()
        case "nftables":
            raise AssertionError("nftables has a host of its own")


def _joined(first: ChangeSet, others: tuple[ChangeSet, ...]) -> ChangeSet:
    return ChangeSet(
        (*first.steps, *(step for other in others for step in other.steps)),
        (*first.differences, *(line for other in others for line in other.differences)),
    )
