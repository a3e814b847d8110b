"""What a container runtime and a plugin say to each other (CNI specification 1.1.0, sections 2 and 5).

Parameters come by environment, the network's configuration by standard input; a result or an error goes to standard
output as JSON. Nothing is imported here that a bare VERSION could do without: every runtime asks it first.
"""

from __future__ import annotations

from meshnet.model.value import value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

VERSIONS = ("0.3.1", "0.4.0", "1.0.0", "1.1.0")
NEWEST = VERSIONS[-1]

SINCE = {"ADD": "0.3.1", "DEL": "0.3.1", "VERSION": "0.3.1", "CHECK": "0.4.0", "GC": "1.1.0", "STATUS": "1.1.0"}
"""Every verb, and the first version of the specification that has it."""

INCOMPATIBLE, UNSUPPORTED_FIELD, UNKNOWN_CONTAINER, BAD_ENVIRONMENT = 1, 2, 3, 4
IO_FAILURE, UNDECODABLE, BAD_CONFIG, BAD_NAMESPACE, TRY_LATER = 5, 6, 7, 8, 11
NOT_AVAILABLE = 50
"""Section "Error"; 8 is libcni's ErrInvalidNetNS, for a namespace that is the plugin's own or none at all."""

REFUSED, DRIFTED, POD_REFUSED, INTERNAL = 100, 101, 102, 110
"""Our own, from 100 on: the kernel or a tool refused; CHECK found differences; the pod asks for what is no spec; a
mistake of this program."""

LONGEST_ID = 200
"""Bytes of a container id: with the interface it becomes a file's name, of which there are 255."""

LONGEST_INTERFACE = 15
"""IFNAMSIZ of linux/if.h without the zero."""

ALPHANUMERIC = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")
NAME = ALPHANUMERIC | set("_.-")


class CniError(Exception):
    """A refusal: ``code`` for the runtime, ``message`` in a line, ``details`` for whoever looks closer."""

    def __init__(self, code: int, message: str, details: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.details = details

    def answer(self, version: str) -> dict[str, Any]:
        said: dict[str, Any] = {"cniVersion": version, "code": self.code, "msg": self.message}
        return said | ({"details": self.details} if self.details else {})


class OwnNamespace(CniError):
    """The namespace is the node's own, which no verb may touch, DEL neither."""

    def __init__(self, path: str) -> None:
        super().__init__(BAD_NAMESPACE, f"CNI_NETNS ({path}) is the node's own namespace: no rules are put there")


@value
class Call:
    """The parameters of one call; ``arguments`` are those of CNI_ARGS."""

    verb: str
    container: str = ""
    netns: str = ""
    interface: str = ""
    arguments: Mapping[str, str] = {}


def read_call(environment: Mapping[str, str]) -> Call:
    """The call that the CNI_ variables describe; CniError 4 names every one that is missing or wrong.

    Section "Parameters". CNI_PATH is for plugins that call others, and this one calls none.
    """
    verb = environment.get("CNI_COMMAND", "")
    if verb not in SINCE:
        said = f"CNI_COMMAND is none of {', '.join(SINCE)} ({_shown(verb)})" if verb else "CNI_COMMAND is missing"
        raise CniError(BAD_ENVIRONMENT, said)
    container, interface = environment.get("CNI_CONTAINERID", ""), environment.get("CNI_IFNAME", "")
    netns = environment.get("CNI_NETNS", "")
    if verb not in ("ADD", "DEL", "CHECK"):
        return Call(verb)
    needed = {"CNI_CONTAINERID": container, "CNI_IFNAME": interface}
    if verb != "DEL":
        needed["CNI_NETNS"] = netns
    wrong = [f"{name} is missing" for name, word in needed.items() if not word]
    if container and (not is_name(container) or len(container) > LONGEST_ID):
        wrong.append(f"CNI_CONTAINERID is no container id ({_shown(container)})")
    if interface and not is_interface(interface):
        wrong.append(f"CNI_IFNAME is no interface name ({_shown(interface)})")
    if netns and (not netns.startswith("/") or not netns.isprintable()):
        wrong.append(f"CNI_NETNS is no absolute path ({_shown(netns)})")
    if wrong:
        raise CniError(BAD_ENVIRONMENT, "; ".join(wrong))
    return Call(verb, container, netns, interface, _arguments(environment.get("CNI_ARGS", "")))


def require_version(verb: str, version: str) -> None:
    """CniError 1 when the configuration's version is none of ours, or has no such verb."""
    if version not in VERSIONS:
        raise CniError(
            INCOMPATIBLE,
            f"cniVersion {_shown(version) or 'is missing, which means 0.1.0,'} is not supported",
            f"supported: {', '.join(VERSIONS)}",
        )
    if VERSIONS.index(version) < VERSIONS.index(SINCE[verb]):
        raise CniError(INCOMPATIBLE, f"cniVersion {version} has no {verb}", f"{verb} came with {SINCE[verb]}")


def is_name(word: str) -> bool:
    """What a container id and a network's name may be: letters, digits, ``_``, ``.``, ``-``; the first alphanumeric."""
    return word[:1] in ALPHANUMERIC and word != "" and NAME.issuperset(word)


def is_interface(word: str) -> bool:
    """What the kernel takes as a name (dev_valid_name of net/core/dev.c)."""
    if not word.isprintable() or word in ("", ".", "..") or any(letter in "/: " for letter in word):
        return False
    return len(word.encode()) <= LONGEST_INTERFACE


def _arguments(text: str) -> dict[str, str]:
    """``KEY=value;KEY=value``. Runtimes pass what they like here, so that what is no pair says nothing to us."""
    pairs = (pair.partition("=") for pair in text.split(";"))
    return {key: word for key, equals, word in pairs if key and equals}


def _shown(text: str, longest: int = 60) -> str:
    cut = text if len(text) <= longest else text[: longest - 1] + "…"
    return cut if cut.isprintable() else ascii(cut)[1:-1]
