"""Apply and remove: all or nothing. Remove is the apply of an empty plan, a roll-back that of what was there."""

from __future__ import annotations

from meshnet.apply.observe import observe
from meshnet.apply.reconcile import reconcile
from meshnet.kernel.together import results
from meshnet.model.errors import MeshnetError, ToolError
from meshnet.model.plan import ChangeSet, Plan, Receipt
from meshnet.model.value import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from meshnet.apply.host import Host
    from meshnet.model.plan import Observed, Step

NOTHING = Plan()
AS_IT_WAS = "; the namespace is as it was"
STUCK = "the work failed half-way and could not be taken back"


def nobody(before: Plan) -> None:
    del before


def changes(host: Host, plan: Plan, ahead: Callable[[Plan], None] = nobody) -> ChangeSet:
    """What ``apply`` would do in the namespace that the caller has entered; changes nothing."""
    before = observe(host)
    work = reconcile(plan, before, disposable=disposable(host))
    if work.steps:
        ahead(before.own)
    return work


def apply(host: Host, plan: Plan, *, anew: bool = False, ahead: Callable[[Plan], None] = nobody) -> Receipt:
    """Make the namespace hold the plan; when any step fails it is as it was, and the error says so.

    ``anew``: tables are written even where nothing differs. ``ahead`` hears what is ours there, before it changes.
    """
    before = observe(host)
    work = reconcile(plan, before, disposable=disposable(host), anew=anew)
    if work.steps:
        ahead(before.own)
    try:
        _carry_out(host, work.steps)
        if work.steps:
            _forget_stale(host, before.own, plan)
    except BaseException as error:
        _roll_back([(host, before)], error)
        raise
    return Receipt(host.name, work)


def remove(host: Host) -> Receipt:
    """Take everything away that is tagged as ours, whichever spec it came from."""
    return apply(host, NOTHING)


def remove_rules(host: Host) -> Receipt:
    """Take our rules away on this backend and leave routing alone, which another backend's rules still need."""
    receipt = apply(host, _no_rules(host))
    return replace(receipt, changes=_elsewhere(host, receipt.changes))


def rules_to_remove(host: Host) -> ChangeSet:
    """What ``remove_rules`` would do."""
    return _elsewhere(host, changes(host, _no_rules(host)))


def _elsewhere(host: Host, found: ChangeSet) -> ChangeSet:
    """The same with the backend's name: beside another one's rules ``iptables`` alone doesn't say whose these are."""
    variant = host.name.removeprefix("iptables-")
    lines = found.differences
    if variant != host.name:
        lines = tuple(line.replace("tables -t ", f"tables-{variant} -t ", 1) for line in lines)
    return ChangeSet(tuple(replace(step, backend=host.name) for step in found.steps), lines)


def _no_rules(host: Host) -> Plan:
    """Sets stay too: they belong to no backend, and another one's rules may look into them."""
    own = observe(host).own
    return replace(NOTHING, routing=own.routing, sets=own.sets)


def disposable(host: Host) -> bool:
    """Only nft can take an emptied table away; a legacy table stays as long as its module is loaded."""
    return host.name == "iptables-nft"


def _forget_stale(host: Host, before: Plan, after: Plan) -> None:
    """Queries that conntrack remembers from before would go where they went then, however often they are asked."""
    if not _about_udp(before) and not _about_udp(after):
        return
    from meshnet.apply.captures import stale, udp_ports

    old, new = udp_ports(before), udp_ports(after)
    if old or new:
        host.forget(lambda entry: stale(entry, old, new))


def _about_udp(plan: Plan) -> bool:
    """Whether a rule may be about UDP; most specs have none, and then no more is loaded or looked at."""
    return any(" udp " in rule for rule in plan.rules())


def _carry_out(host: Host, steps: tuple[Step, ...]) -> None:
    """One family's steps one after the other, and beside each of them the same tool's step for the other family."""
    for group in side_by_side(steps):
        results(host.begin, group)


def side_by_side(steps: tuple[Step, ...]) -> list[tuple[Step, ...]]:
    """The steps in their order, neighbours put together when one tool does them for different families."""
    groups: list[tuple[Step, ...]] = []
    for step in steps:
        last = groups[-1] if groups else ()
        if last and last[0].tool == step.tool and all(other.family != step.family for other in last):
            groups[-1] = (*last, step)
        else:
            groups.append((step,))
    return groups


class Kept:
    """A context manager: when the work inside stops, each of the hosts is led back to what it held at the start."""

    def __init__(self, hosts: tuple[Host, ...]) -> None:
        self._before = [(host, observe(host)) for host in hosts]

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if error is not None:
            _roll_back(self._before, error)


def _roll_back(before: list[tuple[Host, Observed]], cause: BaseException) -> None:
    """Whatever stopped the work, an error or Ctrl-C: lead the namespace back, or say what stayed."""
    try:
        for host, seen in before[-1:] if len(before) > 1 else ():
            # Routing is everybody's, and this backend has changed it: another one's tool may be what is missing.
            _carry_out(host, changes(host, replace(observe(host).own, routing=seen.own.routing)).steps)
        for host, seen in before:
            now = observe(host)
            # A table that came with us and holds others' rules by now has lost its mark when it was to be dropped.
            now = replace(now, made=now.made | seen.made)
            back = reconcile(seen.own, now, disposable=disposable(host))
            _carry_out(host, back.steps)
    except MeshnetError as second:
        detail = "\n".join([*_said(cause), "and taking it back failed too:", *second.lines()])
        raise ToolError(
            STUCK,
            hint="meshnet diff shows what is there; apply or remove again finishes it",
            detail=detail,
        ) from cause
    if isinstance(cause, MeshnetError) and not cause.message.endswith((AS_IT_WAS, STUCK)):
        cause.message += AS_IT_WAS


def _said(cause: BaseException) -> list[str]:
    return cause.lines() if isinstance(cause, MeshnetError) else [str(cause) or type(cause).__name__]
