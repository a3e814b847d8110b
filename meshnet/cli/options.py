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
LARGEST_SPEC = 64 * 1024 * 1024


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


def read_text(file: str, what: str = "spec") -> tuple[str, str]:
    """The text of a file or, for ``-``, of standard input, and its name in messages."""
    from meshnet.model.errors import UsageError

    if file == "-":
        text = sys.stdin.buffer.read(LARGEST_SPEC + 1)
        name = "<stdin>"
    else:
        name = file
        try:
            with open(file, "rb") as opened:
                text = opened.read(LARGEST_SPEC + 1)
        except OSError as error:
            raise UsageError(
                f"can't read {file}: {error.strerror}", hint=f"a {what}'s file name, or - for stdin"
            ) from error
    if len(text) > LARGEST_SPEC:
        raise UsageError(f"{name} is larger than {LARGEST_SPEC >> 20} MiB", hint=f"is this a {what}?")
    try:
        return text.decode("utf-8"), name
    except UnicodeDecodeError as error:
        raise UsageError(f"{name} is not UTF-8 (byte {error.start})", hint=f"save the {what} as UTF-8") from error
