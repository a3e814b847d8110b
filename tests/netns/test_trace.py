"""What ``meshnet trace`` shows is what the kernel did, on both variants, and nothing of it is left behind."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any

import pytest

from meshnet.apply.session import Session
from meshnet.cli.main import call
from meshnet.kernel.netns import where
from meshnet.kernel.tracing import Tracing
from meshnet.parse.ruleset import read
from meshnet.probe.trace import live, seen
from tests.netns.landing import call as call_from
from tests.netns.pods import CLIENT, POD, REMOTE
from tests.netns.snapshot import run, snapshot
from tests.netns.specs import pod_spec

if TYPE_CHECKING:
    from pathlib import Path

    from tests.netns.pods import Pod

LOGGER = "/proc/sys/net/netfilter/nf_log/2"
RULES = """\
*mangle
:PREROUTING ACCEPT [0:0]
:OUTPUT ACCEPT [0:0]
:INNER - [0:0]
-A PREROUTING -i eth0 -p tcp -j MARK --set-xmark 0x7/0xffffffff
-A PREROUTING -p tcp -m mark --mark 0x7 -j RETURN
-A OUTPUT -m owner --uid-owner 1000 -j INNER
-A OUTPUT -m mark --mark 0x5 -j ACCEPT
-A INNER -p udp -j RETURN
-A INNER -p tcp -j MARK --set-xmark 0x5/0xffffffff
COMMIT
*nat
:PREROUTING ACCEPT [0:0]
:OUTPUT ACCEPT [0:0]
-A PREROUTING -p tcp -m tcp --dport 80 -j REDIRECT --to-ports 15006
-A OUTPUT -p tcp -m owner --uid-owner 1000 -j REDIRECT --to-ports 15001
COMMIT
"""


@pytest.fixture(params=["nft", "legacy"])
def variant(request: pytest.FixtureRequest) -> str:
    return request.param


def load(pod: Pod, variant: str) -> None:
    for tool in ("iptables", "ip6tables"):
        run(pod.pod, f"{tool}-{variant}-restore", text=RULES)


def held(pod: Pod) -> dict[str, str]:
    """All rules and tables of the pod, and its logger; routing isn't asked, where IPv6 settles by itself meanwhile."""
    rules = {key: text for key, text in snapshot(pod.pod).items() if "nft" in key or "legacy" in key}
    return rules | {"logger": run(pod.pod, "cat", LOGGER)}


def answer(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, Any]:
    code = call(["trace", *words, "-o", "json"])
    return code, json.loads(capsys.readouterr().out)


def places(mets: list[dict[str, Any]]) -> list[str]:
    return [f"{met['table']} {met['chain']} {met['number']}" for met in mets]


@pytest.mark.parametrize("family", [4, 6])
def test_out(pod: Pod, variant: str, family: int, capsys: pytest.CaptureFixture[str]) -> None:
    load(pod, variant)
    before = held(pod)
    words = ("--netns", pod.name, "--out", "--uid", "1000", "--dst", REMOTE[family], "--dport", "443")
    code, told = answer(capsys, *words)
    assert (code, told["agree"], told["disposition"]) == (0, True, "outbound-proxy"), told
    assert places(told["real"]) == [
        "mangle OUTPUT 1",
        "mangle INNER 2",
        "mangle OUTPUT 2",
        "nat OUTPUT 1",
    ]
    assert [met["mark"] for met in told["real"]][1:3] == [5, 5]
    assert held(pod) == before


@pytest.mark.parametrize("family", [4, 6])
def test_in(pod: Pod, variant: str, family: int, capsys: pytest.CaptureFixture[str]) -> None:
    load(pod, variant)
    words = (
        "--netns",
        pod.name,
        "--in",
        "--peer",
        pod.client.where.text,
        "--src",
        CLIENT[family],
        "--dst",
        POD[family],
    )
    code, told = answer(capsys, *words, "--dport", "80")
    assert (code, told["agree"], told["disposition"]) == (0, True, "inbound-proxy"), told
    assert places(told["real"]) == ["mangle PREROUTING 1", "mangle PREROUTING 2", "nat PREROUTING 1"]
    assert told["real"][1]["mark"] == 7


