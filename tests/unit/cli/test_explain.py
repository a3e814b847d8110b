from __future__ import annotations

from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import pytest

from tests import conformance
from tests.unit.cli.commands import HEAD, data

if TYPE_CHECKING:
    from pathlib import Path

SAVED = """\
*mangle
:LOOP - [0:0]
-A PREROUTING -p tcp -m limit --limit 1/s -m comment --comment "who <knows>" -j DROP
COMMIT
"""
HOPS = {"hook", "table", "chain", "rule", "verdict", "mark"}


@pytest.fixture
def saved(tmp_path: Path) -> str:
    path = tmp_path / "rules.v4"
    path.write_text(SAVED)
    return str(path)


def test_the_path_ends_in_a_sentence_and_rules_name_the_spec_s_lines(called: Any, spec_file: str) -> None:
    code, out, err = called("explain", spec_file, "--in", "--src", "10.0.0.7", "--dst", "10.0.0.9", "--dport", "80")
    lines = out.splitlines()
    assert (code, err) == (0, "")
    assert lines[0] == "in by eth0: 10.0.0.7 > 10.0.0.9:80/tcp"
    assert lines[-1] == "inbound-proxy: the inbound proxy gets it (port 15006); the packet reaches port 15006"
    tproxy = next(line for line in lines if "TPROXY --on-port" in line)
    assert f"{spec_file}:5" in tproxy and "0x539" in tproxy


def test_json_has_the_promised_fields(called: Any, spec_file: str) -> None:
    _, out, _ = called("explain", spec_file, "--in", "-o", "json")
    answer = data(out)
    assert (answer["disposition"], answer["port"], answer["app_sees"]) == ("inbound-proxy", 15006, None)
    assert all(set(hop) >= HOPS for hop in answer["hops"])
    assert {hop["place"] for hop in answer["hops"] if "place" in hop} == {f"{spec_file}:5"}


@pytest.mark.parametrize(
    ("words", "disposition"),
    [
        (("--out", "--uid", "1000", "--dst", "10.9.9.9", "--dport", "443"), "outbound-proxy"),
        (("--out", "--uid", "1337", "--dst", "10.9.9.9", "--dport", "443"), "direct"),
        (("--out", "--dst", "2001:db8::9", "--dport", "443"), "outbound-proxy"),
        (("--out", "--dst", "10.9.9.9", "--outbound-port", "9"), "captured"),
        (("--in", "--dport", "15090"), "direct"),
        (("--in", "--proto", "udp"), "direct"),
        (("--in", "--state", "INVALID"), "inbound-proxy"),
        (("--in", "--proto", "icmp", "--dport", "8"), "direct"),
        (("--in", "--mark", "0x539"), "inbound-proxy"),
    ],
)
def test_flags(called: Any, spec_file: str, words: tuple[str, ...], disposition: str) -> None:
    assert data(called("explain", spec_file, *words, "-o", "json")[1])["disposition"] == disposition


def test_a_match_that_nobody_knows_is_undecided(called: Any, saved: str) -> None:
    code, out, _ = called("explain", "--rules", saved, "--in")
    assert code == 0
    assert out.splitlines()[-1].startswith(
        "undecided: nobody can tell; the packet is undecided at rule 1 of mangle PREROUTING"
    )
    assert "note: " in called("explain", "--rules", saved, "--in", "--dst", "fd00::1")[2]


def test_a_conversation_says_what_the_application_sees(called: Any, spec_file: str) -> None:
    code, out, err = called("explain", spec_file, "--conversation", "--src", "10.0.0.7", "--dst", "10.0.0.9")
    assert code == 0 and "uid 1337" in err
    assert out.splitlines()[-1].endswith("gets the connection, by way of the sidecar, and sees 10.0.0.7")
    answer = data(called("explain", spec_file, "--conversation", "--sidecar", "passthrough", "-o", "json")[1])
    assert answer["app_sees"] == "127.0.0.6" and len(answer["steps"]) == 8
    assert all(set(hop) >= HOPS for hop in answer["hops"])


@pytest.mark.conformance
def test_the_rules_in_use_loop_for_a_sidecar_that_isn_t_root(called: Any) -> None:
    rules = str(conformance.FOLDER / "original-source" / "current.v4")
    answer = data(called("explain", "--rules", rules, "--conversation", "--in", "--dport", "80", "-o", "json")[1])
    assert answer["disposition"] == "loop"
    assert any("route_localnet=0" in note for note in answer["notes"])
    told = called("explain", "--rules", rules, "--conversation", "--in", "--uid", "0", "--gid", "1337", "-o", "json")[1]
    assert data(told)["app_sees"] == "192.0.2.1"


def test_a_picture(called: Any, spec_file: str, saved: str, tmp_path: Path) -> None:
    picture = tmp_path / "path.svg"
    for words in ((spec_file, "--in"), (spec_file, "--conversation"), ("--rules", saved)):
        called("explain", *words, "--svg", str(picture))
        drawn = ElementTree.fromstring(picture.read_text())
        texts = [element.text or "" for element in drawn.iter("{http://www.w3.org/2000/svg}text")]
        assert drawn.tag == "{http://www.w3.org/2000/svg}svg"
        assert "PREROUTING" in texts
        _inside(drawn)
    assert called("explain", spec_file, "--svg", str(tmp_path / "no" / "where.svg"))[0] == 2


