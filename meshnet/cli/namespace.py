"""``apply``, ``diff`` and ``remove``: the commands that read or change a namespace."""

from __future__ import annotations

import click

from meshnet.cli import output
from meshnet.cli.options import (
    SECONDS,
    backend_option,
    form_option,
    netns_options,
    place_of,
    read_document,
    spec_argument,
)
from meshnet.cli.steps import steps_data, steps_text
from meshnet.model.errors import FINE, NEGATIVE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from meshnet.apply.session import Session
    from meshnet.model.plan import ChangeSet


@click.command()
@spec_argument
@netns_options
@backend_option
@click.option("-n", "--dry-run", is_flag=True, help="Print the steps that would be taken, and take none.")
@form_option
def apply(spec: str, netns: str | None, pid: int | None, backend: str, dry_run: bool, form: str) -> int:
    """Make a namespace do what SPEC says: all or nothing, repairing whatever half or tampered state is there.

    A spec that was applied before is replaced in one go; the second run of the same one changes nothing.

    \b
    Examples:
      meshnet apply pod.yaml --netns pod
      meshnet apply - --pid 4711 < pod.yaml
    """
    from meshnet.apply.session import Session

    document = read_document(spec)
    with Session(place_of(netns, pid), backend) as session:  # type: ignore[arg-type]
        if dry_run:
            return _show(session, session.changes(document.spec), form, would="apply")
        receipt = session.apply(document.spec)
        return _done(session, receipt.changes, form, "applied", f"{document.spec.name} to {session.place}")


@click.command()
@spec_argument
@netns_options
@backend_option
@form_option
def diff(spec: str, netns: str | None, pid: int | None, backend: str, form: str) -> int:
    """Show what differs between SPEC and a namespace: + is missing there, - is too much. Exit 1 if anything differs.

    \b
    Example:
      meshnet diff pod.yaml --netns pod
    """
    from meshnet.apply.session import Session

    document = read_document(spec)
    with Session(place_of(netns, pid), backend) as session:  # type: ignore[arg-type]
        changes = session.changes(document.spec)
        _notices(session)
        data = _data(session, changes) | {"in_sync": changes.empty}
        text = "in sync" if changes.empty else output.changes_text(changes)
        output.answer(data, text, form)
    return FINE if changes.empty else NEGATIVE


@click.command()
@netns_options
@backend_option
@click.option("-n", "--dry-run", is_flag=True, help="Print the steps that would be taken, and take none.")
@click.option("--drain", is_flag=True, help="Capture nothing new, and wait until all captured connections have ended.")
@click.option(
    "--patience",
    metavar="SECONDS",
    type=SECONDS,
    default=300.0,
    show_default=True,
    help="With --drain: how long to wait at most.",
)
@form_option
def remove(
    netns: str | None, pid: int | None, backend: str, dry_run: bool, drain: bool, patience: float, form: str
) -> int:
    """Take everything of meshnet out of a namespace: rules, chains, policy rules, routes, addresses. Needs no spec.

    What is ours is known by its tag; what is anybody else's stays as it is. A connection that was captured may break
    with it, unless --drain waits for its end; when the patience is over first, the rules that carry it stay, nothing
    new is captured, and the exit code is 1.

    \b
    Examples:
      meshnet remove --netns pod
      meshnet remove --netns pod --drain --patience 60
    """
    if drain and not dry_run:
        return _drain(netns, pid, backend, patience, form)
    from meshnet.apply.session import Session

    with Session(place_of(netns, pid), backend) as session:  # type: ignore[arg-type]
        if dry_run:
            return _show(session, session.removal(), form, would="remove")
        receipt = session.remove()
        return _done(session, receipt.changes, form, "removed", f"meshnet's rules from {session.place}")


def _drain(netns: str | None, pid: int | None, backend: str, patience: float, form: str) -> int:
    from meshnet.apply.drain import drain

    place = place_of(netns, pid)

    def told(count: int) -> None:
        output.say(f"… {_counted(count)} open; nothing new is captured")

    found = drain(place, backend, patience, told)  # type: ignore[arg-type]
    output.say(f"backend {found.backend}: {found.reason}")
    for notice in found.receipt.notices:
        output.say(f"note: {notice}")
    differences = found.receipt.changes.differences
    data = {
        "backend": found.backend,
        "reason": found.reason,
        "notices": list(found.receipt.notices),
        "differences": list(differences),
        "changed": bool(differences),
        "left_open": found.left,
        "superseded": found.superseded,
    }
    if found.superseded:
        text = "a spec was applied meanwhile: its rules stay"
    elif found.left:
        text = f"{_counted(found.left)} still open; what carries them stays: remove again when they end"
    else:
        text = f"removed meshnet's rules from {place}: {len(differences)} changes"
    output.answer(data, text, form)
    return NEGATIVE if found.left or found.superseded else FINE


def _counted(count: int) -> str:
    return f"{count} captured connection{' is' if count == 1 else 's are'}"


def _show(session: Session, changes: ChangeSet, form: str, *, would: str) -> int:
    _notices(session)
    text = steps_text(session.backend, changes) if not changes.empty else f"nothing to {would}"
    output.answer(_data(session, changes) | {"dry_run": True}, text, form)
    return FINE


def _done(session: Session, changes: ChangeSet, form: str, verb: str, what: str) -> int:
    _notices(session)
    count = len(changes.differences)
    text = (
        "nothing to do: already as it should be"
        if changes.empty
        else f"{verb} {what}: {count} change{'s' if count != 1 else ''}"
    )
    output.answer(_data(session, changes) | {"changed": not changes.empty}, text, form)
    return FINE


def _notices(session: Session) -> None:
    output.say(f"backend {session.backend}: {session.reason}")
    for notice in session.notices:
        output.say(f"note: {notice}")


def _data(session: Session, changes: ChangeSet) -> dict[str, Any]:
    return {
        "backend": session.backend,
        "reason": session.reason,
        "notices": session.notices,
        "differences": list(changes.differences),
        "steps": steps_data(session.backend, changes.steps),
    }
