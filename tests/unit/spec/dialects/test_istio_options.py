from __future__ import annotations

import pytest

from meshnet.model.errors import Wrong
from meshnet.spec.dialects.istio_options import ALL, BEHAVIOUR, RULES, Option, read_truth


@pytest.mark.parametrize(
    ("name", "variables"),
    [
        ("envoy-port", ("ENVOY_PORT",)),
        ("redirect-dns", ("REDIRECT_DNS", "ISTIO_META_DNS_CAPTURE")),
        ("drop-invalid", ("DROP_INVALID", "INVALID_DROP")),
        ("dual-stack", ("DUAL_STACK", "ISTIO_AGENT_DUAL_STACK", "ISTIO_DUAL_STACK")),
        ("envoy-user", ("ENVOY_USER",)),
        ("istio-outbound-owner-groups-exclude", ("ISTIO_OUTBOUND_OWNER_GROUPS_EXCLUDE",)),
    ],
)
def test_variables(name: str, variables: tuple[str, ...]) -> None:
    (option,) = [option for option in ALL if option.name == name]
    assert (option.variable, *option.also) == variables


def test_every_short_flag_of_the_original() -> None:
    assert {option.short: option.name for option in ALL if option.short} == {
        "p": "envoy-port",
        "z": "inbound-capture-port",
        "e": "inbound-tunnel-port",
        "u": "proxy-uid",
        "g": "proxy-gid",
        "m": "istio-inbound-interception-mode",
        "b": "istio-inbound-ports",
        "d": "istio-local-exclude-ports",
        "i": "istio-service-cidr",
        "x": "istio-service-exclude-cidr",
        "q": "istio-outbound-ports",
        "o": "istio-local-outbound-ports-exclude",
        "k": "kube-virt-interfaces",
        "c": "istio-exclude-interfaces",
        "t": "istio-inbound-tproxy-mark",
        "r": "istio-inbound-tproxy-route-table",
        "n": "dry-run",
        "f": "restore-format",
    }


def test_what_decides_rules_decides_nothing_else() -> None:
    assert not {option.name for option in RULES} & {option.name for option in BEHAVIOUR}
    assert set(ALL) == {*RULES, *BEHAVIOUR}


def test_a_message_has_every_name_that_somebody_may_have_used() -> None:
    assert Option("drop-it", "i", "flag", "", ("OLD_NAME",)).label == "--drop-it (-i, DROP_IT, OLD_NAME)"
    assert Option("drop-it", "", "flag", "").label == "--drop-it (DROP_IT)"


@pytest.mark.parametrize("word", ["1", "t", "T", "true", "TRUE", "True"])
def test_true(word: str) -> None:
    assert read_truth(word) is True


@pytest.mark.parametrize("word", ["0", "f", "F", "false", "FALSE", "False"])
def test_false(word: str) -> None:
    assert read_truth(word) is False


@pytest.mark.parametrize("word", ["", "yes", "on", "tRUE", " true", "2"])
def test_neither(word: str) -> None:
    with pytest.raises(Wrong):
        read_truth(word)
