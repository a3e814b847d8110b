from __future__ import annotations

from typing import Any

import pytest

from meshnet.model.spec import Spec
from meshnet.model.value import replace
from meshnet.probe.validation import Outcome, Validation, _excluded, _port
from meshnet.spec.dialects.istio import spec_of
from meshnet.spec.dialects.istio_options import RULES, Word

NAMES = {option.short: option.name for option in RULES if option.short}
PROBE = 15002


def spec(profile: Any = "istio", **options: str) -> Spec:
    given = {NAMES.get(name, name.replace("_", "-")): text for name, text in options.items()}
    return spec_of({name: Word(text, name) for name, text in given.items()}, profile=profile)


@pytest.mark.parametrize("mode", ["REDIRECT", "TPROXY"])
@pytest.mark.parametrize(
    ("options", "istio", "meshnet"),
    [
        ({"b": "*"}, PROBE, PROBE),
        ({"b": "*", "d": "15002"}, PROBE, 15030),
        ({"b": "80,9000:9100"}, PROBE, 80),
        ({"b": "15000:15010"}, PROBE, PROBE),
        ({"b": "*", "e": "15002"}, 15030, 15030),
        ({"b": "*", "o": "15002"}, 15030, 15030),
        ({"b": "*", "o": "15002,15030", "d": "15031"}, 15031, 15032),
        ({"b": "80", "d": "80"}, PROBE, None),
        ({"b": "80", "o": "80"}, PROBE, None),
        ({}, PROBE, None),
        ({"b": "*", "istio_outbound_owner_groups_exclude": "1337"}, PROBE, None),
        ({"b": "*", "istio_outbound_owner_groups_exclude": "0"}, PROBE, PROBE),
    ],
    ids=str,
)
def test_a_port_that_is_captured(options: dict[str, str], istio: int | None, meshnet: int | None, mode: str) -> None:
    assert _port(spec(m=mode, **options), PROBE) == istio
    assert _port(spec("meshnet", m=mode, **options), PROBE) == meshnet


def test_the_port_of_dns_is_another_listener_s() -> None:
    captured = spec(b="*", redirect_dns="true", capture_all_dns="true")
    assert _port(captured, 53) == 15030
    assert _port(spec(b="*"), 53) == 53


def test_a_spec_that_leaves_own_pod_calls_alone() -> None:
    alone = spec("meshnet", b="*")
    assert _port(replace(alone, inbound=replace(alone.inbound, own_pod=False)), PROBE) is None


def test_an_address_in_an_excluded_block() -> None:
    blocks = {"x": "10.0.0.0/8,fd00::/8"}
    assert _excluded(spec("meshnet", **blocks), 4, "10.1.2.3")
    assert _excluded(spec("meshnet", **blocks), 6, "fd01::1")
    assert not _excluded(spec("meshnet", **blocks), 4, "192.0.2.1")
    assert not _excluded(spec("istio", **blocks), 4, "10.1.2.3")


def test_redirected_is_what_every_family_says() -> None:
    good, bad = Outcome(4, True, "yes"), Outcome(6, False, "no")
    assert Validation((good,)).redirected
    assert not Validation((good, bad)).redirected
    assert Validation(()).redirected
