from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from meshnet.lab import available, measured
from meshnet.lab.installed import envoy_binary
from meshnet.lab.servers import Counts, _unchunked, nginx_configuration
from meshnet.model.errors import MissingToolError, UnsupportedError, UsageError


def test_counts_are_differences() -> None:
    assert Counts(5, 4, 3, 2).since(Counts(1, 1, 1, 1)) == Counts(4, 3, 2, 1)


def test_chunks_are_put_together() -> None:
    assert _unchunked(b"5\r\nhello\r\n6;x=y\r\n world\r\n0\r\n\r\n") == b"hello world"


def test_nginx_believes_only_what_it_is_told_to() -> None:
    plain = nginx_configuration(80, (4, 6), "nothing", ("127.0.0.6",))
    assert "real_ip_header" not in plain and "listen [::]:80 ipv6only=on;" in plain
    proxied = nginx_configuration(80, (4,), "proxy-protocol", ("127.0.0.6",))
    assert "listen 80 proxy_protocol;" in proxied and "set_real_ip_from 127.0.0.6;" in proxied
    assert "real_ip_header X-Forwarded-For;" in nginx_configuration(80, (4,), "x-forwarded-for", ())


def test_a_named_envoy_must_be_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MESHNET_ENVOY", str(tmp_path / "none"))
    with pytest.raises(MissingToolError, match="MESHNET_ENVOY"):
        envoy_binary()


def test_a_scenario_that_nobody_has_is_refused_with_a_near_name() -> None:
    with pytest.raises(UsageError) as caught:
        available.named(["source-kep"])
    assert caught.value.hint == "source-kept?"
    assert [item.name for item in available.named(["own-pod", "own-pod"])] == ["own-pod"]


def test_absent_measurements_are_said_and_fail_in_ci(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MESHNET_CONFORMANCE", str(tmp_path))
    monkeypatch.setenv("CI", "")
    assert measured.scenarios() == () and str(tmp_path) in available.absent()
    monkeypatch.setenv("CI", "true")
    with pytest.raises(UnsupportedError):
        available.absent()


def test_measurements_of_another_form_are_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MESHNET_CONFORMANCE", str(tmp_path))
    (tmp_path / "original-source").mkdir()
    (tmp_path / "original-source" / "cases.json").write_text(json.dumps({"cases": [{"name": "x"}]}))
    with pytest.raises(UsageError, match="isn't of the form"):
        measured.scenarios()


@pytest.mark.conformance
def test_the_measured_rule_sets_are_twenty_with_74_rows() -> None:
    found = measured.scenarios()
    assert (len(found), sum(len(item.rows) for item in found)) == (20, 74)


def test_what_is_missing_is_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    (scenario,) = available.named(["nginx"])
    monkeypatch.setattr("meshnet.kernel.run.SBIN", ())
    monkeypatch.setenv("PATH", "/nonexistent")
    assert "nginx is not installed: apt-get install nginx-light" in available.why_not(scenario)
    assert os.environ["PATH"] == "/nonexistent"
