"""Whatever comes in, the answer is the protocol's, in bounded time, and no namespace but the named one is touched."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from meshnet.cni import config as config_module
from meshnet.cni import entry
from meshnet.cni.protocol import SINCE, VERSIONS
from tests.cni.conftest import path_of
from tests.cni.runner import MESHNET_CNI, start
from tests.netns.snapshot import snapshot

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from meshnet.kernel.netns import Namespace
    from tests.netns.pods import Scratch

    Made = Callable[..., dict[str, Any]]

CODES = {*range(1, 9), 11, 50, 51, 100, 101, 102}
QUICK = 10.0
INPUTS = 20_000
FURTHER = {HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large}

HOSTILE = ("/", "../x", "..", "a/../../b", "x" * 300, "\n", "-j ACCEPT", "$(reboot)", "é", "\ud800", "a;b=c", "", "*")
USUAL = ("eth0", "pod", "1.1.0", "null", "/etc/passwd", "/run/netns/", "0", "-1", "80,443", "15006-15009")
words = st.one_of(st.sampled_from((*HOSTILE, *USUAL)), st.text(max_size=12))
scalars = st.one_of(st.none(), st.booleans(), st.integers(-(2**40), 2**40), st.floats(), words)
anything = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(words, inner, max_size=3)),
    max_leaves=6,
)
SECTIONS = ("name", "profile", "families", "sidecar", "inbound", "outbound", "dns", "interfaces", "marks", "typo")
FIELDS = ("mode", "port", "ports", "excludePorts", "cidrs", "capture", "resolvers", "uids", "gids", "mark", "exclude")
spec_keys = st.sampled_from((*SECTIONS, *FIELDS))
bodies = st.dictionaries(spec_keys, st.one_of(anything, st.dictionaries(spec_keys, anything, max_size=3)), max_size=3)
annotations = st.fixed_dictionaries(
    {"sidecar.istio.io/status": st.just("{}")},
    optional={
        "sidecar.istio.io/interceptionMode": words,
        "sidecar.istio.io/inject": words,
        "traffic.sidecar.istio.io/excludeInboundPorts": st.one_of(words, anything),
        "traffic.sidecar.istio.io/typo": words,
        "other": anything,
    },
)
KEYS = (
    *("cniVersion", "name", "interception", "prevResult", "runtimeConfig", "args", "capabilities"),
    *("excludeNamespaces", "logLevel", "cni.dev/valid-attachments", "kubernetes", "intercept", "type"),
)


@st.composite
def mostly(draw: st.DrawFn, good: st.SearchStrategy[Any], bad: st.SearchStrategy[Any]) -> Any:
    """Nine of ten are good: with one thing wrong an input comes further than with all of them."""
    return draw(good if draw(st.integers(0, 9)) else bad)


@st.composite
def documents(draw: st.DrawFn) -> Any:
    """A good configuration of which some keys are gone, and others hold anything."""
    found: dict[str, Any] = {
        "cniVersion": draw(st.sampled_from(VERSIONS)),
        "name": "net",
        "interception": {},
        "prevResult": {"cniVersion": "1.0.0", "ips": [{"address": "10.0.0.2/24"}]},
        "cni.dev/valid-attachments": [{"containerID": "a", "ifname": "eth0"}],
    }
    kinds = {
        "interception": bodies,
        "runtimeConfig": st.fixed_dictionaries({config_module.ANNOTATIONS: annotations}),
        "kubernetes": st.fixed_dictionaries({"kubeconfig": st.sampled_from(["/nonexistent", "/etc/hostname", "/dev"])}),
    }
    if draw(st.integers(0, 3)) == 0:
        found["runtimeConfig"] = draw(kinds["runtimeConfig"])
    for key in draw(st.lists(st.sampled_from(KEYS), max_size=3, unique=True)):
        if draw(st.booleans()):
            found[key] = draw(mostly(kinds.get(key, anything), anything))
        else:
            found.pop(key, None)
    return found


texts = mostly(
    documents().map(lambda document: json.dumps(document).encode()),
    st.one_of(
        documents().map(lambda document: json.dumps(document).encode()[:-1]),
        anything.map(lambda document: json.dumps(document).encode()),
        st.binary(max_size=40),
    ),
)


def environments(places: list[str]) -> st.SearchStrategy[dict[str, str]]:
    verbs = mostly(st.sampled_from(("ADD", "CHECK", "DEL")), st.sampled_from((*SINCE, "add", "")))
    return st.fixed_dictionaries(
        {
            "CNI_COMMAND": verbs,
            "CNI_CONTAINERID": mostly(st.just("one"), words),
            "CNI_NETNS": mostly(st.sampled_from(places), words),
            "CNI_IFNAME": mostly(st.just("eth0"), words),
        },
        optional={"CNI_ARGS": mostly(st.just("K8S_POD_NAMESPACE=a;K8S_POD_NAME=b"), words)},
    )


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A configuration that names no file writes to the test's folder and not to the host's."""
    monkeypatch.setattr(config_module, "STATE_FOLDER", str(tmp_path / "state"))
    monkeypatch.setattr(config_module, "LOG_FILE", str(tmp_path / "log"))


def judge(verb: str, code: int, answer: str, tally: Counter[tuple[str, int]]) -> None:
    if code == 0:
        assert not answer or "code" not in json.loads(answer)
        tally[verb, 0] += 1
        return
    said = json.loads(answer)
    assert said["code"] in CODES, said
    assert said["msg"] and said["cniVersion"] in VERSIONS
    assert "Traceback" not in answer
    tally[verb, said["code"]] += 1


