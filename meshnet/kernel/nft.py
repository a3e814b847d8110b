"""The ``nft`` program: one text, one transaction, in the namespace that the calling thread is in."""

from __future__ import annotations

from meshnet.kernel.run import start
from meshnet.kernel.together import awaited
from meshnet.model.errors import MissingToolError, ToolError, UnsupportedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from meshnet.kernel.ports import Work
    from meshnet.kernel.run import Ran

FAMILY = "inet"
NEEDS: dict[tuple[int, int, int], str] = {
    (0, 9, 1): "tproxy",
    (0, 9, 2): "redirect in family inet",
    (0, 9, 7): "comments on tables",
}
"""Which version of nft brought what every table of ours has (its release announcements). 1.0.6 is the oldest one that
the tests run."""

HINTS = {
    "Operation not permitted": "the process needs CAP_NET_ADMIN in the namespace",
    "Could not process rule: No such file or directory": "this kernel lacks a module: nft_tproxy, nft_redir, "
    "nft_socket, nft_ct or nft_chain_nat; Linux 5.2 and later have nat in family inet",
    "expecting string": "is that name a word of nft's own? Another one under nftables.table in the spec",
    "not supported": "this kernel lacks nf_tables or a part of it; Linux 5.2 and later have nat in family inet",
}


def begin_version() -> Work[str]:
    """Ask which version is installed; ``finish`` gives it, such as ``1.0.6``.

    MissingToolError when there is none, UnsupportedError when it is too old for what our tables need.
    """
    return awaited(start(["nft", "--version"], timeout=10.0), _version)


def begin(text: str) -> Work[None]:
    """Start to carry out a text, all of it or nothing, and return at once; ``finish`` raises ToolError with the line
    that was refused."""
    return awaited(start(["nft", "-f", "-"], text=text), lambda ran: _written(ran, text))


def listed(table: str) -> str:
    """One table of family inet as nft prints it, without counters. MissingToolError, ToolError."""
    ran = start(["nft", "-s", "list", "table", FAMILY, table]).wait()
    if not ran.ok:
        raise ToolError(f"nft can't list table inet {table}", detail=ran.err)
    return ran.out


def missing() -> MissingToolError:
    return MissingToolError("nft is not installed", hint="apt-get install nftables, or another --backend")


def number(said: str) -> tuple[int, int, int]:
    """The version in ``nftables v1.0.6 (Lester Gooch #5)``; zeros when there is none."""
    word = next((word[1:] for word in said.split() if word.startswith("v") and word[1:2].isdigit()), "")
    parts = [int(part) if part.isdigit() else 0 for part in (*word.split("."), "0", "0")[:3]]
    return (parts[0], parts[1], parts[2])


def _version(ran: Ran) -> str:
    if not ran.ok:
        raise ToolError("nft doesn't say its version", detail=ran.err)
    found = number(ran.out)
    said = ".".join(map(str, found))
    lacking = [
        f"nft {said} has no {what}: {'.'.join(map(str, since))} or later"
        for since, what in NEEDS.items()
        if found < since
    ]
    if lacking:
        raise UnsupportedError(lacking, hint="a newer package nftables, or another --backend")
    return said


def _written(ran: Ran, text: str) -> None:
    if ran.ok:
        return
    hint = next((hint for words, hint in HINTS.items() if words in ran.err), "")
    if ran.code < 0:
        raise ToolError(f"nft was ended by signal {-ran.code}", detail=ran.err)
    line = _line(ran.err, text)
    raise ToolError(f"nft refused: {line}" if line else "nft refused", hint=hint, detail=ran.err)


def _line(said: str, text: str) -> str:
    """nft names the place as ``/dev/stdin:7:3-12: Error: …``."""
    place = said.partition(":")[2].partition(":")[0]
    lines = text.splitlines()
    return lines[int(place) - 1].strip() if place.isdigit() and 0 < int(place) <= len(lines) else ""
