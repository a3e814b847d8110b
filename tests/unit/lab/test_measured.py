from __future__ import annotations

import json

import pytest

from meshnet.lab import measured
from meshnet.model.errors import UsageError

PROXY = {
    "dials": "original destination",
    "gid": 7,
    "original_src": True,
    "original_src_mark": 1337,
    "transparent": True,
}
CASE = {
    "name": "a",
    "about": "b",
    "rules": "a.v4",
    "policy_routing": False,
    "proxy": PROXY,
    "measured": [
        {"proxy_uid": 0, "route_localnet": 0, "outcome": "loop"},
        {"proxy_uid": 5, "route_localnet": 1, "outcome": "10.0.0.2"},
    ],
}


@pytest.fixture
def place(monkeypatch, tmp_path):
    monkeypatch.setenv("MESHNET_CONFORMANCE", str(tmp_path))
    made = tmp_path / measured.PLACE
    made.mkdir()
    (made / "a.v4").write_text("*nat\nCOMMIT\n")
    return made


def test_a_variant_for_each_measurement(place):
    (place / "cases.json").write_text(json.dumps({"cases": [CASE]}))
    (found,) = measured.scenarios()
    first, second = found.variants
    assert (found.name, found.symptom) == ("a", "measured before: 10.0.0.2, loop")
    assert (first.name, first.rules.route_localnet, second.rules.route_localnet) == (
        "uid 0, route_localnet 0",
        False,
        True,
    )
    assert (second.sidecar.uid, second.sidecar.gid, second.sidecar.keeps, second.rules.mark) == (5, 7, True, 1337)
    assert [step.sees for step in second.steps] == ["10.0.0.2", ""]
    assert first.rules.text == "*nat\nCOMMIT\n"


def test_a_proxy_that_dials_loopback_without_a_mark_under_redirect(place):
    proxy = PROXY | {"dials": "127.0.0.1:80", "original_src_mark": None, "transparent": False}
    (place / "cases.json").write_text(json.dumps({"cases": [CASE | {"proxy": proxy}]}))
    variant = measured.scenarios()[0].variants[0]
    assert (variant.sidecar.dials, variant.rules.mark, variant.rules.mode) == ("loopback", 0, "redirect")
    assert [item.port for item in variant.sidecar.declared] == [80]


def test_without_the_files_there_are_none(place):
    assert measured.scenarios() == ()


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"cases": [{}]}', '{"cases": 7}'])
def test_files_of_another_form(place, text):
    (place / "cases.json").write_text(text)
    with pytest.raises(UsageError, match=r"cases\.json"):
        measured.scenarios()