def test_the_same_again(pod: Pod, variant: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The first packet had no answer, and its entry in conntrack is there for two minutes more."""
    load(pod, variant)
    words = ("--netns", pod.name, "--out", "--uid", "1000", "--dst", "198.51.100.7", "--dport", "443")
    for _ in range(2):
        code, told = answer(capsys, *words)
        assert (code, told["agree"]) == (0, True), told
        assert "nat OUTPUT 1" in places(told["real"])


def test_empty_tables_of_the_other_variant_say_nothing(pod: Pod, capsys: pytest.CaptureFixture[str]) -> None:
    """Listing makes them; their log has "mangle:OUTPUT:policy:1" where nft has a first rule that wasn't met."""
    load(pod, "nft")
    for table in ("mangle", "nat"):
        run(pod.pod, "iptables-legacy", "-t", table, "-L")
    code, told = answer(capsys, "--netns", pod.name, "--out", "--uid", "7", "--dst", REMOTE[4])
    assert (code, told["agree"], told["real"]) == (0, True, []), told


def test_a_match_that_nobody_can_answer(pod: Pod, variant: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The prediction ends there, and what the kernel does next is no disagreement."""
    rules = (
        "-A OUTPUT -p tcp -j CONNMARK --set-mark 1",
        "-A OUTPUT -m statistic --mode nth --every 9 --packet 8 -j DROP",
    )
    run(
        pod.pod, f"iptables-{variant}-restore", text="\n".join(("*mangle", *rules, "-A OUTPUT -j ACCEPT", "COMMIT", ""))
    )
    code, told = answer(capsys, "--netns", pod.name, "--out", "--dst", REMOTE[4])
    assert (code, told["agree"], told["disposition"]) == (0, True, "undecided"), told
    assert "mangle OUTPUT 1" in places(told["real"])


def test_our_own_long_lists(pod: Pod, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    spec = tmp_path / "pod.yaml"
    ports = ", ".join(str(port) for port in range(1001, 1601, 2))
    spec.write_text(f"apiVersion: meshnet/v1\nkind: Interception\ninbound: {{excludePorts: [{ports}]}}\n")
    assert call(["apply", str(spec), "--netns", pod.name, "--backend", "iptables-nft"]) == 0
    capsys.readouterr()
    ends = ("--in", "--peer", pod.client.where.text, "--src", CLIENT[4], "--dst", POD[4])
    for port, end in ((1003, "direct"), (1004, "inbound-proxy")):
        code, told = answer(capsys, "--netns", pod.name, *ends, "--dport", str(port))
        assert (code, told["agree"], told["disposition"]) == (0, True, end), told


@pytest.mark.parametrize(("groups", "met"), [("8,77", ["mangle OUTPUT 1"]), ("8", [])])
def test_supplementary_groups(
    pod: Pod, variant: str, groups: str, met: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    rule = "-A OUTPUT -m owner --gid-owner 77 --suppl-groups -j ACCEPT"
    run(pod.pod, f"iptables-{variant}-restore", text=f"*mangle\n{rule}\nCOMMIT\n")
    code, told = answer(capsys, "--netns", pod.name, "--out", "--groups", groups, "--dst", REMOTE[4])
    assert (code, told["agree"], places(told["real"])) == (0, True, met), told


@pytest.mark.parametrize("to", ["127.0.0.1", "::1"])
def test_a_call_to_loopback_comes_from_there(
    pod: Pod, variant: str, to: str, capsys: pytest.CaptureFixture[str]
) -> None:
    tool = "ip6tables" if ":" in to else "iptables"
    run(pod.pod, f"{tool}-{variant}", *f"-t mangle -A OUTPUT ! -s {to} -d {to} -j DROP".split())
    code, told = answer(capsys, "--netns", pod.name, "--out", "--dst", to)
    assert (code, told["disposition"], told["real"]) == (0, "direct", []), told


def test_the_table_for_people(pod: Pod, variant: str, capsys: pytest.CaptureFixture[str]) -> None:
    load(pod, variant)
    assert call(["trace", "--netns", pod.name, "--out", "--uid", "1000", "--dst", REMOTE[4], "--dport", "443"]) == 0
    out = capsys.readouterr().out
    assert out.splitlines()[-1] == "the kernel did what was predicted"
    assert "nat OUTPUT:1" in out and "--to-ports 15001" in out


def test_live_packets(pod: Pod, variant: str) -> None:
    load(pod, variant)
    caller = threading.Timer(0.5, lambda: call_from(pod.client, 4, POD[4], 80))
    caller.start()
    watching = live(pod.pod, 4, "tcp dport 80 tcp flags syn")
    try:
        events = next(watching)
    finally:
        watching.close()
        caller.join()
    rules = read(RULES, 4)
    assert [met.place for met in seen(events, rules)][:2] == [("mangle", "PREROUTING", 1), ("mangle", "PREROUTING", 2)]
    assert "meshnet_trace" not in run(pod.pod, "nft", "list", "tables")


def test_ctrl_c_leaves_nothing(pod: Pod, variant: str) -> None:
    load(pod, variant)
    before = held(pod)
    with pytest.raises(KeyboardInterrupt), pod.pod.entered(), Tracing(4, "tcp dport 80", "tcp dport 80"):
        assert "meshnet_trace" in run(pod.pod, "nft", "list", "tables")
        raise KeyboardInterrupt
    assert held(pod) == before
    assert "meshnet_trace" not in run(pod.pod, "nft", "list", "tables")


def test_what_a_killed_trace_left_goes_with_the_next(pod: Pod, variant: str) -> None:
    load(pod, variant)
    before = held(pod)
    with pod.pod.entered():
        killed = Tracing(4, "tcp dport 80", "tcp dport 80")
        killed.__enter__()
        for made in (killed._events, killed._log):
            assert made is not None
            made.close()
        assert held(pod) != before
        with Tracing(4, "tcp dport 81", "tcp dport 81"):
            pass
    assert held(pod) == before
    assert "meshnet_trace" not in run(pod.pod, "nft", "list", "tables")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--in", "--dst", POD[4]), "--peer names the namespace"),
        (("--filter", "tcp dport 80"), "--filter is for --follow"),
        (("--follow", "--filter", "tcp dport 80; drop"), "takes matches only"),
        (("--proto", "icmp"), "first packet of a connection"),
    ],
)
def test_what_can_t_be_traced(pod: Pod, words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["trace", "--netns", pod.name, *words]) == 2
    assert said in capsys.readouterr().err


NFT = {
    "in": [
        "inet meshnet nat_prerouting 1",
        "inet meshnet nat_pre 2",
        "inet meshnet nat_inbound 3",
    ],
    "out": ["inet meshnet mangle_output 1", "inet meshnet nat_output 1", "inet meshnet nat_out 9"],
}


@pytest.mark.parametrize("way", ["in", "out"])
@pytest.mark.parametrize("family", [4, 6])
def test_our_table_of_nftables(pod: Pod, family: int, way: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Its rules are numbered among those of the packet's family, in either account."""
    with Session(where(pod.pod.where.text), "nftables") as session:
        session.apply(pod_spec("redirect"))
    before = held(pod)
    ends = {
        "in": ("--in", "--peer", pod.client.where.text, "--src", CLIENT[family], "--dst", POD[family], "--dport", "80"),
        "out": ("--out", "--uid", "1000", "--dst", REMOTE[family], "--dport", "443"),
    }
    code, told = answer(capsys, "--netns", pod.name, *ends[way])
    assert (code, told["agree"], told["disposition"]) == (0, True, f"{way}bound-proxy"), told
    assert places(told["real"]) == NFT[way], told
    assert held(pod) == before


def test_our_table_beside_iptables(pod: Pod, variant: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Where both are entered at one place no text tells the order; elsewhere they are followed one behind the other."""
    with Session(where(pod.pod.where.text), "nftables") as session:
        session.apply(pod_spec("redirect"))
    if variant == "legacy":
        load(pod, variant)
        assert call(["trace", "--netns", pod.name, "--out", "--dst", REMOTE[4]]) == 4
        said = capsys.readouterr().err
        assert "no text tells which comes first" in said or "by a way of its own" in said
        return
    raw = "*raw\n:OUTPUT ACCEPT [0:0]\n-A OUTPUT -m owner --uid-owner 1000 -j ACCEPT\nCOMMIT\n"
    run(pod.pod, f"iptables-{variant}-restore", text=raw)
    words = ("--netns", pod.name, "--out", "--uid", "1000", "--dst", REMOTE[4], "--dport", "443")
    code, told = answer(capsys, *words)
    assert (code, places(told["predicted"])[0]) == (0, "raw OUTPUT 1"), told
    assert {*places(told["real"])} == {*places(told["predicted"])}
    load(pod, variant)
    assert call(["trace", *words]) == 4
    assert "no text tells which comes first" in capsys.readouterr().err


def test_both_variants_at_once_are_refused(pod: Pod, capsys: pytest.CaptureFixture[str]) -> None:
    load(pod, "nft")
    load(pod, "legacy")
    assert call(["trace", "--netns", pod.name, "--out", "--dst", REMOTE[4]]) == 4
    assert "both are in force" in capsys.readouterr().err
