"""``lab``: scenarios with real servers, and a lab to look around in."""

from __future__ import annotations

import sys

import click

from meshnet.cli import output
from meshnet.cli.options import form_option
from meshnet.model.errors import FINE, NOT_HERE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from meshnet.lab.runner import Ran
    from meshnet.lab.scenario import Scenario

NEEDED = ("CAP_NET_ADMIN", "CAP_SYS_ADMIN", "CAP_NET_RAW")


@click.group()
def lab() -> None:
    """Reproduce the bugs of transparent interception, and their cures, with real servers in namespaces of their own."""


@lab.command("list")
@form_option
def list_command(form: str) -> None:
    """List the scenarios, and say which can't run here."""
    from meshnet.lab.available import absent, everything, why_not

    found = everything()
    note = absent()
    if note:
        output.say(f"note: {note}")
    data = [
        {"name": item.name, "about": item.about, "rows": len(item.rows), "why_not": why_not(item)} for item in found
    ]
    rows = [(str(item["name"]), str(item["rows"]), str(item["about"])) for item in data]
    output.answer({"scenarios": data}, output.table(("scenario", "rows", "about"), rows), form)
    for item in data:
        if item["why_not"]:
            output.say(f"note: {item['name']} can't run here: {item['why_not']}")


@lab.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--all", "everything", is_flag=True, help="Every scenario.")
@click.option("--report", metavar="DIR", help="Write the page, the data and the packets there.")
@click.option("--at-once", type=click.IntRange(1, 64), default=3, show_default=True, help="Scenarios at one time.")
@click.option("-v", "--verbose", is_flag=True, help="Every row with its evidence, and not only what differs.")
@form_option
def run(names: tuple[str, ...], everything: bool, report: str | None, at_once: int, verbose: bool, form: str) -> int:
    """Run scenarios and compare what was measured with what should be.

    Each row has a client, a pod and a sidecar in namespaces without a name, which end with this command, however it
    ends. Nothing outside them is touched.

    \b
    Examples:
      meshnet lab run source-hidden source-kept
      meshnet lab run --all --report out
    """
    from pathlib import Path

    from meshnet.kernel.netns import require_capabilities
    from meshnet.lab import report as reports
    from meshnet.lab import runner

    scenarios, left_out = _chosen(names, everything)
    require_capabilities(NEEDED, "a lab")
    folder = Path(report) if report is not None else None
    total = sum(len(item.rows) for item in scenarios)
    with _Progress(total) as progress:
        ran = runner.run(scenarios, progress.hear, at_once=at_once, folder=folder)
    if folder is not None:
        reports.write(ran, folder)
        output.say(f"written: {folder / 'index.html'}")
    data = {**reports.data(ran), "left_out": left_out}
    output.answer(data, _text(ran, verbose), form)
    worst = max((item.exit_code for item in ran), default=FINE)
    return worst or (NOT_HERE if left_out else FINE)


def _chosen(names: Sequence[str], everything: bool) -> tuple[tuple[Scenario, ...], dict[str, str]]:
    """The scenarios that are meant and can run here, and those that can't, with the reason."""
    from meshnet.lab import available
    from meshnet.model.errors import UnsupportedError, UsageError

    if bool(names) == everything:
        raise UsageError("name scenarios, or say --all", hint="meshnet lab list shows what there is")
    note = available.absent() if everything else ""
    if note:
        output.say(f"note: {note}")
    wanted = available.everything() if everything else available.named(names)
    reasons = {item.name: why for item in wanted if (why := available.why_not(item))}
    if names and reasons:
        raise UnsupportedError([f"{name}: {why}" for name, why in reasons.items()])
    for name, why in reasons.items():
        output.say(f"note: {name} is left out: {why}")
    return tuple(item for item in wanted if item.name not in reasons), reasons


class _Progress:
    """A bar on a terminal; elsewhere a line for each row that isn't as expected."""

    def __init__(self, total: int) -> None:
        self._bar: Any = None
        self._total = total

    def __enter__(self) -> _Progress:
        if sys.stderr.isatty():
            self._bar = click.progressbar(
                length=self._total, file=sys.stderr, show_pos=True, item_show_func=lambda item: item
            )
            self._bar.__enter__()
        return self

    def __exit__(self, *said: Any) -> None:
        if self._bar is not None:
            self._bar.__exit__(*said)

    def hear(self, name: str, row: str, ok: bool) -> None:
        if self._bar is not None:
            self._bar.update(1, name)
        elif not ok:
            output.say(f"{name}, {row}: not as expected")


def _text(ran: tuple[Ran, ...], verbose: bool) -> str:
    from meshnet.lab import report

    if verbose:
        return report.text(ran)
    summary = [
        (item.scenario.name, f"{sum(record['ok'] for record in item.records)} of {len(item.records)}", _seconds(item))
        for item in ran
    ]
    parts = [output.table(("scenario", "rows as expected", "seconds"), summary)]
    wrong = [line for item in ran for line in report.lines(item) if line]
    if wrong:
        head = ("scenario", "row", "step", "expected", "predicted", "measured", "as expected")
        parts.append(output.table(head, wrong))
        for item in ran:
            for record in item.records:
                if not record["ok"]:
                    told = [*record["trouble"].splitlines(), *report.evidence(record)]
                    parts.append("\n".join([f"{item.scenario.name}, {record['name']}:", *(f"  {x}" for x in told)]))
    good = sum(item.ok for item in ran)
    parts.append(f"{good} of {len(ran)} scenarios as expected")
    return "\n\n".join(parts)


def _seconds(item: Ran) -> str:
    return f"{sum(record['seconds'] for record in item.records):.1f}"
