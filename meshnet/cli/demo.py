"""``demo``: the four rows, side by side."""

from __future__ import annotations

import click

from meshnet.cli import output
from meshnet.cli.options import backend_option, form_option
from meshnet.model.errors import FINE, NEGATIVE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from meshnet.lab.demo import Outcome


@click.command()
@backend_option
@click.option("--sidecar", type=click.Choice(["envoy", "embedded"]), help="Envoy where it is installed.")
@form_option
def demo(backend: str, sidecar: str | None, form: str) -> int:
    """Build a client and a pod with an HTTP application and a sidecar, and show whom the application sees.

    Four ways: without rules, under REDIRECT, under TPROXY, and under TPROXY with the original source, each for IPv4
    and IPv6, each proven by probes. Needs root; touches nothing outside two namespaces that end with it.
    """
    from meshnet.lab.demo import run, usual_sidecar

    kind = sidecar or usual_sidecar()
    outcomes = run(backend, lambda name: output.say(f"… {name}"), kind)  # type: ignore[arg-type]
    good = all(outcome.ok for outcome in outcomes)
    data = {"ok": good, "sidecar": kind, "rows": [_data(outcome) for outcome in outcomes]}
    output.answer(data, _text(outcomes, kind), form)
    return FINE if good else NEGATIVE


def _text(outcomes: tuple[Outcome, ...], kind: str) -> str:
    from meshnet.lab.demo import CLIENT

    rows = [
        (
            outcome.row.name,
            outcome.seen[4],
            outcome.seen[6],
            "" if outcome.row.spec is None else f"{outcome.through_sidecar} of 2",
            _probes(outcome),
            "yes" if outcome.ok else "NO",
        )
        for outcome in outcomes
    ]
    head = ("the pod is set up", "application sees (IPv4)", "(IPv6)", "through the sidecar", "probes", "as expected")
    about = f"the client is {CLIENT[4]} and {CLIENT[6]}, the sidecar is {kind}"
    return f"{about}\n\n{output.table(head, rows)}\n\nmore of this: meshnet lab run --all --report DIR"


def _probes(outcome: Outcome) -> str:
    if outcome.verified is None:
        return ""
    return f"{sum(item.ok for item in outcome.verified.seen)} of {len(outcome.verified.seen)}"


def _data(outcome: Outcome) -> dict[str, Any]:
    probes = outcome.verified.seen if outcome.verified is not None else ()
    return {
        "name": outcome.row.name,
        "expected": {f"ipv{family}": address for family, address in outcome.expected.items()},
        "seen": {f"ipv{family}": address for family, address in outcome.seen.items()},
        "through_sidecar": outcome.through_sidecar,
        "probes": len(probes),
        "probes_ok": sum(item.ok for item in probes),
        "ok": outcome.ok,
    }
