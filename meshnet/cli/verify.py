"""``verify``: the proof, as a table."""

from __future__ import annotations

import sys

import click

from meshnet.cli import output
from meshnet.cli.options import backend_option, form_option, netns_options, place_of, read_document, spec_argument
from meshnet.model.errors import FINE, NEGATIVE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from meshnet.apply.session import Session
    from meshnet.probe.verify import Verified


@click.command()
@spec_argument
@netns_options
@click.option("--peer", metavar="NAME|PATH", help="The namespace to send from; without it one is made, and taken away.")
@backend_option
@form_option
def verify(spec: str, netns: str | None, pid: int | None, peer: str | None, backend: str, form: str) -> int:
    """Send real packets for every flow that matters to SPEC and show where each lands. Exit 1 if any lands elsewhere.

    The namespace needs neither the application nor the proxy: verify brings listeners of its own, so their ports
    must be free. It leaves nothing behind. Rules that no packet touched are named at the end.

    \b
    Example:
      meshnet verify pod.yaml --netns pod
    """
    from meshnet.apply.session import Session
    from meshnet.compile.resolve import resolve
    from meshnet.kernel.netns import open_namespace, where
    from meshnet.probe.verify import verify as run

    document = read_document(spec)
    with Session(place_of(netns, pid), backend) as session:  # type: ignore[arg-type]
        settled, families = resolve(document.spec, session.facts)
        drift = session.changes(document.spec)
        if not drift.empty:
            output.say(f"note: the namespace differs from the spec in {len(drift.differences)} places (meshnet diff)")
        far = open_namespace(where(peer)) if peer else None
        try:
            before = session.counters()
            with _bar() as moved:
                found = run(session.namespace, settled, families, peer=far, progress=moved)
            untouched = session.untouched(before)
        finally:
            if far is not None:
                far.close()
        output.answer(_data(session, found, untouched), _text(found, untouched), form)
    return FINE if found.ok else NEGATIVE


class _bar:  # noqa: N801 (reads as a word at its only use)
    """A progress bar on a terminal, nothing elsewhere."""

    def __init__(self) -> None:
        self._bar: Any = None

    def __enter__(self) -> Any:
        if not sys.stderr.isatty():
            return lambda *_: None
        return self._move

    def _move(self, done: int, total: int) -> None:
        if self._bar is None:
            self._bar = click.progressbar(length=total, label="probes", file=sys.stderr)
            self._bar.__enter__()
        self._bar.update(done - self._bar.pos)

    def __exit__(self, *ended: object) -> None:
        if self._bar is not None:
            self._bar.__exit__(None, None, None)


def _text(found: Verified, untouched: tuple[dict[str, Any], ...]) -> str:
    rows = [
        (item.probe.name, f"IPv{item.probe.flow.family}", item.probe.predicted.disposition, item.seen, _word(item.ok))
        for item in found.seen
    ]
    wrong = [item for item in found.seen if not item.ok]
    return "\n".join(_lines(output.table(("flow", "", "predicted", "seen", "ok"), rows), found, wrong, untouched))


def _lines(table: str, found: Verified, wrong: list[Any], untouched: tuple[dict[str, Any], ...]) -> Iterator[str]:
    yield table
    yield ""
    for item in wrong:
        yield f"wrong: {item.probe.flow}: {item.seen}, not {item.probe.predicted.disposition}"
        yield f"       by {item.probe.predicted.because}"
    for name, reason in found.absent:
        yield f"not probed: interface {name}: {reason}"
    for rule in untouched:
        family = rule["family"] if rule["family"] == "inet" else f"IPv{rule['family']}"
        yield f"untouched: {family} {rule['table']} {rule['rule']}"
    yield f"{len(found.seen) - len(wrong)} of {len(found.seen)} probes landed where the spec says"


def _word(ok: bool) -> str:
    return "yes" if ok else "NO"


def _data(session: Session, found: Verified, untouched: tuple[dict[str, Any], ...]) -> dict[str, Any]:
    return {
        "backend": session.backend,
        "ok": found.ok,
        "probes": [
            {
                "name": item.probe.name,
                "flow": str(item.probe.flow),
                "family": item.probe.flow.family,
                "predicted": item.probe.predicted.disposition,
                "because": item.probe.predicted.because,
                "seen": item.seen,
                "ok": item.ok,
            }
            for item in found.seen
        ],
        "not_probed": [{"interface": name, "reason": reason} for name, reason in found.absent],
        "rules_untouched": list(untouched),
    }
