"""Which scenarios there are, and which of them can't run here, with the reason."""

from __future__ import annotations

import difflib
import os
from pathlib import Path

from meshnet.lab import measured
from meshnet.lab.installed import envoy_binary, java_binary, nginx_binary, zookeeper_classes
from meshnet.lab.reading import shipped
from meshnet.model.errors import MissingToolError, UnsupportedError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from meshnet.lab.scenario import Scenario

NEEDS: dict[str, tuple[Callable[[], str], ...]] = {
    "envoy": (envoy_binary,),
    "nginx": (nginx_binary,),
    "zookeeper": (java_binary, zookeeper_classes),
}


def everything() -> tuple[Scenario, ...]:
    """All scenarios: those that come with meshnet, then the measured rule sets where their files are."""
    return (*shipped(), *measured.scenarios())


def absent() -> str:
    """Why the measured rule sets are missing, in a line; empty when they aren't. UnsupportedError for that in CI."""
    if measured.scenarios():
        return ""
    said = f"the measured rule sets are left out: no {measured.PLACE} in {measured.folder()}"
    if os.environ.get("CI") == "true":
        raise UnsupportedError([said], hint="MESHNET_CONFORMANCE names the folder of the conformance files")
    return f"{said} (MESHNET_CONFORMANCE names the folder)"


def named(names: Sequence[str]) -> tuple[Scenario, ...]:
    """The scenarios of these names, in their order. UsageError for one that nobody has."""
    known = {scenario.name: scenario for scenario in everything()}
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            raise UsageError(
                f"there is no scenario {name}", hint=f"{near[0]}?" if near else "meshnet lab list shows what there is"
            )
    return tuple(known[name] for name in dict.fromkeys(names))


def why_not(scenario: Scenario) -> str:
    """Why a scenario can't run here; empty when it can."""
    for need in sorted(scenario.needs):
        if need == "ids":
            if single_user():
                return "needs users other than one's own, and there is one in this user namespace"
            continue
        for find in NEEDS[need]:
            try:
                find()
            except MissingToolError as error:
                return f"{error.message}: {error.hint}"
    return ""


def single_user() -> bool:
    """Whether this user namespace has one user alone, as ``unshare -r`` makes it (user_namespaces(7), uid_map)."""
    try:
        lines = Path("/proc/self/uid_map").read_text(encoding="ascii").splitlines()
    except OSError:
        return False
    return sum(int(line.split()[2]) for line in lines) == 1
