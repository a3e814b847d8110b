"""``lab``: scenarios with real servers, and a lab to look around in."""

from __future__ import annotations

import sys

import click

from meshnet.cli import output
from meshnet.cli.options import form_option, spec_argument
from meshnet.model.errors import FINE, NOT_HERE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
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
    from meshnet.kernel.netns import require_capabilities
    from meshnet.lab import report as reports
    from meshnet.lab import runner

    scenarios, left_out = _chosen(names, everything)
    require_capabilities(NEEDED, "a lab")
    folder = _folder(report) if report is not None else None
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


def _folder(name: str) -> Path:
    """Where the report goes. Made first: a run of minutes shouldn't end with the news that there is no place for it."""
    import os
    from pathlib import Path

    from meshnet.model.errors import UsageError

    folder = Path(name)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"can't write into {name}: {error.strerror}", hint="a directory's name for --report"
        ) from error
    if not os.access(folder, os.W_OK):
        raise UsageError(f"can't write into {name}", hint="a directory's name for --report")
    return folder


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


def prefix_option(command: Any) -> Any:
    return click.option(
        "--prefix",
        default="mnlab-",
        show_default=True,
        help="What the lab's namespaces are called by, ahead of the place.",
    )(command)


@lab.command()
@spec_argument
@click.option("--sidecar", type=click.Choice(["envoy", "embedded"]), help="Envoy where it is installed.")
@click.option("--application", type=click.Choice(["echo", "nginx"]), default="echo", show_default=True)
@click.option(
    "--backend",
    type=click.Choice(["iptables-nft", "iptables-legacy", "nftables"]),
    default="iptables-nft",
    show_default=True,
    help="Who loads the rules.",
)
@prefix_option
@form_option
def up(spec: str, sidecar: str | None, application: str, backend: str, prefix: str, form: str) -> None:
    """Build a client and a pod for SPEC, with an application and a sidecar, and leave them running.

    One lab at a time: an earlier one of the same prefix goes. `lab shell` enters it, `lab down` ends it.
    """
    from meshnet.cli.options import read_text
    from meshnet.kernel.netns import require_capabilities
    from meshnet.lab import keeper
    from meshnet.lab.installed import has_envoy
    from meshnet.lab.topology import ADDRESSES
    from meshnet.spec.load import load_text

    require_capabilities(NEEDED, "a lab")
    text, name = read_text(spec)
    load_text(text, name)  # says what is wrong with it, with its lines, before anything is built
    chosen = sidecar or ("envoy" if has_envoy() else "embedded")
    child = keeper.up(text, chosen, application, backend, prefix)  # type: ignore[arg-type]
    places = {place: {"namespace": f"{prefix}{place}", **_both(ADDRESSES[place])} for place in ("client", "pod")}
    pod = ADDRESSES["pod"]
    shown = output.table(
        ("place", "namespace", "IPv4", "IPv6"),
        [(place, found["namespace"], found["ipv4"], found["ipv6"]) for place, found in places.items()],
    )
    hint = f"meshnet lab shell client -- curl -s http://{pod[4]}/peer"
    output.answer({"keeper": child.pid, "sidecar": chosen, "places": places}, f"{shown}\n\ntry: {hint}", form)


def _both(hosts: dict[Any, str]) -> dict[str, str]:
    return {"ipv4": hosts[4], "ipv6": hosts[6]}


@lab.command()
@prefix_option
@form_option
def down(prefix: str, form: str) -> None:
    """End what `up` started, also what is left of one that was killed."""
    from meshnet.lab.keeper import clear

    ended, left = clear(prefix)
    text = "there was no lab" if not ended and not left else "the lab is gone"
    output.answer({"keepers": ended, "leftovers": left}, text, form)


@lab.command(context_settings={"ignore_unknown_options": True})
@click.argument("place", type=click.Choice(["client", "pod"]), default="pod")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@prefix_option
def shell(place: str, command: tuple[str, ...], prefix: str) -> None:
    """Run a shell, or a command, in a place of the lab that `up` built.

    \b
    Examples:
      meshnet lab shell
      meshnet lab shell client -- curl -s http://10.244.9.10/peer
    """
    import os

    from meshnet.kernel.netns import open_namespace, where
    from meshnet.model.errors import NamespaceError

    words = list(command) or [os.environ.get("SHELL") or "/bin/sh"]
    try:
        opened = open_namespace(where(f"{prefix}{place}"))
    except NamespaceError as error:
        raise NamespaceError(error.message, hint="meshnet lab up SPEC builds one") from error
    with opened as namespace, namespace.entered():
        try:
            os.execvp(words[0], words)  # noqa: S606
        except FileNotFoundError as error:
            from meshnet.model.errors import UsageError

            raise UsageError(f"there is no program {words[0]}") from error
