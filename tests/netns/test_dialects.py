"""Where flows land under linkerd's and Kuma's words, with real sockets: what their own rules do with these flows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from meshnet.apply.session import Session
from meshnet.kernel.netns import where
from meshnet.spec.dialects import kuma, linkerd
from tests.netns.landing import PLACES, call

if TYPE_CHECKING:
    from meshnet.model.spec import Spec
    from tests.netns.landing import Listeners
    from tests.netns.pods import Pod

LINKERD = (
    "-p 15006 -o 15001 -u 2102 --inbound-ports-to-ignore 443,9000-9100 --outbound-ports-to-ignore 8080 "
    "--subnets-to-ignore 10.78.0.0/24,fd78::/64"
)
KUMA: dict[str, Any] = {
    "redirect": {
        "inbound": {"excludePorts": [443], "excludePortsForIPs": ["10.78.0.1,fd78::1"]},
        "outbound": {
            "excludePorts": [8080],
            "excludePortsForUIDs": ["tcp:53,9000-9100:106-108"],
            "excludePortsForIPs": ["198.51.100.0/24", "2001:db8:2::/64"],
        },
        "dns": {"enabled": True, "captureAll": True},
        "vnet": {"networks": ["vm0:10.79.0.0/24", "vm0:fd79::/64"]},
    }
}
BOTH = (
    ("client", "pod", 80, {}, "inbound-proxy"),
    ("client", "pod", 443, {}, "application"),
    ("second-client", "second-pod", 80, {}, "application"),
    ("pod", "remote", 80, {}, "outbound-proxy"),
    ("pod", "remote", 8080, {}, "remote"),
    ("pod", "loopback", 80, {}, "application"),
    ("pod", "pod", 80, {}, "application"),
)
FLOWS = {
    "linkerd": (
        *BOTH,
        ("client", "pod", 9090, {}, "application"),
        ("client", "pod", 15008, {}, "inbound-proxy"),
        ("pod", "remote", 80, {"uid": 2102}, "remote"),
        ("pod", "pod", 80, {"uid": 2102}, "application"),
        ("pod", "resolver", 53, {"transport": "udp"}, "remote"),
    ),
    "kuma": (
        *BOTH,
        ("client", "pod", 9090, {}, "inbound-proxy"),
        ("pod", "remote", 80, {"uid": 5678}, "remote"),
        ("pod", "pod", 80, {"uid": 5678}, "inbound-proxy"),
        ("pod", "pod", 80, {"uid": 5678, "source": "passthrough"}, "application"),
        ("pod", "elsewhere", 80, {}, "remote"),
        ("pod", "remote", 9090, {"uid": 106}, "remote"),
        ("pod", "remote", 9090, {"uid": 105}, "outbound-proxy"),
        ("pod", "resolver", 53, {"transport": "udp"}, "dns-proxy"),
        ("pod", "resolver", 53, {"transport": "udp", "uid": 107}, "dns-proxy"),
        ("pod", "resolver", 53, {"uid": 107}, "remote"),
        ("guest", "remote", 80, {}, "outbound-proxy"),
        ("guest", "guest-pod", 80, {}, "inbound-proxy"),
        ("guest", "resolver", 53, {"transport": "udp"}, "dns-proxy"),
    ),
}


def spec_of(dialect: str) -> Spec:
    return linkerd.spec_of(LINKERD.split()).spec if dialect == "linkerd" else kuma.spec_of(KUMA).spec


@pytest.mark.parametrize("backend", ["iptables-nft", "iptables-legacy", "nftables"])
@pytest.mark.parametrize("dialect", FLOWS)
def test_flows(pod: Pod, listeners: Listeners, dialect: str, backend: str) -> None:
    pod.second()
    places = {"client": pod.client, "second-client": pod.client, "pod": pod.pod, "guest": pod.guest()}
    with Session(where(pod.name), backend) as session:
        session.apply(spec_of(dialect))
    wrong = []
    for family in (4, 6):
        for sender, to, port, how, lands in FLOWS[dialect]:
            given = {key: PLACES[item][family] if key == "source" else item for key, item in how.items()}
            found, _ = call(places[sender], family, PLACES[to][family], port, **given)
            if found != lands:
                wrong.append(f"IPv{family} {sender} > {to}:{port} {how}: {found}, not {lands}")
    assert not wrong, "\n".join(wrong)
