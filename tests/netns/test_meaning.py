"""Where flows land under a spec, with real sockets: one table of flows for every case, two backends, both families."""

from __future__ import annotations

import socket
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from meshnet.apply.session import Session
from meshnet.kernel import links
from meshnet.kernel.netns import where
from meshnet.spec.load import load_text
from tests.netns import foreign, landing
from tests.netns.landing import PLACES, call
from tests.netns.pods import CLIENT, INET, POD, RESOLVER
from tests.netns.snapshot import run

if TYPE_CHECKING:
    from meshnet.kernel.netns import Namespace
    from tests.netns.landing import Listeners
    from tests.netns.pods import Pod

CASES = sorted(path for path in (Path(__file__).resolve().parents[1] / "cases").iterdir() if path.is_dir())
MODES = ("redirect", "tproxy")


@pytest.fixture(params=["iptables-nft", "iptables-legacy", "nftables"])
def backend(request: pytest.FixtureRequest) -> str:
    return request.param


def apply(pod: Pod, text: str, backend: str) -> None:
    document = load_text(f"apiVersion: meshnet/v1\nkind: Interception\n{text}", "test.yaml")
    with Session(where(pod.name), backend) as session:
        session.apply(document.spec)


def address_of(word: str, family: int) -> str:
    return PLACES[word][family] if word in PLACES else word


