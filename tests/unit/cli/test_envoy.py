from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml

from meshnet.cli.envoy import _place
from meshnet.model.errors import Wrong
from tests.unit.cli.commands import HEAD, data

if TYPE_CHECKING:
    from pathlib import Path


def listeners(made: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {item["name"]: item for item in made["static_resources"]["listeners"]}


def test_yaml_and_json_say_the_same(called: Any, spec_file: str) -> None:
    words = ("envoy", spec_file, "--http", "80", "--http", "8080", "--tcp", "9000")
    code, out, _ = called(*words)
    assert code == 0
    assert yaml.safe_load(out) == data(called(*words, "-o", "json")[1])


def test_the_listeners_are_those_that_the_rules_lead_to(called: Any, spec_file: str) -> None:
    made = data(called("envoy", spec_file, "-o", "json")[1])
    found = listeners(made)
    ports = {name: item["address"]["socket_address"]["port_value"] for name, item in found.items()}
    assert set(ports.values()) == {15006, 15001}
    assert made["admin"]["address"]["socket_address"] == {"address": "127.0.0.1", "port_value": 15000}


@pytest.mark.parametrize(
    ("families", "both"), [("", True), ("families: [ipv4]\n", False), ("families: [ipv4, ipv6]\n", True)]
)
def test_families_that_are_left_open_are_both(called: Any, tmp_path: Path, families: str, both: bool) -> None:
    path = tmp_path / "pod.yaml"
    path.write_text(HEAD + families)
    assert ("::" in called("envoy", str(path))[1]) is both


def test_every_port_that_was_named_is_declared(called: Any, spec_file: str) -> None:
    out = called("envoy", spec_file, "--http", "80", "--http", "8080", "--tcp", "9000", "--carries", "proxy-protocol")[
        1
    ]
    assert all(str(port) in out for port in (80, 8080, 9000))
    assert "proxy_protocol" in out


def test_connections_are_bounded_when_that_was_asked(called: Any, spec_file: str) -> None:
    assert "overload_manager" not in called("envoy", spec_file)[1]
    assert "max_active_downstream_connections: 7" in called("envoy", spec_file, "--connections", "7")[1]


def test_an_envoyfilter_comes_with_the_pod_s_patch_in_a_comment(called: Any, spec_file: str) -> None:
    out = called("envoy", spec_file, "--envoyfilter")[1]
    assert yaml.safe_load(out.split("---\n")[0])["kind"] == "EnvoyFilter"
    assert list(yaml.safe_load_all(out))[1:] in ([None], [])
    assert all(line.startswith("#") for line in out.split("---\n")[1].splitlines())
    assert [item.get("kind") for item in data(called("envoy", spec_file, "--envoyfilter", "-o", "json")[1])] == [
        "EnvoyFilter",
        None,
    ]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--http", "80", "--tcp", "80"), "a declared port twice"),
        (("--carries", "proxy-protocol"), "without a declared port"),
        (("--tcp", "80", "--carries", "x-forwarded-for"), "isn't HTTP"),
        (("--dials", "loopback"), "without a declared port"),
        (("--admin", "15000"), "no place of an admin interface"),
        (("--admin", "127.0.0.1:0x1"), "0x1"),
        (("--admin", "localhost:15000"), "localhost"),
        (("--http", "0"), "0 is not in the range"),
        (("--connections", "0"), "0 is not in the range"),
    ],
)
def test_what_can_t_be(called: Any, spec_file: str, words: tuple[str, ...], said: str) -> None:
    code, out, err = called("envoy", spec_file, *words)
    assert (code, out) == (2, "")
    assert said in err


@pytest.mark.parametrize("word", ["/run/envoy.sock", "0.0.0.0:1", "[::1]:15000", "::1:15000"])
def test_places_of_an_admin_interface(word: str) -> None:
    assert _place(word) == word


@pytest.mark.parametrize(
    "word", ["", ":80", "relative/path", "[]:80", "[::1:80", "a b:80", "127.0.0.1:", "1.2.3.4:70000"]
)
def test_no_places_of_an_admin_interface(word: str) -> None:
    with pytest.raises(Wrong):
        _place(word)
