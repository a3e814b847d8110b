from __future__ import annotations

from typing import Any

import pytest

from meshnet.cni.protocol import CniError
from meshnet.cni.result import passed_on, previous

IPS = [{"address": "10.0.0.2/24", "interface": 0}, {"address": "fd00::2/64", "gateway": "fd00::1"}]


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        ({}, 7),
        ({"prevResult": None}, 7),
        ({"prevResult": []}, 7),
        ({"prevResult": {"ips": "x"}}, 7),
        ({"prevResult": {"ips": [1]}}, 7),
        ({"prevResult": {"cniVersion": 1}}, 7),
        ({"prevResult": {"cniVersion": "0.2.0"}}, 1),
    ],
)
def test_what_is_no_result(raw: dict[str, Any], code: int) -> None:
    with pytest.raises(CniError) as refused:
        previous(raw)
    assert refused.value.code == code


def test_an_older_version_names_the_family_of_each_address() -> None:
    said = passed_on({"cniVersion": "1.1.0", "ips": IPS, "x-other": [1]}, "0.4.0")
    assert [address["version"] for address in said["ips"]] == ["4", "6"]
    assert (said["cniVersion"], said["x-other"]) == ("0.4.0", [1])
    assert passed_on(said, "1.0.0") == {"cniVersion": "1.0.0", "ips": IPS, "x-other": [1]}


@pytest.mark.parametrize("version", ["0.3.1", "0.4.0", "1.0.0", "1.1.0"])
def test_everything_else_is_handed_on_as_it_came(version: str) -> None:
    found = {"cniVersion": version, "interfaces": [{"name": "eth0", "mtu": 9}], "routes": [{"dst": "::/0"}], "dns": {}}
    assert passed_on(previous({"prevResult": found}), version) == found
