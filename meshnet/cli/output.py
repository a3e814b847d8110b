"""The only place that prints: stdout is the answer, stderr is talk, and every answer has a JSON form."""

from __future__ import annotations

import sys

import click

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from meshnet.model.errors import MeshnetError
    from meshnet.model.plan import ChangeSet


def answer(data: Any, text: str, form: str) -> None:
    """Print the answer: ``data`` as JSON, or ``text``."""
    if form == "json":
        import json

        click.echo(json.dumps(data, indent=2))
    elif text:
        click.echo(text.rstrip("\n"))


def say(line: str) -> None:
    """Talk, to stderr."""
    click.echo(line, err=True)


def complain(error: MeshnetError, form: str) -> None:
    """An error to stderr, a line each; with ``-o json`` also as an object to stdout, for who parses it."""
    for line in error.lines():
        say(f"meshnet: {line}" if error.kind != "spec" else line)
    if form == "json":
        answer({"error": {"kind": error.kind, "lines": error.lines()}}, "", form)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Columns as wide as their widest word."""
    lines = [list(head), *([str(word) for word in row] for row in rows)]
    widths = [max(len(line[place]) for line in lines) for place in range(len(head))]
    return "\n".join(
        "  ".join(word.ljust(width) for word, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def changes_text(changes: ChangeSet, limit: int = 0) -> str:
    """The differences of a change set, coloured on a terminal; ``limit`` 0 means all."""
    lines = changes.differences[:limit] if limit else changes.differences
    colours = {"+": "green", "-": "red"}
    shown = [click.style(line, fg=colours.get(line[:1])) if sys.stdout.isatty() else line for line in lines]
    rest = len(changes.differences) - len(lines)
    return "\n".join([*shown, *([f"… and {rest} more"] if rest else [])])
