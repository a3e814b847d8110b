from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.unit.cli.commands import data
from tests.unit.simulate.pods import table

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PLAIN = table("mangle", "-A OUTPUT -p udp -j ACCEPT")
PROXY = {
    "gid": 1337,
    "inbound_port": 15006,
    "outbound_port": 15001,
    "transparent": True,
    "dials": "original destination",
    "bind": None,
    "original_src": False,
    "original_src_mark": None,
}


def case(name: str, *measured: tuple[int, int, str], rules: str = "plain.rules") -> dict[str, Any]:
    keys = ("proxy_uid", "route_localnet", "outcome")
    return {
        "name": name,
        "rules": rules,
        "policy_routing": True,
        "proxy": PROXY,
        "measured": [dict(zip(keys, item, strict=True)) for item in measured],
    }


@pytest.fixture
def told(called: Any, tmp_path: Path) -> Callable[..., tuple[int, str, str]]:
    """Tells a file of these cases, beside which lie rules that do nothing: the client is seen."""

    def run(cases: list[dict[str, Any]], *words: str) -> tuple[int, str, str]:
        folder = tmp_path / "here"
        folder.mkdir(exist_ok=True)
        (folder / "plain.rules").write_text(PLAIN)
        topology = {"client": "10.9.0.2/24 on eth0", "pod": "10.9.0.10/24 on eth0"}
        (folder / "cases.json").write_text(json.dumps({"topology": topology, "cases": cases}))
        found: tuple[int, str, str] = called("explain", "--scenario", str(folder / "cases.json"), *words)
        return found

    return run


SEEN = case("plain", (0, 0, "10.9.0.2"), (1337, 1, "10.9.0.2"))
WRONG = case("wrong", (7, 1, "127.0.0.6"))


def test_what_is_predicted_beside_what_was_measured(told: Callable[..., tuple[int, str, str]]) -> None:
    code, out, _ = told([SEEN])
    lines = out.splitlines()
    assert code == 0
    assert lines[0].split() == ["case", "uid", "route_localnet", "predicted", "measured"]
    assert lines[2].split() == ["plain", "1337", "1", "10.9.0.2", "10.9.0.2"]
    assert lines[-1] == "2 of 2 predictions are what was measured"


def test_one_difference_is_a_negative_answer(told: Callable[..., tuple[int, str, str]]) -> None:
    code, out, _ = told([SEEN, WRONG])
    assert (code, out.count("DIFFERS")) == (1, 1)
    assert out.splitlines()[-1].startswith("2 of 3 ")


def test_a_case_that_was_named_is_told_with_its_reason(told: Callable[..., tuple[int, str, str]]) -> None:
    code, out, _ = told([WRONG, SEEN], "plain")
    assert code == 0
    assert "wrong" not in out
    assert "plain, uid 0, route_localnet 0: the client's call: " in out
    assert "the client's call" not in told([SEEN])[1]


def test_cases_come_in_the_order_in_which_they_are_named(told: Callable[..., tuple[int, str, str]]) -> None:
    found = data(told([SEEN, WRONG], "wrong", "plain", "-o", "json")[1])["cases"]
    assert [item["name"] for item in found] == ["wrong", "plain", "plain"]
    first = found[0]
    assert (first["proxy_uid"], first["route_localnet"], first["call"]) == (7, 1, "client")
    assert (first["predicted"], first["measured"]) == ("10.9.0.2", "127.0.0.6")
    assert first["because"]


def test_every_case_that_nobody_knows_is_named(told: Callable[..., tuple[int, str, str]]) -> None:
    code, _, err = told([SEEN, WRONG], "plain", "one", "two")
    assert code == 2
    assert "no case one, two" in err
    assert "one of plain, wrong" in err


def test_rules_that_aren_t_there(told: Callable[..., tuple[int, str, str]]) -> None:
    code, _, err = told([SEEN, case("gone", (0, 0, "reset"), rules="none.rules")])
    assert code == 2
    assert "here/none.rules" in err


def test_no_cases_at_all(told: Callable[..., tuple[int, str, str]]) -> None:
    code, out, _ = told([])
    assert code == 0
    assert out.splitlines()[-1] == "0 of 0 predictions are what was measured"


@pytest.mark.parametrize("client", ["", " ", "x", "fd00::1"])
def test_a_topology_without_a_client_is_none(called: Any, tmp_path: Path, client: str) -> None:
    path = tmp_path / "cases.json"
    path.write_text(json.dumps({"topology": {"client": client, "pod": "10.9.0.10/24"}, "cases": []}))
    assert called("explain", "--scenario", str(path))[0] == 2