def no_places(folder: Path) -> list[str]:
    """Paths that are no pod's namespace."""
    (folder / "plain").touch()
    os.mkfifo(folder / "fifo")
    names = ("plain", "fifo", "none", ".")
    return [*(str(folder / name) for name in names), "/proc/self/ns/net", "/proc/self/ns/mnt", "/dev/zero", ""]


@pytest.mark.long
def test_no_input_gets_past_the_protocol(
    elsewhere: None, tmp_path: Path, capfd: pytest.CaptureFixture[str], scratch: Scratch
) -> None:
    """Most of the inputs: none of them names a pod, so that none may be touched, the tests' own least of all."""
    bystander = scratch()
    before = snapshot(bystander)

    @settings(max_examples=INPUTS - 1500, deadline=None, database=None, suppress_health_check=FURTHER, phases=PHASES)
    @given(environments(no_places(tmp_path)), texts)
    def examine(environment: dict[str, str], text: bytes) -> None:
        judge(environment["CNI_COMMAND"], *entry.call(environment, lambda _: text), tally)

    tally: Counter[tuple[str, int]] = Counter()
    own = os.stat("/proc/thread-self/ns/net").st_ino
    examine()
    assert os.stat("/proc/thread-self/ns/net").st_ino == own
    assert "Traceback" not in capfd.readouterr().err
    assert snapshot(bystander) == before


def test_no_input_touches_another_pod(
    elsewhere: None, tmp_path: Path, capfd: pytest.CaptureFixture[str], scratch: Scratch
) -> None:
    named, bystander = scratch(), scratch()
    before = snapshot(bystander)

    @settings(max_examples=1500, deadline=None, database=None, suppress_health_check=FURTHER, phases=PHASES)
    @given(environments([path_of(named)]), texts)
    def examine(environment: dict[str, str], text: bytes) -> None:
        begin = time.monotonic()
        judge(environment["CNI_COMMAND"], *entry.call(environment, lambda _: text), tally)
        assert time.monotonic() - begin < QUICK

    tally: Counter[tuple[str, int]] = Counter()
    examine()
    assert "Traceback" not in capfd.readouterr().err
    assert snapshot(bystander) == before
    # Bad input that never comes near a good one would try nothing.
    assert all(tally[verb, 0] > 10 for verb in ("ADD", "CHECK", "DEL")), tally
    assert {2, 4, 6, 7, 102} <= {code for _, code in tally}, tally


PHASES = (Phase.generate,)
"""A failure is shown as it was found: to shrink one of twenty thousand takes longer than all of them."""


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (b"", 6),
        (b"   \n", 6),
        (b"not json", 6),
        (b'{"cniVersion": "1.1.0"', 6),
        (b"\xff\xfe", 6),
        (b"[]", 6),
        (b'"text"', 6),
        (b"null", 6),
        (b"[" * 100_000, 6),
        (b'{"a":' * 100_000, 6),
        (b'{"cniVersion": "1.1.0", "name": "net", "interception": {"x": ' + b"9" * 5000 + b"}}", 6),
        (b'{"x": NaN}', 6),
        (b"{}", 1),
        (b'{"cniVersion": 1}', 1),
        (b'{"cniVersion": "9.9.9"}', 1),
        (b'{"cniVersion": "1.1.0"}', 7),
        (b'{"cniVersion": "1.1.0", "name": "../net"}', 7),
        (b'{"cniVersion": "1.1.0", "name": "net"}', 7),
        (b'{"cniVersion": "1.1.0", "name": "net", "interception": []}', 7),
        (b'{"cniVersion": "1.1.0", "name": "net", "interceptoin": {}}', 2),
        (b'{"cniVersion": "1.1.0", "name": "net", "interception": {}, "logFile": "/dev/null"}', 7),
    ],
)
def test_a_wrong_configuration_has_its_code(text: bytes, code: int, kept: dict[str, str]) -> None:
    done = start("ADD", "meshnet-cni", text, "one", "/run/netns/none")
    assert (done.returncode, json.loads(done.stdout)["code"]) == (1, code), done.stdout


def test_ten_megabytes_are_too_many(pod: Namespace) -> None:
    begin = time.monotonic()
    done = start("ADD", "meshnet-cni", b'{"a": "' + b"x" * 10_000_000 + b'"}', "one", path_of(pod))
    assert json.loads(done.stdout)["code"] == 6
    assert time.monotonic() - begin < QUICK


def test_an_input_that_never_ends_is_given_up() -> None:
    environment = {"PATH": "/usr/sbin:/usr/bin", "CNI_COMMAND": "STATUS"}
    read, write = os.pipe()
    begin = time.monotonic()
    try:
        done = subprocess.run(MESHNET_CNI, stdin=read, capture_output=True, env=environment, timeout=60, check=False)
    finally:
        os.close(read)
        os.close(write)
    assert json.loads(done.stdout)["code"] == 5
    assert time.monotonic() - begin < entry.PATIENCE + QUICK


@pytest.mark.parametrize("word", ["../x", "", "a/b", "-a", ".a", "x" * 201, "a\nb", "é"])
def test_what_is_no_container(config: Made, word: str) -> None:
    done = start("ADD", "meshnet-cni", json.dumps(config()).encode(), word, "/run/netns/none")
    assert (done.returncode, json.loads(done.stdout)["code"]) == (1, 4)


@pytest.mark.parametrize("word", ["..", ".", "", "a/b", "x" * 16, "a b", "a:b", "\N{SNOWMAN}" * 6])
def test_what_is_no_interface(config: Made, word: str) -> None:
    text = json.dumps(config()).encode()
    done = start("ADD", "meshnet-cni", text, "one", "/run/netns/none", more={"CNI_IFNAME": word})
    assert (done.returncode, json.loads(done.stdout)["code"]) == (1, 4)
