from __future__ import annotations

import pytest

from meshnet.model.errors import UsageError
from meshnet.sidecar.envoyfilter import envoyfilter, pod_patch
from tests.unit.spec.writing import spec_of

HIDES = "inbound: {originalSource: false}"


def context(body):
    (container,) = pod_patch(spec_of(body))["spec"]["containers"]
    assert container["name"] == "istio-proxy"
    return container["securityContext"]


def test_the_filter_puts_the_spec_s_mark_on_the_connection():
    made = envoyfilter(spec_of("name: web\nmarks: {inbound: 0x10, outbound: 0x11, mask: 0xff}"))
    assert made["metadata"]["name"] == "web-original-source"
    (patch,) = made["spec"]["configPatches"]
    (added,) = patch["patch"]["value"]["listener_filters"]
    assert (added["typed_config"]["mark"], added["typed_config"]["bind_port"]) == (0x10, False)
    assert patch["match"]["listener"]["name"] == "virtualInbound"


@pytest.mark.parametrize(("mode", "word"), [("tproxy", "TPROXY"), ("redirect", "REDIRECT")])
def test_the_pod_s_mode_is_the_spec_s(mode, word):
    patch = pod_patch(spec_of(f"inbound: {{mode: {mode}, originalSource: true}}"))
    assert patch["metadata"]["annotations"] == {"sidecar.istio.io/interceptionMode": word}


def test_the_proxy_is_root_and_known_by_its_first_group():
    found = context("sidecar: {uids: [1337], gids: [7, 8]}")
    assert (found["runAsUser"], found["runAsGroup"], found["capabilities"]) == (0, 7, {"add": ["NET_ADMIN"]})


@pytest.mark.parametrize("body", ["sidecar: {uids: [], gids: [], mark: 1}", "sidecar: {uids: [5, 0], gids: []}"])
def test_a_mark_or_root_among_the_users_will_do(body):
    assert "runAsGroup" not in context(body)


def test_another_user_alone_gets_no_capability():
    with pytest.raises(UsageError, match="by its user alone"):
        context("sidecar: {uids: [1337], gids: []}")


@pytest.mark.parametrize("body", [HIDES, "inbound: {mode: none}", "inbound: {ports: []}"])
@pytest.mark.parametrize("make", [envoyfilter, pod_patch])
def test_a_spec_that_keeps_no_source_has_neither(make, body):
    with pytest.raises(UsageError, match="keeps no client address"):
        make(spec_of(body))
