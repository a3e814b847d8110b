"""Arguments and flags that several commands share, and how a spec argument becomes a document."""

from __future__ import annotations

import sys

import click

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    from meshnet.kernel.netns import Where
    from meshnet.spec.load import Document

    F = TypeVar("F", bound=Callable[..., Any])

BACKENDS = ("auto", "iptables-nft", "iptables-legacy", "libiptc", "nftables")
BACKEND_HELP = "Whose rules of a SPEC are followed: nftables', or those that all the others share."
LARGEST_TEXT = 64 * 1024 * 1024


class Seconds(click.FloatRange):
    """A time of up to a year. ``nan`` passes any comparison with bounds, and no clock would ever come to it."""

    def __init__(self) -> None:
        super().__init__(0, 366 * 86400)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        found = super().convert(value, param, ctx)
        if found != found:
            self.fail(f"{value} is no time.", param, ctx)
        return found


SECONDS = Seconds()


def spec_argument(command: F) -> F:
    return click.argument("spec", metavar="SPEC", type=str)(command)


def form_option(command: F) -> F:
    return click.option(
        "-o",
        "--output",
        "form",
        type=click.Choice(["text", "json"]),
        default="text",
        help="Form of the answer on standard output.",
    )(command)


def backend_option(command: F) -> F:
    return click.option(
        "--backend",
        type=click.Choice(BACKENDS),
        default="auto",
        show_default=True,
        help="Who loads the rules; auto looks at what the namespace already uses.",
    )(command)


def netns_options(command: F) -> F:
    with_pid = click.option(
        "--pid", type=click.IntRange(1, 4194304), help="The network namespace of this process.", metavar="PID"
    )(command)
    return click.option(
        "--netns",
        metavar="NAME|PATH",
        help="A namespace by the name that `ip netns` shows, or by path; without it the current one.",
    )(with_pid)


def place_of(netns: str | None, pid: int | None) -> Where:
    from meshnet.kernel.netns import where

    return where(netns, pid)


def read_document(spec: str) -> Document:
    """The document that the SPEC argument names; ``-`` is standard input."""
    from meshnet.spec.load import load_text

    return load_text(*read_text(spec))


def read_bytes(file: str, what: str) -> tuple[bytes, str]:
    """What is in a file or, for ``-``, in standard input, and its name in messages."""
    from meshnet.model.errors import UsageError

    name = "<stdin>" if file == "-" else file
    try:
        if file == "-":
            data = sys.stdin.buffer.read(LARGEST_TEXT + 1)
        else:
            with open(file, "rb") as opened:
                data = opened.read(LARGEST_TEXT + 1)
    except OSError as error:
        hint = f"a {what}'s file name, or - for stdin"
        raise UsageError(f"can't read {name}: {error.strerror}", hint=hint) from error
    if len(data) > LARGEST_TEXT:
        raise UsageError(f"{name} is larger than {LARGEST_TEXT >> 20} MiB", hint=f"is this a {what}?")
    return data, name


def read_text(file: str, what: str = "spec") -> tuple[str, str]:
    """The text of a file or, for ``-``, of standard input, and its name in messages."""
    from meshnet.model.errors import UsageError

    data, name = read_bytes(file, what)
    try:
        return data.decode("utf-8"), name
    except UnicodeDecodeError as error:
        raise UsageError(f"{name} is not UTF-8 (byte {error.start})", hint=f"save the {what} as UTF-8") from error


def once_from_stdin(*files: str | None) -> None:
    """UsageError when two files are standard input: the second one would be empty, and an answer about nothing."""
    from meshnet.model.errors import UsageError

    if files.count("-") > 1:
        raise UsageError("standard input is one file", hint="a file's name for the other one")
