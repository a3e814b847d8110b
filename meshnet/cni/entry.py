"""``meshnet-cni``: one call of the protocol, from the environment and standard input to standard output."""

from __future__ import annotations

import os
import select
import sys
import time

from meshnet.cni.protocol import (
    INTERNAL,
    IO_FAILURE,
    NEWEST,
    TRY_LATER,
    UNDECODABLE,
    VERSIONS,
    CniError,
    read_call,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from meshnet.cni.config import Config
    from meshnet.cni.journal import Journal
    from meshnet.cni.protocol import Call
    from meshnet.cni.verbs import Verb

LARGEST = 4 * 1024 * 1024
"""Bytes of a configuration. What runtimes add, results and annotations, is bounded by etcd's 1.5 MB for an object."""

PATIENCE = 10.0
"""Seconds until the whole configuration has to be there."""

SHORT_PATIENCE = 1.0
"""The same for VERSION, which needs none."""

SHOWN = 10
"""Lines of details in the log; all of them are in the answer."""

USAGE = f"""\
meshnet-cni is a CNI plugin: a container runtime starts it, with CNI_COMMAND and a network's configuration.
It speaks versions {", ".join(VERSIONS)}. A line for a configuration list, behind the plugin that makes the interface:
  {{"type": "meshnet-cni", "interception": {{}}}}"""


def run() -> None:
    """The console script: every way to fail ends in an error object and an exit code, none in a traceback."""
    if len(sys.argv) > 1:
        os._exit(_explain(sys.argv[1:]))
    code, answer = call(os.environ, read_input)
    try:
        rest = memoryview(answer.encode("ascii"))
        while rest:
            rest = rest[os.write(1, rest) :]
    except OSError:
        code = 1  # whoever asked went away
    os._exit(code)  # without taking every module apart first, which costs a tenth of a start


def call(environment: Mapping[str, str], read: Callable[[float], bytes]) -> tuple[int, str]:
    """The exit code and the text for standard output. ``read`` gives standard input, within some seconds."""
    version = NEWEST
    try:
        asked = read_call(environment)
        if asked.verb == "VERSION":
            return 0, _versions(read)
        from meshnet.cni.config import read_config, read_object, version_of

        raw = read_object(read(PATIENCE))
        given = version_of(raw)
        version = given if given in VERSIONS else NEWEST
        config = read_config(asked.verb, raw)
        from meshnet.cni.journal import Journal as Made
        from meshnet.cni.verbs import VERBS

        journal = Made(f"{asked.verb} {config.network}", config.log_level, config.log_file)
        try:
            return 0, _carried_out(VERBS[asked.verb], asked, config, journal)
        except CniError as error:
            who = f"{asked.container}: " if asked.container else ""
            journal.error(f"{who}{error.code}: {error.message}")
            for line in error.details.splitlines()[:SHOWN]:
                journal.error(f"{who}{line}")
            raise
    except CniError as error:
        return 1, _encoded(error, version)
    except KeyboardInterrupt:
        return 1, _encoded(CniError(TRY_LATER, "interrupted"), version)
    except Exception as error:  # the runtime parses what we print, and a traceback is nothing that it could parse
        return 1, _encoded(CniError(INTERNAL, f"a mistake in meshnet-cni: {_where(error)}"), version)


def read_input(patience: float) -> bytes:
    """All of standard input. CniError 5 when it doesn't end in time, 6 when it is longer than any configuration."""
    deadline = time.monotonic() + patience
    poll = select.poll()
    poll.register(0, select.POLLIN)
    found = bytearray()
    while True:
        left = deadline - time.monotonic()
        if left <= 0 or not poll.poll(int(left * 1000) + 1):
            raise CniError(IO_FAILURE, f"the network configuration didn't end within {patience:g} s")
        try:
            piece = os.read(0, 1 << 16)
        except OSError as error:
            raise CniError(IO_FAILURE, f"the network configuration can't be read: {error.strerror}") from None
        if not piece:
            return bytes(found)
        found += piece
        if len(found) > LARGEST:
            raise CniError(UNDECODABLE, f"the network configuration is longer than {LARGEST >> 20} MiB")


def _carried_out(verb: Verb, asked: Call, config: Config, journal: Journal) -> str:
    from meshnet.model.errors import MeshnetError

    try:
        return verb(asked, config, journal)
    except MeshnetError as error:
        from meshnet.cni.visit import refused

        raise refused(error) from None


def _versions(read: Callable[[float], bytes]) -> str:
    """The answer in the version that was named, if any was: ``cniVersion`` is that of the input (section 5)."""
    from meshnet.spec.jsontext import NotJson, decode, encode

    version: object = None
    try:
        found = decode(read(SHORT_PATIENCE).decode("utf-8"))
        version = found.get("cniVersion") if isinstance(found, dict) else None
    except (CniError, NotJson, UnicodeDecodeError):
        pass  # the oldest runtimes send nothing
    return encode({"cniVersion": version if version in VERSIONS else NEWEST, "supportedVersions": list(VERSIONS)})


def _encoded(error: CniError, version: str) -> str:
    from meshnet.spec.jsontext import encode

    return encode(error.answer(version))


def _where(error: BaseException) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    line = f" ({os.path.basename(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno})" if trace is not None else ""
    return f"{type(error).__name__}: {error}{line}"


def _explain(words: list[str]) -> int:
    if words in (["--version"], ["-V"]):
        from meshnet import __version__

        os.write(1, f"meshnet-cni, version {__version__}\n".encode())
        return 0
    fine = words in (["--help"], ["-h"])
    os.write(1 if fine else 2, f"{USAGE}\n".encode())
    return 0 if fine else 2
