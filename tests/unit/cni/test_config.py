from __future__ import annotations

from typing import Any

import pytest

from meshnet.cni.config import ANNOTATIONS, read_config, read_object
from meshnet.cni.protocol import CniError

GOOD: dict[str, Any] = {"cniVersion": "1.1.0", "name": "net", "interception": {}}


def refused(verb: str, raw: dict[str, Any]) -> CniError:
    with pytest.raises(CniError) as error:
        read_config(verb, raw)
    return error.value


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"cniVersion": ""}, 1),
        ({"cniVersion": 5}, 1),
        ({"name": ""}, 7),
        ({"name": "a/b"}, 7),
        ({"name": None}, 7),
        ({"interception": []}, 7),
        ({"interception": None}, 7),
        ({"kubernetes": {}}, 7),
        ({"kubernetes": {"kubeconfig": "relative"}}, 7),
        ({"kubernetes": {"kubeconfig": "/k", "agent": "one"}}, 7),
        ({"kubernetes": {"kubeconfig": "/k", "agent": "kube-system/"}}, 7),
        ({"kubernetes": {"kubeconfig": "/k", "agent": "/meshnet-cni"}}, 7),
        ({"excludeNamespaces": "kube-system"}, 7),
        ({"excludeNamespaces": [1]}, 7),
        ({"logLevel": "loud"}, 7),
        ({"logFile": "here"}, 7),
        ({"stateDir": 1}, 7),
        ({"excludeNamespace": ["a"]}, 2),
        ({"Interception": {}}, 2),
    ],
)
def test_what_is_wrong_has_its_code(change: dict[str, Any], code: int) -> None:
    assert refused("ADD", GOOD | change).code == code


def test_others_keys_are_theirs() -> None:
    raw = GOOD | {"type": "meshnet-cni", "ipam": {}, "dns": {}, "bridge": "cni0", "mtu": 1500, "x-note": "y"}
    assert read_config("ADD", raw).network == "net"


@pytest.mark.parametrize(
    "raw", [{}, {"name": 7}, {"kubernetes": 1}, {"interception": 1}, {"cniVersion": "1.0.0", "excludeNamespaces": 1}]
)
def test_del_takes_half_a_configuration(raw: dict[str, Any]) -> None:
    assert read_config("DEL", raw).complaint is not None


def test_del_still_refuses_a_version_that_is_none() -> None:
    assert refused("DEL", {"cniVersion": "7"}).code == 1


@pytest.mark.parametrize(
    "more",
    [
        {"runtimeConfig": {ANNOTATIONS: {"a": "b"}}},
        {"args": {ANNOTATIONS: {"a": "b"}}},
        {"args": {"cni": {ANNOTATIONS: {"a": "b"}}}},
    ],
)
def test_where_annotations_are(more: dict[str, Any]) -> None:
    assert read_config("ADD", GOOD | more).annotations == {"a": "b"}


def test_a_capability_without_annotations_means_none_and_no_capability_means_unknown() -> None:
    assert read_config("ADD", GOOD | {"capabilities": {ANNOTATIONS: True}}).annotations == {}
    assert read_config("ADD", GOOD).annotations is None


@pytest.mark.parametrize("text", [b"", b"[1]", b"7", b"null", b"{", b"\xff", b'"x"'])
def test_what_is_no_object(text: bytes) -> None:
    with pytest.raises(CniError) as error:
        read_object(text)
    assert error.value.code == 6
