"""A file of scenarios (JSON): what the topology says in words, and for each case how the sidecar behaves."""

from __future__ import annotations

import json

from meshnet.model.cidr import read_address
from meshnet.model.errors import UsageError, Wrong
from meshnet.model.marks import Mark
from meshnet.model.scenario import Case, Measurement, Scenario, Topology
from meshnet.model.story import Conduct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

ORIGINAL = "original destination"
APPLICATION_PORT = 80
HINT = "see docs/explain.md for the form of a scenario file"


def read_scenario(text: str, name: str) -> Scenario:
    """The scenario in a JSON text; UsageError says what is wrong and where."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{name} is no JSON: {error}", hint=HINT) from error
    place = "topology"
    try:
        topology = _topology(document["topology"])
        cases = []
        for number, case in enumerate(document["cases"]):
            place = f"cases[{number}]"
            cases.append(_case(case))
    except KeyError as error:
        raise UsageError(f"{name}: {place} has no {error.args[0]}", hint=HINT) from error
    except Wrong as error:
        raise UsageError(f"{name}: {place}: {error.what}: {error.right}", hint=HINT) from error
    except (TypeError, ValueError, AttributeError, IndexError) as error:
        raise UsageError(f"{name}: {place} isn't of the form of a scenario", hint=HINT) from error
    return Scenario(topology, tuple(cases))


def _topology(words: dict[str, Any]) -> Topology:
    """Addresses are the first word of a sentence, as in ``10.0.0.2/24 on eth0, …``."""
    client, pod = (words[end].split()[0] for end in ("client", "pod"))
    address, _, prefix = pod.partition("/")
    return Topology(
        _address(client.partition("/")[0]),
        _address(address),
        int(prefix),
        APPLICATION_PORT,
        *_policy(words.get("policy_routing", "")),
    )


def _policy(text: str) -> tuple[Mark, int]:
    """The mark and the table in ``ip rule add fwmark N lookup N; …``."""
    words = text.replace(";", " ").split()

    def behind(word: str, otherwise: str) -> str:
        return words[words.index(word) + 1] if word in words[:-1] else otherwise

    number, _, mask = behind("fwmark", "1337").partition("/")
    return Mark(int(number, 0), int(mask or "0xffffffff", 0)), int(behind("lookup", "133"))


def _case(case: dict[str, Any]) -> Case:
    proxy = case["proxy"]
    conduct = Conduct(
        gid=int(proxy["gid"]),
        inbound_port=int(proxy["inbound_port"]),
        outbound_port=int(proxy["outbound_port"]),
        transparent=bool(proxy["transparent"]),
        dials=_end(proxy["dials"]),
        bind=_address(proxy["bind"]) if proxy["bind"] is not None else None,
        spoofs=bool(proxy["original_src"]),
        mark=int(proxy["original_src_mark"] or 0),
    )
    measured = tuple(
        Measurement(int(item["proxy_uid"]), bool(item["route_localnet"]), str(item["outcome"]))
        for item in case["measured"]
    )
    name = str(case["name"])
    return Case(name, str(case.get("about", "")), str(case["rules"]), bool(case["policy_routing"]), conduct, measured)


def _end(text: str) -> tuple[int, int] | None:
    if text == ORIGINAL:
        return None
    address, _, port = text.rpartition(":")
    return _address(address), int(port)


def _address(text: str) -> int:
    family, number = read_address(text)
    if family != 4:
        raise Wrong(f"no IPv4 address ({text})", "scenarios are of IPv4")
    return number
