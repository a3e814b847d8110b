"""``meshnet-init`` in this process, as far as it needs no namespace; the rest is in tests/netns/test_init.py."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meshnet.cli import init
from meshnet.cli.init_flags import OPTIONS
from meshnet.kernel.netns import Where
from meshnet.model.cidr import read_cidr
from meshnet.model.facts import Facts
from meshnet.spec.dialects.istio_options import BEHAVIOUR, RULES
from meshnet.spec.load import load_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from meshnet.model.spec import Spec

    Printed = Callable[..., tuple[int, str, str]]

ROOT = Path(__file__).resolve().parents[3]
IPV4 = Facts((4,), global_ipv4=True)
DUAL = Facts((4, 6), global_ipv4=True, global_ipv6=True, resolvers=(read_cidr("10.96.0.10/32"),))
IPV6 = Facts((4, 6), global_ipv6=True)
LINK_LOCAL = Facts((4, 6), global_ipv4=True)
NEITHER = Facts((4, 6))


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str]) -> Printed:
    def run(*words: str, **variables: str) -> tuple[int, str, str]:
        code = init.call(words, variables)
        out, err = capsys.readouterr()
        return code, out, err

    return run


@pytest.fixture
def spec(printed: Printed, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Spec]:
    """The printed spec in a namespace with these facts."""

    def run(facts: Facts, *words: str, **variables: str) -> Spec:
        monkeypatch.setattr(init, "_facts", lambda place: facts)
        code, out, err = printed("--print-spec", *words, **variables)
        assert code == 0, err
        return load_text(out, "s.yaml").spec

    return run


@pytest.mark.parametrize(
    ("facts", "words", "istio", "meshnet"),
    [
        (IPV4, (), (4,), "auto"),
        (DUAL, (), (4,), "auto"),
        (IPV6, (), (4, 6), "auto"),
        (NEITHER, (), (4,), "auto"),
        (IPV4, ("--dual-stack",), (4,), "auto"),
        (DUAL, ("--dual-stack",), (4, 6), "auto"),
        (IPV6, ("--dual-stack",), (4, 6), "auto"),
        (LINK_LOCAL, ("--dual-stack",), (4,), "auto"),
        (NEITHER, ("--dual-stack",), (4, 6), "auto"),
        (DUAL, ("--dual-stack=false",), (4,), "auto"),
    ],
)
def test_families(
    spec: Callable[..., Spec], facts: Facts, words: tuple[str, ...], istio: object, meshnet: object
) -> None:
    assert spec(facts, *words).families == istio
    assert spec(facts, *words, "--profile", "meshnet").families == meshnet


def test_blocks_of_a_family_that_the_pod_lacks(spec: Callable[..., Spec]) -> None:
    """One list for all pods of a mesh, with a wish for both families on top."""
    for profile in ("istio", "meshnet"):
        words = ("-i", "*", "-x", "10.0.0.0/8,fd00::/8", "--dual-stack", "--profile", profile)
        assert len(spec(IPV4, *words).outbound.exclude_cidrs) == 2


def test_ipv6_left_alone_is_said(printed: Printed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(init, "_facts", lambda place: DUAL)
    assert "--dual-stack (ISTIO_DUAL_STACK) captures both" in printed("--print-spec")[2]
    assert printed("--print-spec", "--dual-stack")[2] == ""


def test_variables_and_flags_together(spec: Callable[..., Spec]) -> None:
    found = spec(DUAL, "-b", "80", ISTIO_INBOUND_PORTS="9999", REDIRECT_DNS="true", ISTIO_META_DNS_CAPTURE="false")
    assert [str(ports) for ports in found.inbound.ports] == ["80"]
    assert found.dns.capture == "off"


def test_names_are_those_of_the_process_s_own_files(spec: Callable[..., Spec]) -> None:
    found = spec(DUAL, "-u", "root", "-g", "root", ENVOY_USER="nobody-such")
    assert (found.sidecar.uids, found.sidecar.gids) == ((0,), (0,))


@pytest.mark.parametrize(
    ("words", "place"),
    [
        ((), Where("own")),
        (("--network-namespace", "/proc/1/ns/net"), Where("path", "/proc/1/ns/net")),
        (("--network-namespace", "pod-1", "--cni-mode"), Where("name", "pod-1")),
    ],
)
def test_whose_rules(words: tuple[str, ...], place: Where, printed: Printed, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Where] = []

    def facts(where: Where) -> Facts:
        seen.append(where)
        return IPV4

    monkeypatch.setattr(init, "_facts", facts)
    assert printed("--print-spec", *words)[0] == 0
    assert seen == [place]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--profile", "linkerd"), 2, "--profile: not a profile (linkerd): istio or meshnet"),
        (("--output", "yaml"), 2, "--output: not a form (yaml): text or json"),
        (("--force-iptables-binary", "iptables"), 2, "no variant of iptables (iptables): nft or legacy"),
        (("--cni-mode",), 2, "--cni-mode (CNI_MODE) without --network-namespace (NETWORK_NAMESPACE)"),
        (("--skip-rule-apply", "-b", "x"), 2, "not a port number (x)"),
        (("--print-spec", "-b", "x"), 2, "not a port number (x)"),
        (("--network-namespace", "/no/such/path", "--print-spec"), 3, "/no/such/path"),
    ],
)
def test_what_is_refused(printed: Printed, words: tuple[str, ...], code: int, said: str) -> None:
    found, out, err = printed(*words)
    assert (found, out) == (code, "")
    assert said in err
    assert all(line.startswith("meshnet-init: ") for line in err.splitlines())


def test_a_variable_that_is_wrong_is_refused_too(printed: Printed) -> None:
    code, _, err = printed("--help", FORCE_IPTABLES_BINARY="bpf")
    assert code == 0, err
    code, _, err = printed("--print-spec", FORCE_IPTABLES_BINARY="bpf")
    assert (code, "(FORCE_IPTABLES_BINARY): no variant" in err) == (2, True)


@pytest.mark.parametrize("words", [("--output", "json"), ("--output=json",)])
def test_an_error_as_json(printed: Printed, words: tuple[str, ...]) -> None:
    code, out, _ = printed("-b", "x", "--output", *words[1:], *words) if len(words) == 2 else printed("-b", "x", *words)
    assert code == 2
    assert json.loads(out)["error"]["lines"]


def test_help_and_version(printed: Printed) -> None:
    assert printed("-h")[1].startswith("Usage: meshnet-init ")
    assert printed("--version")[1].startswith("meshnet-init, version ")
    assert printed("--help=false", "-V")[1].startswith("meshnet-init, version ")


def test_nothing_asked_of_the_namespace_is_nothing_done(printed: Printed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(init, "_facts", lambda place: IPV4)
    monkeypatch.setattr(init, "_session", lambda *_: pytest.fail("no session is to be opened"))
    assert printed("--skip-rule-apply", "-b", "*") == (0, "", "")
    monkeypatch.setattr(init, "missing_capabilities", lambda names: names)
    code, out, err = printed("-n", "-b", "*", "-f")
    assert (code, "-A ISTIO_INBOUND" in out, "an empty namespace" in err) == (0, True, True)


def test_printing_and_leaving_alone_win_over_cleaning_up(printed: Printed, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(init, "_facts", lambda place: IPV4)
    monkeypatch.setattr(init, "_session", lambda *_: pytest.fail("no session is to be opened"))
    assert printed("--cleanup-only", "--print-spec")[1].startswith("apiVersion: meshnet/")
    assert printed("--cleanup-only", "--skip-rule-apply") == (0, "", "")


def test_a_list_of_resolvers_that_is_empty_is_said(printed: Printed, monkeypatch: pytest.MonkeyPatch) -> None:
    """The original captures no DNS then, and who asked for it would look for the reason elsewhere."""
    monkeypatch.setattr(init, "missing_capabilities", lambda names: names)
    for facts, warned in ((IPV4, True), (DUAL, False)):
        monkeypatch.setattr(init, "_facts", lambda place, facts=facts: facts)
        code, out, err = printed("-n", "-i", "*", "--redirect-dns", "--dual-stack")
        assert (code, "names no resolver" in err, "15053" in out) == (0, warned, not warned)
        assert "names no resolver" not in printed("-n", "-i", "*", "--redirect-dns", "--capture-all-dns")[2]


@pytest.mark.parametrize("error", [KeyboardInterrupt(), BrokenPipeError(), PermissionError(13, "Permission denied")])
def test_how_it_ends(error: BaseException, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(settings: object) -> int:
        raise error

    monkeypatch.setattr(init, "_main", fail)
    codes = {KeyboardInterrupt: 130, BrokenPipeError: 0, PermissionError: 3}
    assert init.call((), {}) == codes[type(error)]
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "redirected", "code"),
    [
        ("--version", ">&-", 0),
        ("--version", "2>&-", 0),
        ("-b x --print-spec", "2>&-", 2),
        ("-b x --print-spec", ">&- 2>&-", 2),
        ("-b x --print-spec", "2>/dev/full", 2),
        ("--version", ">/dev/full", 3),
        ("--print-spec", ">/dev/full", 3),
        ("--print-spec --output json", "2>/dev/full", 0),
        ("--help", "| head -n 1; exit ${PIPESTATUS[0]}", 0),
        ("--help", "| true; exit ${PIPESTATUS[0]}", 0),
    ],
)
def test_streams_that_take_nothing(words: str, redirected: str, code: int) -> None:
    """A spec that is cut off must not look like one; where nobody listens there is nobody to tell."""
    program = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from meshnet.cli.init import run; run()"
    script = f'"$0" -I -S -c "$1" {words} {redirected}'
    done = subprocess.run(("bash", "-c", script, sys.executable, program), capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    assert "meshnet-init: -" not in done.stdout


words = st.one_of(
    st.sampled_from([f"--{option.name}" for option in OPTIONS]),
    st.sampled_from([f"-{option.short}" for option in OPTIONS if option.short]),
    st.sampled_from(("*", "", "80", "TPROXY", "10.0.0.0/8", "::/0", "true", "nft", "json", "meshnet", "1337", "root")),
    st.text(max_size=6),
)


variables = st.dictionaries(
    st.sampled_from([name for option in (*RULES, *BEHAVIOUR) for name in (option.variable, *option.also)]),
    st.one_of(words, st.sampled_from((" true ", "false\n", " ", ",", "*,80"))),
    max_size=5,
)


@given(st.lists(words, max_size=8), variables)
@settings(max_examples=300, deadline=None)
def test_no_command_line_ends_in_a_traceback(arguments: list[str], variables: dict[str, str]) -> None:
    """With rules never written: whatever is said comes behind a flag that prints and one that stops the rest."""
    given: Any = ["--print-spec", "--native-nftables=false", "--cleanup-only=false", *arguments]
    given += ["--print-spec", "--cleanup-only=false", "--network-namespace", "/proc/self/ns/net"]
    assert init.call(given, variables) in (0, 2, 3, 4)
