"""The table of docs/profiles.md, packet by packet: the page is the test's data."""

from __future__ import annotations

import re
import shlex
import socket
import struct
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.netns.commands import meshnet_init
from tests.netns.landing import PLACES, call
from tests.netns.pods import CLIENT, INET, POD, SECOND_CLIENT, SECOND_POD
from tests.netns.snapshot import run

if TYPE_CHECKING:
    from meshnet.kernel.netns import Namespace
    from tests.netns.landing import Listeners
    from tests.netns.pods import Pod

PAGE = Path(__file__).resolve().parents[2] / "docs" / "profiles.md"
ROW = re.compile(r"^\| `(?P<flags>[^`]+)` \| (?P<packet>[^|]+) \| (?P<istio>[^|]+) \| (?P<meshnet>[^|]+) \|", re.M)
PACKET = re.compile(
    r"(?P<place>\w+)(?: uid (?P<uid>\d+))?(?: gid (?P<gid>\d+))?(?: mark (?P<mark>\w+))?(?: as (?P<source>\w+))?"
    r" -> (?P<to>[\w.]+):(?P<port>\d+)"
)
ROWS = [match.groupdict() for match in ROW.finditer(PAGE.read_text())]
PROFILES = ("istio", "meshnet")


@pytest.fixture(params=["nft", "legacy", "native"])
def variant(request: pytest.FixtureRequest) -> str:
    return request.param


def init(pod: Pod, profile: str, variant: str, *words: str, dual: bool = True) -> None:
    backend = ("--native-nftables",) if variant == "native" else ("--force-iptables-binary", variant)
    forced = ("--profile", profile, *backend, *(["--dual-stack"] if dual else []))
    answer = meshnet_init("--network-namespace", pod.name, *forced, *words)
    assert answer.code == 0, answer.err


def beside(variant: str) -> str:
    """The tool of somebody who has rules beside ours."""
    return f"iptables-{'nft' if variant == 'native' else variant}"


def test_the_page_has_its_rows() -> None:
    assert len(ROWS) == PAGE.read_text().count("\n| `") >= 15


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['flags']} {row['packet']}")
def test_the_packet_shows_the_difference(pod: Pod, listeners: Listeners, variant: str, row: dict[str, str]) -> None:
    found = PACKET.fullmatch(row["packet"])
    assert found, f"not a packet: {row['packet']}"
    places: dict[str, Namespace] = {"client": pod.client, "pod": pod.pod}
    if "guest" in row["packet"]:
        places["guest"] = pod.guest()
    for profile in PROFILES:
        init(pod, profile, variant, *shlex.split(row["flags"]))
        for family in (4,) if found["to"] not in PLACES else (4, 6):
            landed, _ = call(
                places[found["place"]],
                family,
                PLACES[found["to"]][family] if found["to"] in PLACES else found["to"],
                int(found["port"]),
                uid=int(found["uid"] or 0),
                gid=int(found["gid"] or 0),
                mark=int(found["mark"] or "0", 0),
                source=PLACES[found["source"]][family] if found["source"] else "",
            )
            wanted = row[profile].strip()
            agrees = landed != wanted.removeprefix("not ") if wanted.startswith("not ") else landed == wanted
            assert agrees, f"{profile}, IPv{family}: {landed}, and the page says {wanted}"


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("family", [4, 6])
def test_a_connection_that_was_open_before(pod: Pod, variant: str, profile: str, family: int) -> None:
    with pod.pod.entered():
        listening = socket.create_server(("", 80), family=INET[family])
        proxy = socket.create_server(("", 15006), family=INET[family])
    with pod.client.entered():
        client = socket.create_connection((POD[family], 80), timeout=3)
    with listening, proxy, client:
        accepted, _ = listening.accept()
        with accepted:
            init(pod, profile, variant, "-b", "*")
            accepted.settimeout(1)
            client.settimeout(1)
            try:
                client.sendall(b"still there?")
                survived = accepted.recv(64) == b"still there?"
            except (TimeoutError, ConnectionError):
                survived = False
    assert survived is (profile == "meshnet")


@pytest.mark.parametrize("profile", PROFILES)
def test_marks_of_others(pod: Pod, listeners: Listeners, variant: str, profile: str) -> None:
    """A network plugin marks what comes in, and looks at its mark again behind the rules."""
    tool = beside(variant)
    words = ("-p", "tcp", "-j", "MARK", "--set-xmark", "0x40000/0xff0000")
    if variant == "native":  # of two hooks at one place, the one registered last goes first
        init(pod, profile, variant, "-b", "*", "-m", "TPROXY")
    run(pod.pod, tool, "-t", "mangle", "-A", "PREROUTING", *words)
    run(pod.pod, tool, "-A", "INPUT", "-i", "eth0", "-p", "tcp", "-m", "mark", "--mark", "0x40000/0xff0000")
    if variant != "native":
        init(pod, profile, variant, "-b", "*", "-m", "TPROXY")
    if profile == "meshnet" and variant != "native":  # whose entry stands first: move the plugin's rule ahead of it
        run(pod.pod, tool, "-t", "mangle", "-D", "PREROUTING", "2")
        run(pod.pod, tool, "-t", "mangle", "-I", "PREROUTING", "1", *words)
    assert call(pod.client, 4, POD[4], 80)[0] == "inbound-proxy"
    (line,) = [line for line in run(pod.pod, f"{tool}-save", "-c").splitlines() if "-A INPUT" in line]
    assert (int(line[1:].partition(":")[0]) > 0) is (profile == "meshnet"), line


@pytest.mark.parametrize("profile", PROFILES)
def test_families_of_a_pod_with_both(pod: Pod, listeners: Listeners, variant: str, profile: str) -> None:
    init(pod, profile, variant, "-b", "*", dual=False)
    assert call(pod.client, 4, POD[4], 80)[0] == "inbound-proxy"
    assert call(pod.client, 6, POD[6], 80)[0] == ("application" if profile == "istio" else "inbound-proxy")


@pytest.mark.parametrize("profile", PROFILES)
def test_invalid_packets_of_an_excluded_interface(pod: Pod, variant: str, profile: str) -> None:
    """A segment with SYN and FIN is invalid to conntrack; it is counted when it comes through to INPUT."""
    pod.second()
    init(pod, profile, variant, "-b", "*", "--drop-invalid", "-c", "eth1")
    run(pod.pod, beside(variant), "-A", "INPUT", "-i", "eth1", "-p", "tcp", "--dport", "7777")
    tcp = struct.pack("!HHIIBBHHH", 4444, 7777, 1, 0, 5 << 4, 0x03, 1024, 0, 0)
    ends = socket.inet_aton(SECOND_CLIENT[4]) + socket.inet_aton(SECOND_POD[4])
    tcp = tcp[:16] + struct.pack("!H", _checksum(ends + struct.pack("!BBH", 0, 6, len(tcp)) + tcp)) + tcp[18:]
    with pod.client.entered(), socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_TCP) as raw:
        raw.bind((SECOND_CLIENT[4], 0))
        raw.sendto(tcp, (SECOND_POD[4], 0))
    assert CLIENT[4] != SECOND_CLIENT[4]
    (line,) = [line for line in run(pod.pod, f"{beside(variant)}-save", "-c").splitlines() if "--dport 7777" in line]
    assert (int(line[1:].partition(":")[0]) > 0) is (profile == "meshnet"), line


def _checksum(data: bytes) -> int:
    total = sum(struct.unpack(f"!{len(data) // 2}H", data))
    total = (total & 0xFFFF) + (total >> 16)
    return ~(total + (total >> 16)) & 0xFFFF
