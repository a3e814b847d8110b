"""The bootstrap as data, and what Envoy itself says to it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from meshnet.cli.main import call
from meshnet.lab.installed import envoy_binary
from meshnet.model.errors import UsageError, Wrong
from meshnet.model.ports import PortRange
from meshnet.model.spec import Inbound, Sidecar, Spec
from meshnet.sidecar.config import Settings, settings_of
from meshnet.sidecar.envoy import Declared, Envoy, bootstrap
from meshnet.sidecar.envoyfilter import envoyfilter, pod_patch
from meshnet.spec.load import load_text
from tests import strategies

CASES = sorted(Path(__file__).parents[2].joinpath("cases").glob("*/spec.yaml"))


def listeners(data: dict[str, Any]) -> dict[str, Any]:
    return {item["name"]: item for item in data["static_resources"]["listeners"]}


def clusters(data: dict[str, Any]) -> dict[str, Any]:
    return {item["name"]: item for item in data["static_resources"]["clusters"]}


def filters(listener: dict[str, Any]) -> dict[str, Any]:
    return {item["name"].rpartition(".")[2]: item["typed_config"] for item in listener["listener_filters"]}


def test_a_kept_source_takes_the_filter_with_the_mark_and_no_bound_address() -> None:
    made = bootstrap(Envoy(Settings(inbound_mark=0x539)))
    inbound = listeners(made)["virtualInbound"]
    assert inbound["transparent"] is True
    assert filters(inbound)["original_src"]["mark"] == 0x539
    assert "upstream_bind_config" not in clusters(made)["InboundPassthroughClusterIpv4"]
    assert "original_src" not in filters(listeners(made)["virtualOutbound"])


def test_without_it_each_family_binds_its_passthrough_address() -> None:
    made = bootstrap(Envoy(Settings(inbound_mode="redirect", original_source=False)))
    assert "original_src" not in filters(listeners(made)["virtualInbound"])
    assert listeners(made)["virtualInbound"]["transparent"] is False
    bound = [clusters(made)[f"InboundPassthroughClusterIpv{family}"]["upstream_bind_config"] for family in (4, 6)]
    assert [item["source_address"]["address"] for item in bound] == ["127.0.0.6", "::6"]


def test_each_listening_port_and_family_has_an_address() -> None:
    told = Envoy(Settings(inbound_mode="redirect", inbound_ports=PortRange(15006, 15008)))
    inbound = listeners(bootstrap(told))["virtualInbound"]
    found = [inbound["address"], *(item["address"] for item in inbound["additional_addresses"])]
    places = {(item["socket_address"]["address"], item["socket_address"]["port_value"]) for item in found}
    assert places == {(host, port) for host in ("0.0.0.0", "::") for port in (15006, 15007, 15008)}


def test_a_sidecar_known_by_its_mark_puts_it_on_what_it_sends() -> None:
    made = clusters(bootstrap(Envoy(Settings(outbound_mark=7))))["PassthroughCluster"]
    assert made["upstream_bind_config"]["socket_options"][0]["int_value"] == 7


def test_what_contradicts_itself_is_no_value() -> None:
    for wrong in (
        lambda: Envoy(Settings(dials="loopback")),
        lambda: Envoy(Settings(), carries="proxy-protocol"),
        lambda: Envoy(Settings(), (Declared(80), Declared(80, "tcp"))),
        lambda: Envoy(Settings(), (Declared(80, "tcp"),), carries="x-forwarded-for"),
    ):
        with pytest.raises(Wrong):
            wrong()


def test_the_envoyfilter_carries_the_specs_mark_and_the_pod_its_group() -> None:
    spec = Spec(name="shop")
    patch = envoyfilter(spec)["spec"]["configPatches"][0]
    assert patch["patch"]["value"]["listener_filters"][0]["typed_config"]["mark"] == 0x539
    container = pod_patch(spec)["spec"]["containers"][0]["securityContext"]
    assert (container["runAsUser"], container["runAsGroup"]) == (0, 1337)
    assert container["capabilities"] == {"add": ["NET_ADMIN"]}


def test_an_envoyfilter_that_could_not_work_is_refused() -> None:
    with pytest.raises(UsageError, match="keeps no client address"):
        envoyfilter(Spec(inbound=Inbound(original_source=False)))
    with pytest.raises(UsageError, match="user alone"):
        pod_patch(Spec(sidecar=Sidecar(uids=(1337,), gids=())))


def validated(made: dict[str, Any], folder: Path) -> None:
    file = folder / "bootstrap.json"
    file.write_text(json.dumps(made))
    argv = [envoy_binary(), "--mode", "validate", "-c", str(file), "-l", "warn"]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr + json.dumps(made, indent=1)


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.parent.name)
def test_envoy_takes_the_bootstrap_of_each_case(path: Path, tmp_path: Path) -> None:
    spec = load_text(path.read_text(), str(path)).spec
    families = (4, 6) if spec.families == "auto" else spec.families
    validated(bootstrap(Envoy(settings_of(spec, families))), tmp_path)


@pytest.mark.parametrize("carries", ["nothing", "proxy-protocol", "x-forwarded-for"])
@pytest.mark.parametrize("dials", ["original", "loopback"])
def test_envoy_takes_every_way_to_carry_the_client(carries: Any, dials: Any, tmp_path: Path) -> None:
    declared = (Declared(80), Declared(8080)) if carries == "x-forwarded-for" else (Declared(80), Declared(2181, "tcp"))
    settings_ = Settings(dials=dials, segment_sizes=(1386, 1387))
    told = Envoy(settings_, declared, carries, admin="/tmp/a.sock", connections=600)
    validated(bootstrap(told), tmp_path)


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(spec=strategies.specs(), numbers=st.lists(st.integers(1, 65535), max_size=3, unique=True))
def test_envoy_takes_the_bootstrap_of_any_spec(spec: Spec, numbers: list[int], tmp_path: Path) -> None:
    families = (4, 6) if spec.families == "auto" else spec.families
    declared = tuple(Declared(number, "http" if number % 2 else "tcp") for number in numbers)
    validated(bootstrap(Envoy(settings_of(spec, families), declared)), tmp_path)


def test_the_command_prints_yaml_and_json_of_one_meaning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "spec.yaml"
    file.write_text("apiVersion: meshnet/v1\nkind: Interception\nname: shop\n")
    assert call(["envoy", str(file), "--http", "80"]) == 0
    text = yaml.safe_load(capsys.readouterr().out)
    assert call(["envoy", str(file), "--http", "80", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == text
    validated(text, tmp_path)
    assert call(["envoy", str(file), "--envoyfilter"]) == 0
    resource = yaml.safe_load(capsys.readouterr().out.split("---")[0])
    assert resource["kind"] == "EnvoyFilter"
    assert call(["envoy", str(file), "--dials", "loopback"]) == 2
    assert call(["envoy", str(file), "--admin", "nowhere"]) == 2
    assert call(["envoy", str(file), "--admin", "localhost:1"]) == 2, "Envoy takes no names there"
    assert call(["envoy", str(file), "--admin", "[::1]:1"]) == 0