def _inside(drawn: ElementTree.Element) -> None:
    """Nothing is drawn beyond the edges, no card over another."""
    width, height = float(drawn.get("width", 0)), float(drawn.get("height", 0))
    boxes = [
        tuple(float(box.get(name, 0)) for name in ("x", "y", "width", "height"))
        for box in drawn.iter("{http://www.w3.org/2000/svg}rect")
    ][1:]
    assert all(x >= 0 and y >= 0 and x + w <= width and y + h <= height for x, y, w, h in boxes)
    for place, (x, y, w, h) in enumerate(boxes):
        for x2, y2, w2, h2 in boxes[place + 1 :]:
            assert x + w <= x2 or x2 + w2 <= x or y + h <= y2 or y2 + h2 <= y


def test_a_call_comes_from_where_the_route_says(called: Any, tmp_path: Path) -> None:
    """As the kernel's rule of Kubernetes has it: nobody but loopback talks to loopback. The pod itself may."""
    path = tmp_path / "rules.v4"
    path.write_text("*filter\n-A INPUT ! -s 127.0.0.0/8 -d 127.0.0.0/8 -j DROP\nCOMMIT\n")
    for to, source in (("127.0.0.11", "127.0.0.1"), ("192.0.2.2", "192.0.2.2"), ("203.0.113.5", "192.0.2.2")):
        _, out, _ = called("explain", "--rules", str(path), "--out", "--dst", to)
        assert f": {source} > {to}:80/tcp" in out and out.splitlines()[-1].startswith("direct: ")


@pytest.mark.parametrize(("family", "number"), [("--rules", 8), ("--rules6", 128)])
def test_a_ping_is_an_echo_request(called: Any, tmp_path: Path, family: str, number: int) -> None:
    path = tmp_path / "rules"
    path.write_text("*filter\nCOMMIT\n")
    to = "192.0.2.2" if number == 8 else "2001:db8::2"
    _, out, _ = called("explain", family, str(path), "--proto", "icmp", "--dst", to)
    assert f":{number}/icmp" in out.splitlines()[0]
    assert out.splitlines()[-1] == "direct: nobody takes it; the packet reaches the pod"


def test_a_spec_s_long_lists_are_known(called: Any, tmp_path: Path) -> None:
    path = tmp_path / "pod.yaml"
    ports = ", ".join(str(port) for port in range(1001, 1601, 2))
    blocks = ", ".join(f"198.18.{number}.0/24" for number in range(0, 250, 2))
    path.write_text(f"{HEAD}inbound: {{excludePorts: [{ports}]}}\noutbound: {{excludeCidrs: [{blocks}]}}\n")
    for words, end in (
        (("--in", "--dport", "1003"), "direct"),
        (("--in", "--dport", "1004"), "inbound-proxy"),
        (("--out", "--dst", "198.18.4.1"), "direct"),
        (("--out", "--dst", "198.18.5.1"), "outbound-proxy"),
    ):
        assert data(called("explain", str(path), *words, "-o", "json")[1])["disposition"] == end
    assert called("doctor", str(path))[0] == 0


def test_rules_that_are_none_are_noted(called: Any, tmp_path: Path) -> None:
    path = tmp_path / "rules.v4"
    path.write_text("*nat\n:OUTPUT ACCEPT [0:0]\nCOMMIT\n")
    assert f"note: no rule is in {path}" in called("explain", "--rules", str(path))[2]


def test_comments_in_any_bytes(called: Any, tmp_path: Path) -> None:
    path = tmp_path / "rules.v4"
    path.write_bytes(b'*nat\n-A OUTPUT -p tcp -m comment --comment "f\xfcr" -j REDIRECT --to-ports 15001\nCOMMIT\n')
    code, out, _ = called("explain", "--rules", str(path), "--out", "-o", "json")
    assert (code, data(out)["disposition"]) == (0, "outbound-proxy")
    path.write_bytes(b"\x7fELF\0\0")
    code, _, err = called("explain", "--rules", str(path))
    assert code == 2 and "is no text" in err


def test_a_jump_that_the_kernel_refuses_is_named_with_its_file(called: Any, tmp_path: Path) -> None:
    path = tmp_path / "rules.v4"
    path.write_text("*nat\n-A OUTPUT -j FOO\nCOMMIT\n")
    code, _, err = called("explain", "--rules", str(path))
    assert code == 2 and f"{path}:2: table nat: a rule of OUTPUT leads to FOO" in err


