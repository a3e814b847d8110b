"""What a test of one's own looks like. Copy it anywhere, and run it as root: pytest -p meshnet.testing test_pod.py"""

from __future__ import annotations

import pytest

from meshnet.testing import from_client, from_pod

KEPT = "inbound: {mode: tproxy, originalSource: true}"
HIDDEN = "inbound: {mode: tproxy, originalSource: false}"


@pytest.mark.parametrize("family", [4, 6])
def test_the_application_sees_its_client(pod, sidecar, family):
    pod.apply(KEPT)
    pod.start_application(port=80)
    sidecar()
    pod.assert_app_sees("client", from_client(family=family))


def test_without_it_the_passthrough_address_is_all_that_is_seen(pod, sidecar):
    pod.apply(HIDDEN)
    pod.start_application(port=80)
    sidecar()
    pod.assert_app_sees("passthrough")


def test_what_the_pod_sends_is_captured_and_the_sidecars_own_is_not(pod, sidecar):
    pod.apply(KEPT)
    sidecar()
    pod.assert_captured(from_pod("remote"), by="outbound-proxy")
    pod.assert_direct(from_pod("remote", uid=1337))


def test_an_excluded_port_is_nobodys(pod, sidecar):
    pod.apply("inbound: {mode: redirect, excludePorts: [8080]}")
    pod.start_application(port=80)
    pod.start_application(port=8080)
    sidecar()
    assert pod.who_answers(from_client(80)) == "inbound-proxy"
    assert pod.who_answers(from_client(8080)) == "direct"


def test_an_assertion_fails_with_both_traces(pod, sidecar):
    pod.apply(KEPT)
    sidecar()
    with pytest.raises(AssertionError) as caught:
        pod.assert_captured(from_pod("remote", uid=1337))
    assert "expected by the simulator:" in str(caught.value)
    assert "out.sidecar.uid-1337" in str(caught.value)
    assert "SYN 10.244.9.10" in str(caught.value)
