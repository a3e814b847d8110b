"""The lab as a command: what it prints, how it ends, and a page that a browser shows."""

from __future__ import annotations

import json
import shutil
import struct
import subprocess
from pathlib import Path

import pytest

from meshnet.cli.main import call
from meshnet.lab import reading, runner

CHROMIUM = (
    "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--enable-logging=stderr",
)  # fmt: skip


def told(capsys: pytest.CaptureFixture[str]) -> dict:
    return json.loads(capsys.readouterr().out)


def test_expected_predicted_and_measured_are_of_one_form(capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["lab", "run", "source-hidden", "source-kept-embedded", "-o", "json"]) == 0
    found = {item["name"]: item for item in told(capsys)["scenarios"]}
    assert set(found) == {"source-hidden", "source-kept-embedded"}
    for item in found.values():
        assert item["measured"] == item["expected"] and len(item["expected"]) >= 4
    assert found["source-hidden"]["predicted"]["tproxy nft ipv6"] == {"client": "::6"}


def test_a_row_that_differs_is_told_with_its_evidence(monkeypatch, capsys: pytest.CaptureFixture[str]) -> None:
    """An expectation that can't come true, so that a run which judges nothing would be noticed."""
    text = (reading.FOLDER / "source-hidden.yaml").read_text().replace("sees: passthrough", "sees: client")
    wrong = reading.read_text(text + "families: [ipv4]\nbackends: [iptables-nft]\n", "wrong")
    monkeypatch.setattr("meshnet.lab.available.everything", lambda: (wrong,))
    assert call(["lab", "run", "wrong"]) == 1
    out = capsys.readouterr().out
    assert "0 of 1 scenarios as expected" in out
    assert "10.244.9.20, inbound" in out and "127.0.0.6, inbound" in out
    assert "SYN 127.0.0.6" in out and "the sidecar counted: inbound 1" in out and "MESHNET_" in out


def test_a_server_that_does_not_start_is_told_with_its_words(monkeypatch, capsys, tmp_path: Path) -> None:
    broken = tmp_path / "envoy"
    broken.write_text("#!/bin/sh\necho out of order >&2\nexit 7\n")
    broken.chmod(0o755)
    monkeypatch.setenv("MESHNET_ENVOY", str(broken))
    assert call(["lab", "run", "source-kept-by-root"]) == 3
    assert "out of order" in capsys.readouterr().out


def test_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert call(["lab", "run"]) == 2
    assert call(["lab", "run", "--all", "own-pod"]) == 2
    assert call(["lab", "run", "own-pot"]) == 2
    assert "own-pod?" in capsys.readouterr().err
    assert call(["lab", "list", "-o", "json"]) == 0
    assert {"own-pod", "zookeeper"} <= {item["name"] for item in told(capsys)["scenarios"]}


def test_a_loop_is_bounded_and_seen_in_the_picture() -> None:
    (scenario,) = (item for item in reading.shipped() if item.name == "istio-profile")
    (ran,) = runner.run([scenario])
    assert ran.ok, ran.records
    loops = [record for record in ran.records if record["measured"] == {"client": "loop"}]
    assert {record["name"].rsplit(" ", 2)[1] for record in loops} == {"legacy", "nft", "nftables"}
    assert len(loops) == 6
    for record in loops:
        assert 500 < record["sidecar"]["inbound"] <= 601
        assert any(arrow["wrong"].startswith("the sidecar calls itself") for arrow in record["arrows"])
    resets = [record for record in ran.records if record["measured"] == {"client": "reset"}]
    assert all(any("SYN-SENT" in line for line in record["sockets"]) for record in resets)
    assert all(any("UNREPLIED" in line for line in record["tracked"]) for record in resets)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report") / "out"
    assert (
        call(["lab", "run", "source-kept", "istio-profile", "own-pod", "without-rules", "--report", str(folder)]) == 0
    )
    return folder


def test_packets_are_kept_as_files_that_tcpdump_reads(report: Path) -> None:
    files = sorted(report.rglob("*.pcap"))
    assert {file.parent.name for file in files} >= {"source-kept", "istio-profile", "own-pod"}
    assert all(struct.unpack("=I", file.read_bytes()[:4])[0] == 0xA1B23C4D for file in files)
    kept = report / "source-kept" / "tproxy-nft-ipv4-lo.pcap"
    shown = subprocess.run(["tcpdump", "-nr", str(kept)], capture_output=True, text=True, check=True).stdout
    assert "10.244.9.20" in shown and "Flags [S.]" in shown


def test_text_and_data_are_beside_the_page(report: Path) -> None:
    text = report.joinpath("report.txt").read_text()
    assert "the sidecar calls itself" in text and "rules that were met:" in text
    assert len(json.loads(report.joinpath("report.json").read_text())["scenarios"]) == 4


@pytest.mark.parametrize(("width", "dark"), [(390, False), (1200, True)], ids=["phone", "dark"])
def test_a_browser_shows_every_scenario(report: Path, tmp_path: Path, width: int, dark: bool) -> None:
    assert shutil.which("chromium"), "apt-get install chromium"
    profile = ["--user-data-dir=" + str(tmp_path / "profile"), f"--window-size={width},2000"]
    scheme = ["--blink-settings=preferredColorScheme=0"] if dark else []
    page = report / "index.html"
    dom = subprocess.run(
        [*CHROMIUM, *profile, *scheme, "--dump-dom", page.as_uri()], capture_output=True, text=True, timeout=120
    )
    for name in ("source-kept", "istio-profile", "own-pod", "without-rules"):
        assert f'<section id="{name}">' in dom.stdout, dom.stderr
    assert dom.stdout.count("<svg") >= 6
    assert "CONSOLE" not in dom.stderr and "ERR_" not in dom.stderr, dom.stderr
    assert "://" not in page.read_text().replace("http://www.w3.org", "")
    picture = tmp_path / "page.png"
    shot = [*CHROMIUM, *profile, *scheme, f"--screenshot={picture}", page.as_uri()]
    subprocess.run(shot, capture_output=True, timeout=120, check=True)
    assert picture.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
