"""Where flows land under a spec, with real sockets: one table of flows for every case, two backends, both families."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from meshnet.apply.session import Session
from meshnet.kernel.netns import where
from meshnet.spec.load import load_text
from tests.netns import landing
from tests.netns.landing import PLACES, call

if TYPE_CHECKING:
    from collections.abc import Iterator

    from meshnet.kernel.netns import Namespace
    from tests.netns.landing import Listeners
    from tests.netns.pods import Pod

CASES = sorted(path for path in (Path(__file__).resolve().parents[1] / "cases").iterdir() if path.is_dir())
MODES = ("redirect", "tproxy")


@pytest.fixture(params=["iptables-nft", "iptables-legacy"])
def backend(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def listeners(pod: Pod) -> Iterator[Listeners]:
    made = landing.usual(pod)
    made.start()
    yield made
    made.stop()


def apply(pod: Pod, text: str, backend: str) -> None:
    document = load_text(f"apiVersion: meshnet/v1\nkind: Interception\n{text}", "test.yaml")
    with Session(where(pod.name), backend) as session:
        session.apply(document.spec)


def address_of(word: str, family: int) -> str:
    return PLACES[word][family] if word in PLACES else word


def landed(flow: dict[str, Any], family: int, places: dict[str, Namespace]) -> dict[str, str]:
    """What the flow's table would have to say."""
    name, peer = call(
        places[flow["from"]],
        family,
        address_of(flow["to"], family),
        flow["port"],
        transport=flow.get("transport", "tcp"),
        source=address_of(flow.get("source", ""), family),
        uid=flow.get("uid", 0),
        gid=flow.get("gid", 0),
        mark=flow.get("mark", 0),
    )
    return {"lands": name, **({"seen-as": peer} if "seen-as" in flow else {})}


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.name)
def test_flows(pod: Pod, listeners: Listeners, backend: str, case: Path) -> None:
    table = yaml.safe_load((case / "flows.yaml").read_text())
    places = {"client": pod.client, "pod": pod.pod}
    for extra in table.get("setup", ()):
        if extra == "second":
            pod.second()
        else:
            places["guest"] = pod.guest()
    with Session(where(pod.name), backend) as session:
        session.apply(load_text((case / "spec.yaml").read_text(), "spec.yaml").spec)
    wrong = []
    for family in (4, 6):
        for flow in table["flows"]:
            if family not in flow.get("families", (4, 6)):
                continue
            expected = {"lands": flow["lands"]}
            if "seen-as" in flow:
                expected["seen-as"] = address_of(flow["seen-as"], family)
            found = landed(flow, family, places)
            if found != expected:
                wrong.append(f"IPv{family} {flow}: {found}")
    assert not wrong, "\n".join(wrong)
