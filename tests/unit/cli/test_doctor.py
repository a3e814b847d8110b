from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.unit.cli.commands import HEAD, data
from tests.unit.doctor.patients import CAPTURE

if TYPE_CHECKING:
    from pathlib import Path


def written(folder: Path, text: str, name: str = "saved.txt") -> str:
    path = folder / name
    path.write_text(text)
    return str(path)


def test_a_spec_is_healthy(called: Any, spec_file: str) -> None:
    code, out, err = called("doctor", spec_file)
    assert (code, out) == (0, f"nothing is wrong with {spec_file}\n")
    assert "IPv4: the sidecar runs under uid 1337" in err and "IPv6: " in err
    answer = data(called("doctor", spec_file, "-o", "json")[1])
    assert answer == {"rules": spec_file, "healthy": True, "findings": [], "notes": []}


def test_saved_rules_and_a_sidecar_that_they_don_t_know(called: Any, tmp_path: Path) -> None:
    saved = written(tmp_path, CAPTURE)
    assert called("doctor", "--rules", saved)[0] == 0
    code, out, _ = called("doctor", "--rules", saved, "--sidecar-uid", "7")
    assert code == 1
    assert "1. loop (IPv4): a sidecar under uid 7, gid 1337 meets itself" in out
    assert "nat OUT:4  -p tcp -j REDIRECT --to-ports 15001" in out and "next: let the sidecar's calls go" in out
    answer = data(called("doctor", "--rules", saved, "--sidecar-uid", "7", "-o", "json")[1])
    found = answer["findings"][0]
    assert not answer["healthy"] and (found["kind"], found["family"], found["taken_by"]) == ("loop", 4, [])
    where = {"family": 4, "table": "nat", "chain": "OUT", "number": 4, "line": 8}
    assert found["where"] == where | {"rule": "-p tcp -j REDIRECT --to-ports 15001"}
    assert found["steps"][0]["hops"] and found["next"]


def test_ports_of_the_sidecar_s_own(called: Any, tmp_path: Path) -> None:
    saved = written(tmp_path, CAPTURE.replace("15001", "4140").replace("15006", "4143"))
    code, out, _ = called(
        "doctor", "--rules", saved, "--sidecar-uid", "7", "--outbound-port", "4140", "--inbound-port", "4143"
    )
    assert code == 1 and "port 4140" in out
    assert called("doctor", "--rules", saved, "--outbound-port", "4140", "--inbound-port", "4143")[0] == 0


def test_what_depends_on_route_localnet(called: Any) -> None:
    marked = "docs/scenario/marked.rules"
    _, out, _ = called("doctor", "--rules", marked)
    assert "only with route_localnet=0" in out and "loop (IPv4)" in out
    _, out, _ = called("doctor", "--rules", marked, "--no-route-localnet")
    assert "only with" not in out


def test_a_shadowed_rule_of_both_families(called: Any, tmp_path: Path) -> None:
    text = "*mangle\n-A INPUT -p tcp -j ACCEPT\n-A INPUT -p tcp -m tcp --dport 80 -j DROP\nCOMMIT\n"
    saved = written(tmp_path, text)
    code, out, _ = called("doctor", "--rules", saved, "--rules6", saved)
    assert code == 1 and "2 findings" in out
    assert "     mangle INPUT:1  -p tcp -j ACCEPT" in out
    answer = data(called("doctor", "--rules", saved, "--rules6", saved, "-o", "json")[1])
    assert [(one["family"], one["taken_by"][0]["number"]) for one in answer["findings"]] == [(4, 1), (6, 1)]


def test_a_rule_of_a_spec_leads_back_to_its_line(called: Any, tmp_path: Path) -> None:
    text = f"{HEAD}profile: istio\nfamilies: [ipv4]\noutbound: {{excludePorts: [22]}}\n"
    spec = written(tmp_path, text, "pod.yaml")
    code, out, _ = called("doctor", spec)
    assert code == 1 and "shadowed (IPv4)" in out and f"({spec}:" in out


def test_what_isn_t_judged_is_said(called: Any, tmp_path: Path) -> None:
    saved = written(tmp_path, "*mangle\n-A INPUT -m geoip --cc XX -j DROP\n-A INPUT -f -j DROP\nCOMMIT\n")
    code, _, err = called("doctor", "--rules", saved)
    assert code == 0 and "undecided" in err and "fragments aren't followed" in err
    assert len(data(called("doctor", "--rules", saved, "-o", "json")[1])["notes"]) >= 2


WRONG = [
    (("pod.yaml", "--netns", "pod"), "a namespace has rules of its own"),
    (("pod.yaml", "--rules", "saved.txt"), "name a SPEC, or rules"),
    (("absent.yaml",), "can't read absent.yaml"),
    (("--rules", "-", "--rules6", "-"), "standard input is one file"),
    (("--netns", "pod", "--route-localnet"), "the namespace says so itself"),
]


@pytest.mark.parametrize(("words", "said"), WRONG)
def test_what_is_refused(called: Any, words: tuple[str, ...], said: str) -> None:
    code, out, err = called("doctor", *words)
    assert (code, out) == (2, "") and said in err


def test_a_text_that_no_kernel_takes(called: Any, tmp_path: Path) -> None:
    saved = written(tmp_path, "*mangle\n-A INPUT -j NOWHERE\nCOMMIT\n")
    code, _, err = called("doctor", "--rules", saved)
    assert code == 2 and "there is no such chain" in err


def test_a_table_of_nftables(called: Any, tmp_path: Path, spec_file: str) -> None:
    """A spec's own is healthy; a sidecar that it doesn't know loops, and the advice is in nft's words."""
    assert called("doctor", spec_file, "--backend", "nftables")[0] == 0
    saved = written(tmp_path, called("compile", spec_file, "--backend", "nftables")[1])
    code, out, _ = called(
        "doctor", "--rules", saved, "--sidecar-uid", "7", "--sidecar-gid", "7", "--sidecar", "passthrough"
    )
    assert code == 1 and "inet meshnet nat_out:" in out
    assert "meta skuid 7 return" in out and "-m owner" not in out
    answer = data(called("doctor", "--rules", saved, "--sidecar-uid", "7", "--sidecar-gid", "7", "-o", "json")[1])
    where = answer["findings"][0]["where"]
    assert where["comment"].startswith("meshnet:nat.out.") and where["line"] > 0
