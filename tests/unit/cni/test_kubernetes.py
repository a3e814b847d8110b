"""The small client against a server: TLS, tokens, faults; and kubeconfigs as they are found."""

from __future__ import annotations

import base64
import json
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from meshnet.cni.kubernetes import Access, Api, read_kubeconfig
from meshnet.cni.protocol import CniError
from tests.cni.api import TOKEN, FakeApi, certified, injected


def access(api: FakeApi, **more: Any) -> Access:
    return Access(api.url, token=TOKEN, **more)


def test_a_pod_is_asked_for_once(api: FakeApi) -> None:
    assert Api(access(api)).pod("shop", "web", "uid-web")["metadata"]["name"] == "web"
    assert api.requests == ["GET /api/v1/namespaces/shop/pods/web"]


@pytest.mark.parametrize("faults", [[500], [503, 429], [408], [401, 404]])
def test_what_may_pass_is_asked_again(api: FakeApi, faults: list[int]) -> None:
    api.failing = list(faults)
    assert Api(access(api)).pod("shop", "web")
    assert len(api.requests) == 1 + len(faults)


@pytest.mark.parametrize("status", [400, 403])
def test_what_lasts_is_not(api: FakeApi, status: int) -> None:
    api.failing = [status] * 9
    with pytest.raises(CniError) as refused:
        Api(access(api)).pod("shop", "web")
    assert (refused.value.code, len(api.requests)) == (11, 1)


def test_trying_ends(api: FakeApi) -> None:
    begin = time.monotonic()
    with pytest.raises(CniError) as refused:
        Api(access(api), patience=0.5).pod("shop", "not-there")
    assert refused.value.code == 11
    assert time.monotonic() - begin < 2
    assert 1 < len(api.requests) < 10


def test_a_server_that_is_not_there(api: FakeApi) -> None:
    with pytest.raises(CniError) as refused:
        Api(Access("http://127.0.0.1:1"), patience=0.3).pod("shop", "web")
    assert refused.value.code == 11


def test_a_pod_of_the_same_name_from_before_is_another_one(api: FakeApi) -> None:
    with pytest.raises(CniError) as refused:
        Api(access(api), patience=0.3).pod("shop", "web", "uid-of-the-new-one")
    assert "uid" in refused.value.details


def test_a_token_is_read_at_each_request(api: FakeApi, tmp_path: Path) -> None:
    """A service account's token is replaced while the plugin waits for its turn."""
    token = tmp_path / "token"
    token.write_text("old\n")
    asked = Api(Access(api.url, token_file=str(token)), patience=2)
    api.token = "new"
    answer = api.answer

    def renewed(*words: Any) -> Any:
        return answer(*words)

    api.answer = renewed  # type: ignore[method-assign]
    with pytest.raises(CniError):
        Api(Access(api.url, token_file=str(token)), patience=0.2).pod("shop", "web")
    token.write_text("new\n")
    assert asked.pod("shop", "web")


def test_pods_labels_deletion_and_taints(api: FakeApi) -> None:
    asked = Api(access(api))
    api.put(injected("other"))
    api.pods["shop/other"]["spec"]["nodeName"] = "elsewhere"
    assert [pod["metadata"]["name"] for pod in asked.pods_of("here")] == ["web"]
    asked.label("shop", "web", {"a": "b"})
    assert api.pods["shop/web"]["metadata"]["labels"] == {"a": "b"}
    asked.delete("shop", "web", "uid-web")
    assert api.deleted[0]["preconditions"] == {"uid": "uid-web"}
    api.nodes["here"] = {"metadata": {"resourceVersion": "1"}, "spec": {"taints": [{"key": "a"}, {"key": "b"}]}}
    assert asked.untaint("here", "a")
    assert not asked.untaint("here", "a")
    assert api.nodes["here"]["spec"]["taints"] == [{"key": "b"}]


def kubeconfig(folder: Path, cluster: dict[str, Any], user: dict[str, Any], *, as_yaml: bool) -> str:
    data = {
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    path = folder / "kubeconfig"
    path.write_text(yaml.safe_dump(data) if as_yaml else json.dumps(data))
    return str(path)


@pytest.mark.parametrize("as_yaml", [True, False])
def test_a_kubeconfig_in_either_form(tmp_path: Path, as_yaml: bool) -> None:
    cluster = {"server": "https://10.96.0.1:443/", "certificate-authority": "ca.crt"}
    path = kubeconfig(tmp_path, cluster, {"tokenFile": "/var/token"}, as_yaml=as_yaml)
    found = read_kubeconfig(path)
    assert (found.server, found.authority_file) == ("https://10.96.0.1:443", str(tmp_path / "ca.crt"))
    assert (found.token_file, found.insecure) == ("/var/token", False)


@pytest.mark.parametrize("text", ["", "[]", "{", "a: [", "{}", '{"contexts": [{"name": "x"}]}', '{"contexts": 7}'])
def test_a_kubeconfig_that_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "k").write_text(text)
    for path in (tmp_path / "k", tmp_path / "none", tmp_path):
        with pytest.raises(CniError) as refused:
            read_kubeconfig(str(path))
        assert refused.value.code == 50


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return certified(tmp_path_factory.mktemp("tls"))


def test_the_server_s_certificate_is_judged(api: FakeApi, authority: tuple[Path, Path], tmp_path: Path) -> None:
    url = api.over_tls(*authority)
    data = base64.b64encode(authority[1].read_bytes()).decode()
    for cluster in ({"certificate-authority": str(authority[1])}, {"certificate-authority-data": data}):
        path = kubeconfig(tmp_path, {"server": url, **cluster}, {"token": TOKEN}, as_yaml=False)
        assert Api(read_kubeconfig(path)).pod("shop", "web")
    assert Api(Access(url, token=TOKEN, insecure=True)).pod("shop", "web")
    with pytest.raises(CniError) as refused:
        Api(Access(url, token=TOKEN), patience=0.2).pod("shop", "web")
    assert "certificate" in refused.value.details.lower()


def test_a_client_certificate_lies_in_no_file(api: FakeApi, authority: tuple[Path, Path], tmp_path: Path) -> None:
    url = api.over_tls(*authority, asks_client=True)
    key, certificate = (base64.b64encode(path.read_bytes()).decode() for path in authority)
    user = {"client-certificate-data": certificate, "client-key-data": key, "token": TOKEN}
    path = kubeconfig(tmp_path, {"server": url, "certificate-authority": str(authority[1])}, user, as_yaml=False)
    assert Api(read_kubeconfig(path)).pod("shop", "web")