def landed(flow: dict[str, Any], family: int, places: dict[str, Namespace]) -> dict[str, str]:
    """What the flow's table would have to say."""
    name, peer = call(
        places[flow["from"]],
        family,
        address_of(flow["to"], family),
        flow["port"],
        transport=flow.get("transport", "tcp"),
        source=address_of(flow.get("source", ""), family),
        uid=flow.get("uid", 0),
        gid=flow.get("gid", 0),
        mark=flow.get("mark", 0),
    )
    return {"lands": name, **({"seen-as": peer} if "seen-as" in flow else {})}


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.name)
def test_flows(pod: Pod, listeners: Listeners, backend: str, case: Path) -> None:
    table = yaml.safe_load((case / "flows.yaml").read_text())
    places = {"client": pod.client, "pod": pod.pod}
    for extra in table.get("setup", ()):
        if extra == "second":
            pod.second()
        else:
            places["guest"] = pod.guest()
    with Session(where(pod.name), backend) as session:
        session.apply(load_text((case / "spec.yaml").read_text(), "spec.yaml").spec)
    wrong = []
    for family in (4, 6):
        for flow in table["flows"]:
            if family not in flow.get("families", (4, 6)):
                continue
            expected = {"lands": flow["lands"]}
            if "seen-as" in flow:
                expected["seen-as"] = address_of(flow["seen-as"], family)
            found = landed(flow, family, places)
            if found != expected:
                wrong.append(f"IPv{family} {flow}: {found}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("transport", ["udp", "tcp"])
@pytest.mark.parametrize("family", [4, 6])
def test_application_and_sidecar_ask_from_one_port(
    pod: Pod, listeners: Listeners, backend: str, family: int, transport: str
) -> None:
    """Conntrack still knows the application's captured query when the sidecar's has the same five numbers."""
    apply(pod, "dns: {capture: all}\n", backend)
    for _ in range(3):
        for uid, expected in ((0, "dns-proxy"), (1337, "remote")):
            landed_at = call(
                pod.pod, family, RESOLVER[family], 53, transport=transport, source_port=40053, uid=uid, gid=uid
            )
            assert landed_at[0] == expected, f"uid {uid}"


@pytest.mark.parametrize("family", [4, 6])
@pytest.mark.parametrize("mode", MODES)
def test_a_port_that_has_just_been_used_is_captured_again(
    pod: Pod, listeners: Listeners, backend: str, mode: str, family: int
) -> None:
    """The sidecar closes first and its socket lingers in TIME-WAIT; the client's next call comes from the same port."""
    apply(pod, f"inbound: {{mode: {mode}}}\n", backend)
    for _ in range(3):
        with pod.client.entered():
            made = socket.socket(INET[family])
        with made:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            made.settimeout(landing.PATIENCE)
            made.bind((CLIENT[family], 41555))
            made.connect((POD[family], 80))
            answer = b"".join(iter(lambda made=made: made.recv(512), b""))
        assert answer.split()[0] == b"inbound-proxy"
        assert ":41555" in run(pod.pod, "ss", "-tan", "state", "time-wait")


@pytest.mark.parametrize("family", [4, 6])
@pytest.mark.parametrize("mode", MODES)
def test_an_open_connection_survives(pod: Pod, backend: str, mode: str, family: int) -> None:
    """A client talks with the application while the rules come, change and go: not a byte is lost, either way."""
    talks = Talk(pod, family)
    talks.say()
    apply(pod, f"inbound: {{mode: {mode}}}\n", backend)
    talks.say()
    apply(pod, f"inbound: {{mode: {mode}, ports: [80]}}\n", backend)
    talks.say()
    with Session(where(pod.name), backend) as session:
        session.remove()
    talks.say()
    talks.close()


@pytest.mark.parametrize("family", [4, 6])
def test_an_open_connection_breaks_when_each_segment_is_looked_at(pod: Pod, backend: str, family: int) -> None:
    """``enrol: any-segment``: what was open before doesn't go on past the sidecar."""
    talks = Talk(pod, family)
    talks.say()
    apply(pod, "inbound: {mode: tproxy}\nenrol: any-segment\n", backend)
    with pytest.raises((TimeoutError, ConnectionError)):
        talks.say()
    talks.close()


@pytest.mark.parametrize("family", [4, 6])
@pytest.mark.parametrize("mode", MODES)
def test_an_own_call_that_is_open_survives(pod: Pod, backend: str, mode: str, family: int) -> None:
    """The pod's application talks with a remote one."""
    talks = Talk(pod, family, outward=True)
    talks.say()
    apply(pod, f"inbound: {{mode: {mode}}}\n", backend)
    talks.say()
    talks.close()


class Talk:
    """A connection between the client and the application on port 80 of the pod, or outward to the client's."""

    def __init__(self, pod: Pod, family: int, *, outward: bool = False) -> None:
        here, there = (pod.client, pod.pod) if outward else (pod.pod, pod.client)
        with here.entered():
            self._listening = socket.create_server(("", 80), family=INET[family])
        with there.entered():
            self._near = socket.socket(INET[family])
        self._near.settimeout(landing.PATIENCE)
        self._near.connect((CLIENT[family] if outward else POD[family], 80))
        self._far, _ = self._listening.accept()
        self._far.settimeout(landing.PATIENCE)

    def say(self) -> None:
        for one, other in ((self._near, self._far), (self._far, self._near), (self._far, self._near)):
            one.sendall(b"still there?")
            assert other.recv(64) == b"still there?"

    def close(self) -> None:
        for made in (self._near, self._far, self._listening):
            made.close()


@pytest.mark.parametrize("family", [4, 6])
@pytest.mark.parametrize("uid", [0, 1337])
@pytest.mark.parametrize("mode", MODES)
def test_a_spoofed_call_reaches_the_application_once(
    pod: Pod, listeners: Listeners, backend: str, mode: str, uid: int, family: int
) -> None:
    """Rule sets in use today send a sidecar that isn't root back to itself, a thousand times for one request."""
    apply(pod, f"inbound: {{mode: {mode}}}\n", backend)
    landed_at = call(pod.pod, family, POD[family], 80, source=CLIENT[family], mark=0x539, uid=uid, gid=uid)
    assert landed_at == ("application", CLIENT[family])
    assert listeners.seen == {"application": 1}


@pytest.mark.parametrize("mode", MODES)
def test_others_bits_of_a_mark_stay(pod: Pod, listeners: Listeners, backend: str, mode: str) -> None:
    """Somebody's rule looks for its own bits on packets that ours have marked."""
    apply(pod, f"inbound: {{mode: {mode}}}\n", backend)
    for family in (4, 6):
        foreign.restore(
            pod.pod,
            backend,
            family,
            "*mangle\n:SEEN - [0:0]\n-I PREROUTING 1 -j MARK --set-xmark 0xab000/0xff000\n"
            "-A OUTPUT -p tcp -m mark --mark 0xcd000/0xff000 -j SEEN\n-A SEEN -j RETURN\nCOMMIT\n"
            "*filter\n:SEEN - [0:0]\n-A INPUT -p tcp -m mark --mark 0xab000/0xff000 -j SEEN\n"
            "-A SEEN -j RETURN\nCOMMIT\n",
        )
        assert call(pod.client, family, POD[family], 80)[0] == "inbound-proxy"
        spoofed = call(pod.pod, family, POD[family], 80, source=CLIENT[family], mark=0xCD539, uid=1337)
        assert spoofed == ("application", CLIENT[family])
        tool = foreign.tool(backend, family, "save")
        counted = [line for line in run(pod.pod, tool, "-c").splitlines() if "-A SEEN" in line]
        assert len(counted) == 2 and not any(line.startswith("[0:0]") for line in counted), counted


@pytest.mark.parametrize("family", [4, 6])
@pytest.mark.parametrize("drop", [True, False])
def test_drop_invalid(pod: Pod, backend: str, drop: bool, family: int) -> None:
    """A segment that belongs to no connection: dropped, or answered by the pod's stack with a reset."""
    apply(pod, f"dropInvalid: {str(drop).lower()}\ninbound: {{mode: redirect}}\n", backend)
    links.sysctl(pod.pod, "net.netfilter.nf_conntrack_tcp_loose", 0)
    assert answered(pod, family) is not drop


def answered(pod: Pod, family: int) -> bool:
    """Whether a stray ACK from the client to port 80 of the pod gets a reset back."""
    with pod.client.entered():
        raw = socket.socket(INET[family], socket.SOCK_RAW, socket.IPPROTO_TCP)
    with raw:
        raw.bind((CLIENT[family], 0))
        raw.connect((POD[family], 0))
        raw.settimeout(0.5)
        head = struct.pack("!HHIIBBHHH", 41000, 80, 1, 1, 5 << 4, 0x10, 1024, 0, 0)
        raw.send(checked(head, family))
        try:
            while True:
                packet = raw.recv(2048)
                tcp = packet[20:] if family == 4 else packet
                if struct.unpack_from("!HH", tcp) == (80, 41000):
                    return bool(tcp[13] & 0x04)
        except TimeoutError:
            return False


def checked(head: bytes, family: int) -> bytes:
    """A TCP header with its checksum (RFC 9293 section 3.1, RFC 8200 section 8.1)."""
    ends = socket.inet_pton(INET[family], CLIENT[family]) + socket.inet_pton(INET[family], POD[family])
    words = ends + struct.pack("!HH", 6, len(head)) + head
    total = sum(struct.unpack(f"!{len(words) // 2}H", words))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return head[:16] + struct.pack("!H", ~total & 0xFFFF) + head[18:]