@pytest.mark.conformance
def test_scenarios_beside_what_was_measured(called: Any, tmp_path: Path) -> None:
    file = conformance.FOLDER / "original-source" / "cases.json"
    code, out, _ = called("explain", "--scenario", str(file), "-o", "json")
    rows = data(out)["cases"]
    assert code == 0 and len(rows) == 74
    assert all(row["predicted"] == row["measured"] for row in rows)
    code, out, _ = called("explain", "--scenario", str(file), "current", "connmark")
    assert code == 0 and out.splitlines()[-1] == "8 of 8 predictions are what was measured"
    wrong = file.read_text().replace('"outcome": "127.0.0.1"', '"outcome": "127.0.0.2"')
    for path in file.parent.glob("*.v4"):
        (tmp_path / path.name).write_text(path.read_text())
    (tmp_path / "cases.json").write_text(wrong)
    code, out, _ = called("explain", "--scenario", str(tmp_path / "cases.json"))
    assert code == 1 and "DIFFERS" in out
    assert called("explain", "--scenario", str(file), "nobody")[0] == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "name a SPEC, or rules"),
        (("{spec}", "--rules", "{saved}"), "name a SPEC, or rules"),
        (("{spec}", "{spec}"), "explain takes one SPEC"),
        (("{spec}", "--dst", "10.0.0"), "--dst: not an IPv4 address"),
        (("{spec}", "--dst", "10.0.0.1", "--src", "fd00::1"), "different families"),
        (("{spec}", "--mark", "x"), "not a number for --mark"),
        (("{spec}", "--dport", "70000"), "70000 is not in the range"),
        (("{spec}", "--dport", "256", "--proto", "icmp"), "--dport 256 is no type of ICMP"),
        (("{spec}", "--iface", "a-name-of-16-byt"), "is no interface's name"),
        (("{spec}", "--iface", ""), "is no interface's name"),
        (("--rules", "/nowhere"), "can't read /nowhere"),
        (("--rules", "-", "--rules6", "-"), "standard input is one file"),
        (("--rules", "{spec}"), "pod.yaml:1: expected a table"),
        (("--scenario", "{spec}"), "is no JSON"),
        (("--scenario", "{saved}", "--rules", "{saved}"), "--scenario names its own rules"),
        (("{spec}", "--conversation", "--proto", "icmp"), "TCP or UDP"),
    ],
)
def test_what_can_t_be_asked(called: Any, spec_file: str, saved: str, words: tuple[str, ...], said: str) -> None:
    code, _, err = called("explain", *(word.format(spec=spec_file, saved=saved) for word in words))
    assert code == 2 and said in err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{}", "topology has no"),
        ('{"topology": {"client": "x", "pod": "10.0.0.1/24"}}', "not an IPv4 address"),
        ('{"topology": {"client": "10.0.0.2", "pod": "10.0.0.1/24"}, "cases": [{}]}', "cases[0] has no proxy"),
        ("[]", "isn't of the form"),
    ],
)
def test_what_is_no_scenario(called: Any, tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "cases.json").write_text(text)
    code, _, err = called("explain", "--scenario", str(tmp_path / "cases.json"))
    assert code == 2 and said in err


def test_rules_that_no_kernel_has(called: Any, tmp_path: Path) -> None:
    path = tmp_path / "rules"
    path.write_text("*nat\n:A - [0:0]\n-A A -j A\n-A OUTPUT -j GONE\nCOMMIT\n")
    code, _, err = called("explain", "--rules", str(path))
    assert code == 2 and "GONE" in err and "circle: A -> A" in err


def test_a_spec_with_a_jump_into_the_dark_is_none(called: Any, tmp_path: Path) -> None:
    (tmp_path / "pod.yaml").write_text(f"{HEAD}inbound: {{mode: sideways}}\n")
    assert called("explain", str(tmp_path / "pod.yaml"))[0] == 2


def test_nftables_and_iptables_tell_the_same(called: Any, tmp_path: Path, spec_file: str) -> None:
    table = tmp_path / "table.nft"
    table.write_text(called("compile", spec_file, "--backend", "nftables")[1])
    for ends in (
        ("--in", "--dport", "80"),
        ("--out", "--uid", "1000", "--dst", "2001:db8::9"),
        ("--out", "--uid", "1337"),
    ):
        told = [
            data(called("explain", *subject, *ends, "-o", "json")[1])
            for subject in ((spec_file,), (spec_file, "--backend", "nftables"), ("--rules", str(table)))
        ]
        assert len({one["disposition"] for one in told}) == 1 == len({one["reason"].split(" of ")[0] for one in told})
        ids = [[hop["comment"] for hop in one["hops"] if "comment" in hop] for one in told]
        assert ids[0] == ids[1] == ids[2]
        places = [[(hop["origin"], hop["place"]) for hop in one["hops"] if "origin" in hop] for one in told]
        assert places[0] == places[1] and places[2] == []


def test_tables_of_nftables_beside_saved_rules(called: Any, tmp_path: Path) -> None:
    table, saved = tmp_path / "table.nft", tmp_path / "saved.v6"
    table.write_text("table inet a { chain b { type filter hook input priority 10; tcp dport 81 drop; } }")
    saved.write_text("*filter\n-A INPUT -p tcp --dport 80 -j DROP\nCOMMIT\n")
    both = ("--rules", str(table), "--rules6", str(saved), "--in", "--dst", "2001:db8::2", "--dport")
    assert [data(called("explain", *both, port, "-o", "json")[1])["disposition"] for port in ("80", "81", "82")] == [
        "dropped",
        "dropped",
        "direct",
    ]
