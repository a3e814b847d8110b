"""``meshnet-init`` where istio-iptables fails: each fault that was measured there has its test here."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests import conformance
from tests.netns import foreign, golden
from tests.netns.commands import ROOT, meshnet, meshnet_init
from tests.netns.snapshot import run, snapshot

if TYPE_CHECKING:
    from meshnet.kernel.netns import Namespace
    from tests.netns.commands import Answer
    from tests.netns.pods import Pod, Scratch

SHELL_SCRIPT = (
    *("-p", "15001", "-z", "15006", "-u", "1337", "-m", "REDIRECT", "-i", "*", "-x", ""),
    *("-b", "*", "-d", "15090,15021,15020"),
)
TPROXY = ("-m", "TPROXY", "-i", "*", "-b", "*", "--dual-stack")
BOTH = (*SHELL_SCRIPT, "--dual-stack")
GOLDEN = conformance.FOLDER / "istio-iptables"


@pytest.fixture(params=golden.VARIANTS)
def variant(request: pytest.FixtureRequest) -> str:
    return request.param


def init(namespace: Namespace, *words: str, code: int = 0, env: dict[str, str] | None = None) -> Answer:
    answer = meshnet_init("--network-namespace", namespace.where.text, *words, env=env)
    assert answer.code == code, answer.err
    return answer


def data(namespace: Namespace, *words: str) -> dict[str, object]:
    found: dict[str, object] = init(namespace, *words, "--output", "json").data
    return found


def test_the_shell_script_s_words_work_as_they_stand(namespace: Namespace) -> None:
    assert "applied" in init(namespace, *SHELL_SCRIPT).out
    rules = run(namespace, "iptables-nft-save")
    assert "--dport 15090" in rules
    assert "-A ISTIO_IN_REDIRECT" in rules


def test_an_injected_container_s_words_work_as_they_stand(namespace: Namespace) -> None:
    words = ("istio-iptables", *SHELL_SCRIPT, "--log_output_level=default:info", "--log_as_json")
    answer = meshnet_init(*words, env={"NETWORK_NAMESPACE": namespace.where.text})
    assert (answer.code, "applied" in answer.out) == (0, True), answer.err


@pytest.mark.parametrize("words", [BOTH, TPROXY], ids=["redirect", "tproxy"])
def test_the_second_run_changes_nothing(namespace: Namespace, variant: str, words: tuple[str, ...]) -> None:
    """The original takes the other backend the second time: its own look made empty legacy tables."""
    first = data(namespace, *words, "--force-iptables-binary", variant)
    before = snapshot(namespace)
    for tool in ("iptables", "ip6tables"):
        run(namespace, f"{tool}-legacy-save")
        for table in ("nat", "mangle", "raw"):
            run(namespace, f"{tool}-legacy", "-t", table, "-S")
    again = data(namespace, *words)
    assert (first["changed"], again["changed"], again["differences"]) == (True, False, [])
    assert again["backend"] == first["backend"] == f"iptables-{variant}"
    assert snapshot(namespace) == before


def test_however_often_tproxy_is_run_there_is_one_policy_rule(namespace: Namespace, variant: str) -> None:
    for _ in range(3):
        init(namespace, *TPROXY, "--force-iptables-binary", variant)
    for family in ("-4", "-6"):
        rules = [line for line in run(namespace, "ip", family, "rule").splitlines() if "fwmark" in line]
        assert len(rules) == 1, rules


@pytest.mark.parametrize("profile", ["istio", "meshnet"])
@pytest.mark.parametrize("words", [BOTH, TPROXY], ids=["redirect", "tproxy"])
def test_cleanup_needs_no_flags_and_leaves_nothing(
    namespace: Namespace, variant: str, words: tuple[str, ...], profile: str
) -> None:
    before = snapshot(namespace)
    init(namespace, *words, "--profile", profile, "--redirect-dns", "--capture-all-dns", "--drop-invalid")
    init(namespace, "--cleanup-only")
    init(namespace, *words, "--profile", profile, "--force-iptables-binary", variant)
    assert snapshot(namespace) != before
    assert data(namespace, "--cleanup-only")["changed"]
    assert snapshot(namespace) == before
    assert not data(namespace, "--cleanup-only")["changed"]


def test_cleanup_finds_both_backends(namespace: Namespace, variant: str) -> None:
    """Rules of ours on the one, an istio-iptables run's on the other."""
    other = "legacy" if variant == "nft" else "nft"
    before = snapshot(namespace)
    init(namespace, *BOTH, "--force-iptables-binary", variant)
    leave(namespace, other, "inbound-ports-tproxy")
    init(namespace, "--cleanup-only")
    after = snapshot(namespace)
    assert {key: text for key, text in after.items() if key != "nft tables"} == {
        key: text for key, text in before.items() if key != "nft tables"
    }


@pytest.mark.conformance
def test_a_changed_configuration_takes_the_old_one_s_place(namespace: Namespace, variant: str) -> None:
    """The original fails with "Chain already exists" and leaves the old rules; the wanted ones are a golden file's."""
    init(namespace, *TPROXY, "--redirect-dns", "--capture-all-dns", "-o", "5555", "--force-iptables-binary", variant)
    init(namespace, "-b", "32000,31000")
    saved = golden.saved(namespace, variant)
    assert only_nat(saved["iptables"]) == only_nat(golden_saved(namespace, variant, "inbound-ports-include"))
    assert saved["iptables"].count("ISTIO") == only_nat(saved["iptables"]).count("ISTIO")
    assert "ISTIO" not in saved["ip6tables"]
    assert "fwmark" not in run(namespace, "ip", "rule") + run(namespace, "ip", "-6", "rule")


def golden_saved(namespace: Namespace, variant: str, name: str) -> str:
    """What a golden file looks like, loaded into the namespace's other backend (whose text is the same)."""
    other = "legacy" if variant == "nft" else "nft"
    golden.load_golden(namespace, other, GOLDEN / f"{name}.golden")
    found = golden.saved(namespace, other)["iptables"]
    for table in ("nat", "mangle", "raw"):
        run(namespace, f"iptables-{other}", "-t", table, "-F")
        run(namespace, f"iptables-{other}", "-t", table, "-X")
    return found


def only_nat(text: str) -> str:
    return "*nat" + text.partition("*nat")[2].partition("\n*")[0]


def test_loopback_alone_is_no_error(scratch: Scratch) -> None:
    assert "applied" in init(scratch(), *SHELL_SCRIPT).out


def leave(namespace: Namespace, variant: str, name: str, *, runs: int = 3) -> None:
    """What runs of istio-iptables leave: a golden file's rules, a policy rule for each run, a route, an address."""
    golden.load_golden(namespace, variant, GOLDEN / f"{name}.golden")
    for family in ("-4", "-6"):
        for _ in range(runs):
            run(namespace, "ip", family, "rule", "add", "fwmark", "0x539/0xffffffff", "lookup", "133")
        run(namespace, "ip", family, "route", "add", "local", "default", "dev", "lo", "table", "133")
    if 6 in golden.texts(GOLDEN / f"{name}.golden"):
        run(namespace, "ip", "-6", "addr", "add", "::6/128", "dev", "lo")


NAMES = sorted(path.stem for path in GOLDEN.glob("*.golden")) or ["absent"]


@pytest.mark.conformance
@pytest.mark.parametrize("name", NAMES)
def test_cleanup_takes_away_what_istio_iptables_left(namespace: Namespace, variant: str, name: str) -> None:
    """And nothing of anybody else, who has rules of a similar kind."""
    foreign.settle(namespace, f"iptables-{variant}")
    table = "mangle"
    for words in (
        "-p tcp -m mark --mark 0x4000 -j RETURN",
        "-o eth7 -j RETURN",
        "-p tcp -m connmark --mark 5 -j ACCEPT",
    ):
        run(namespace, f"iptables-{variant}", "-t", table, "-A", "OUTPUT", *words.split())
    run(namespace, "ip", "rule", "add", "fwmark", "0x539/0xfff", "lookup", "77", "pref", "50")
    before = snapshot(namespace)
    leave(namespace, variant, name)
    assert snapshot(namespace) != before
    init(namespace, "--cleanup-only")
    assert snapshot(namespace) == before


@pytest.mark.conformance
def test_what_istio_iptables_left_is_replaced(namespace: Namespace, variant: str) -> None:
    leave(namespace, variant, "tproxy")
    init(namespace, *TPROXY, "--profile", "meshnet")
    rules = "".join(golden.saved(namespace, variant).values())
    assert "ISTIO" not in rules
    assert "MESHNET_INBOUND" in rules
    for family in ("-4", "-6"):
        marked = [line for line in run(namespace, "ip", family, "rule").splitlines() if "fwmark" in line]
        assert marked == ["109:\tfrom all fwmark 0x539/0xfff lookup 133 proto 109"]
        routes = run(namespace, "ip", family, "route", "show", "table", "133")
        assert routes.count("local default dev lo") == 1, routes
        assert "proto 109" in routes
    assert not data(namespace, *TPROXY, "--profile", "meshnet")["changed"]


def test_remove_leaves_an_istio_iptables_run_alone(namespace: Namespace, variant: str) -> None:
    """It is not ours by any tag; only the clean-up that is named for it takes it."""
    leave(namespace, variant, "tproxy")
    before = snapshot(namespace)
    assert meshnet("remove", "--netns", namespace.where.text).code == 0
    assert snapshot(namespace) == before


@pytest.mark.parametrize("profile", ["istio", "meshnet"])
@pytest.mark.parametrize("words", [BOTH, (*TPROXY, "-x", "10.0.0.0/8", "-u", "0,7")], ids=["redirect", "tproxy"])
def test_the_printed_spec_gives_the_same_namespace(
    scratch: Scratch, words: tuple[str, ...], profile: str, tmp_path: Path
) -> None:
    one, other = scratch(), scratch()
    init(one, *words, "--profile", profile)
    path = tmp_path / "spec.yaml"
    path.write_text(init(other, *words, "--profile", profile, "--print-spec").out)
    answer = meshnet("apply", str(path), "--netns", other.where.text)
    assert answer.code == 0, answer.err
    assert snapshot(one) == snapshot(other)


def test_a_dry_run_prints_what_a_tool_takes_and_changes_nothing(scratch: Scratch, variant: str) -> None:
    namespace, other = scratch(), scratch()
    before = snapshot(namespace)
    forced = ("--force-iptables-binary", variant)
    said = data(namespace, *TPROXY, *forced, "-n")
    text = init(namespace, *TPROXY, *forced, "--dry-run").out
    assert snapshot(namespace) == before
    for step in said["steps"]:  # type: ignore[attr-defined]
        assert step["text"] in text + "\n"
        family = step["family"]
        argv = ("ip", f"-{family}", "-batch", "-")
        if step["tool"] == "restore":
            argv = (f"{golden.TOOLS[family]}-{variant}-restore", "--noflush")
        run(other, *argv, text=step["text"])
    init(namespace, *TPROXY, *forced)
    assert snapshot(namespace) == snapshot(other)


def test_an_init_container_s_capabilities_are_enough(pod: Pod) -> None:
    """NET_ADMIN and NET_RAW, root, and the namespace that the process is in; no SYS_ADMIN."""
    only = "-all,+net_admin,+net_raw"
    around = ("ip", "netns", "exec", pod.name, "setpriv", f"--bounding-set={only}", f"--inh-caps={only}")
    answer = meshnet_init(*TPROXY, before=around)
    assert (answer.code, "applied" in answer.out) == (0, True), answer.err


def test_without_capabilities_it_says_so_and_a_dry_run_works(namespace: Namespace) -> None:
    around = ("ip", "netns", "exec", namespace.where.text, "setpriv", "--reuid=1337", "--clear-groups")
    refused = meshnet_init(*SHELL_SCRIPT, before=around)
    assert (refused.code, "CAP_NET_ADMIN" in refused.err) == (4, True)
    dry = meshnet_init(*SHELL_SCRIPT, "-n", before=around)
    assert (dry.code, "-A ISTIO_OUTPUT" in dry.out) == (0, True), dry.err


def test_variables_do_what_flags_do(scratch: Scratch) -> None:
    one, other = scratch(), scratch()
    init(one, "-m", "TPROXY", "-b", "80", "-i", "*", "--redirect-dns", "--capture-all-dns", "--drop-invalid", "-u", "0")
    variables = {
        "ISTIO_INBOUND_INTERCEPTION_MODE": "TPROXY",
        "ISTIO_INBOUND_PORTS": "9999",
        "ISTIO_SERVICE_CIDR": "*",
        "ISTIO_META_DNS_CAPTURE": "true",
        "CAPTURE_ALL_DNS": "1",
        "INVALID_DROP": "true",
        "PROXY_UID": "0",
        "ISTIO_OUTBOUND_PORTS": "",
    }
    init(other, "-b", "80", env=variables)
    assert snapshot(one) == snapshot(other)


def test_ipv6_as_the_original_chooses(pod: Pod, scratch: Scratch) -> None:
    dual = init(pod.pod, *SHELL_SCRIPT)
    assert "IPv6 is left alone" in dual.err
    assert "ISTIO" not in run(pod.pod, "ip6tables-nft-save")
    init(pod.pod, *SHELL_SCRIPT, env={"ISTIO_DUAL_STACK": "true"})
    assert "ISTIO" in run(pod.pod, "ip6tables-nft-save")
    run(pod.pod, "ip", "-4", "addr", "flush", "dev", "eth0")
    init(pod.pod, "--cleanup-only")
    init(pod.pod, *SHELL_SCRIPT)
    assert "ISTIO" in run(pod.pod, "ip6tables-nft-save")


def test_known_faults_of_the_profile_are_said(namespace: Namespace) -> None:
    loops = init(namespace, "-m", "TPROXY", "-b", "*", "-u", "1337")
    assert [line for line in loops.words if "warning" in line and "--profile meshnet" in line]
    several = init(namespace, "-b", "*", "-u", "1,2")
    assert [line for line in several.words if "uid 2" in line and "--profile meshnet" in line]
    for words in (
        ("-m", "TPROXY", "-b", "*", "-u", "0"),
        ("-b", "*", "-u", "1"),
        ("-b", "*", "-u", "1,2", "--profile", "meshnet"),
    ):
        assert "warning" not in init(namespace, *words).err


def test_force_apply_writes_what_is_there_already(namespace: Namespace, variant: str) -> None:
    init(namespace, *BOTH, "--force-iptables-binary", variant)
    before = snapshot(namespace)
    steps = data(namespace, *BOTH, "-n")["steps"]
    assert steps == []
    run(namespace, f"iptables-{variant}", "-t", "nat", "-Z")
    init(namespace, *BOTH, "--force-apply")
    assert snapshot(namespace) == before


def test_trace_logging_puts_a_rule_in_front_of_each(namespace: Namespace, variant: str) -> None:
    init(namespace, *TPROXY, "--iptables-trace-logging", "--force-iptables-binary", variant)
    lines = [line for line in run(namespace, f"iptables-{variant}-save").splitlines() if line.startswith("-A")]
    for log, rule in zip(lines[::2], lines[1::2], strict=True):
        assert log.partition(" -j ")[0] == rule.partition(" -j ")[0]
        assert "-j NFLOG" in log and "--nflog-group 1337" in log
    assert not data(namespace, *TPROXY, "--iptables-trace-logging")["changed"]
    assert data(namespace, *TPROXY)["changed"]
    assert "NFLOG" not in run(namespace, f"iptables-{variant}-save")


@pytest.mark.parametrize("profile", ["istio", "meshnet"])
def test_at_most_two_processes_for_a_family(scratch: Scratch, tmp_path: Path, profile: str, variant: str) -> None:
    """Fresh: one restore and one ``ip``. Again: one save."""
    log = tmp_path / "log"
    for tool in (
        "ip",
        *(f"{name}-{variant}-{verb}" for name in ("iptables", "ip6tables") for verb in ("save", "restore")),
    ):
        script = tmp_path / tool
        path = subprocess.run(("which", tool), capture_output=True, text=True, check=True).stdout.strip()
        script.write_text(f'#!/bin/sh\necho "{tool} $1" >> {log}\nexec {path} "$@"\n')
        script.chmod(script.stat().st_mode | stat.S_IXUSR)
    env = {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    words = (*TPROXY, "--profile", profile, "--force-iptables-binary", variant)
    namespace = scratch()
    init(namespace, *words, env=env)
    assert sorted(log.read_text().splitlines()) == sorted(
        ["ip -4", "ip -6", f"ip6tables-{variant}-restore --noflush", f"iptables-{variant}-restore --noflush"]
    )
    log.unlink()
    init(namespace, *words, env=env)
    assert sorted(line.split()[0] for line in log.read_text().splitlines()) == [
        f"ip6tables-{variant}-save",
        f"iptables-{variant}-save",
    ]


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("-b", "http"), 2, "--istio-inbound-ports (-b, ISTIO_INBOUND_PORTS): not a port number (http)"),
        (("-u", "nobody-such"), 2, "--proxy-uid (-u, PROXY_UID): an unknown user (nobody-such)"),
        (("--istio-outbound-owner-groups", "no-such"), 2, "an unknown group (no-such)"),
        (("--redirect-dsn",), 2, "--redirect-dsn: no such flag: --redirect-dns"),
        (("--cni-mode",), 2, "--network-namespace"),
        (("-m", "BRIDGE"), 2, "not a mode (BRIDGE): REDIRECT, TPROXY or NONE"),
        (("--force-iptables-binary", "bpf"), 2, "no variant of iptables (bpf)"),
        (("--network-namespace", "no-such-namespace"), 3, "no-such-namespace"),
        (("extra",), 2, "an argument that belongs to no flag (extra)"),
        (("--run-validation", "--probe-timeout", "long", "--skip-rule-apply"), 2, "not a time (long)"),
    ],
)
def test_bad_input_is_named(words: tuple[str, ...], code: int, said: str) -> None:
    answer = meshnet_init(*words)
    assert (answer.code, said in answer.err) == (code, True), answer.err


def test_a_wrong_variable_is_named_too() -> None:
    answer = meshnet_init(env={"ISTIO_SERVICE_CIDR": "10.0.0.0/33"})
    assert (answer.code, "ISTIO_SERVICE_CIDR): not a prefix length (10.0.0.0/33)" in answer.err) == (2, True)


def test_errors_have_a_json_form() -> None:
    answer = meshnet_init("-b", "http", "--output", "json")
    assert json.loads(answer.out)["error"]["kind"] == "spec"


def test_groups_are_looked_up(namespace: Namespace) -> None:
    init(namespace, "-i", "*", env={"ISTIO_OUTBOUND_OWNER_GROUPS": "daemon,7"})
    assert "! --gid-owner 1 -m owner ! --gid-owner 7" in golden.saved(namespace, "nft")["iptables"]


def test_the_launcher_starts_the_interpreter_on_its_own(tmp_path: Path) -> None:
    """``-I``: no variable and no folder of a pod can change what is imported."""
    (tmp_path / "meshnet.py").write_text("raise SystemExit(9)")
    (tmp_path / "python3").write_text('#!/bin/sh\necho "$@"\n')
    (tmp_path / "python3").chmod(0o755)
    (tmp_path / "meshnet-init").write_bytes((ROOT / "scripts/bin/meshnet-init").read_bytes())
    (tmp_path / "meshnet-init").chmod(0o755)
    said = subprocess.run((tmp_path / "meshnet-init", "--version"), capture_output=True, text=True, check=True).stdout
    assert said.split()[0] == "-I"
    assert said.split()[-1] == "--version"


ODD_SETTINGS = {
    "groups": ("--istio-outbound-owner-groups", ",".join(map(str, range(1, 48)))),
    "no group": ("--istio-outbound-owner-groups", ""),
    "excluded groups": ("--istio-outbound-owner-groups-exclude", "1,2,3"),
    "ranges": ("-b", "80,9000:9100", "-d", "1:79", "-o", "3306,5000:6000", "-q", "1:65535"),
    "marks": ("-m", "TPROXY", "-t", "4294967295", "-r", "4294967295", "-u", "0,4294967294", "-g", "0"),
    "interfaces": ("-m", "TPROXY", "-c", "eth8,net+", "-k", "vm0,vnet+,a.b@c"),
    "blocks": ("-i", "10.1.2.3/8,fd00::1/8,127.0.0.0/8,::1,0.0.0.0/0,::/0", "-x", "10.0.0.0/8,fd00::/8,1.1.1.1"),
    "dns": ("--redirect-dns", "--capture-all-dns", "-u", "1,2", "-g", "3"),
    "dns of resolv.conf": ("--redirect-dns", "-m", "TPROXY", "--drop-invalid"),
    "loopback": ("-m", "TPROXY", "--istio-outbound-ipv4-loopback-cidr", "127.0.0.1/8"),
    "nothing": ("-b", "", "-i", ""),
    "tproxy of nothing": ("-m", "TPROXY", "-b", "", "-i", ""),
    "no inbound": ("-m", "NONE", "-k", "vm0"),
}


@pytest.mark.parametrize("profile", ["istio", "meshnet"])
@pytest.mark.parametrize("name", ODD_SETTINGS)
def test_odd_settings_are_read_back_as_they_were_written(
    namespace: Namespace, variant: str, name: str, profile: str
) -> None:
    """Whatever the tools print otherwise than they were given it must not look like another rule the next time."""
    before = snapshot(namespace)
    words = ("-b", "*", "-i", "*", *ODD_SETTINGS[name], "--dual-stack", "--profile", profile)
    assert data(namespace, *words, "--force-iptables-binary", variant)["changed"]
    again = data(namespace, *words)
    assert again["differences"] == []
    assert again["backend"] == f"iptables-{variant}"
    assert data(namespace, *words, "--iptables-trace-logging")["changed"]
    assert data(namespace, *words, "--iptables-trace-logging")["differences"] == []
    init(namespace, "--cleanup-only")
    assert snapshot(namespace) == before


def test_a_group_too_many_is_refused_ahead_of_everything(namespace: Namespace) -> None:
    groups = ",".join(map(str, range(1, 49)))
    answer = init(namespace, "-i", "*", code=2, env={"ISTIO_OUTBOUND_OWNER_GROUPS": groups})
    assert "(ISTIO_OUTBOUND_OWNER_GROUPS): 48 groups" in answer.err
    assert "at most 47" in answer.err


def test_a_pod_of_an_ipv6_cluster_with_a_way_out_to_ipv4(pod: Pod) -> None:
    """Such a pod has an address of 169.254.0.0/16 besides, which is of global scope and nobody reaches it by."""
    run(pod.pod, "ip", "-4", "addr", "flush", "dev", "eth0")
    run(pod.pod, "ip", "addr", "add", "169.254.172.5/22", "dev", "eth0")
    answer = init(pod.pod, "-b", "*", "-i", "*")
    assert "IPv6 is left alone" not in answer.err
    assert "ISTIO" in run(pod.pod, "ip6tables-nft-save")


@pytest.mark.parametrize("profile", ["istio", "meshnet"])
def test_both_families_where_ipv6_is_switched_off(pod: Pod, profile: str) -> None:
    """ISTIO_DUAL_STACK is set for a whole mesh, and so are the blocks of either family."""
    run(pod.pod, "sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1")
    words = ("-m", "TPROXY", "-b", "*", "-i", "*", "-x", "10.0.0.0/8,fd00::/8", "--profile", profile)
    answer = init(pod.pod, *words, env={"ISTIO_DUAL_STACK": "true"})
    assert "applied" in answer.out
    assert "-A" not in run(pod.pod, "ip6tables-nft-save")


def test_flags_of_earlier_releases(namespace: Namespace) -> None:
    answer = init(namespace, *SHELL_SCRIPT, "-f", "--host-nsenter-exec=false", "--restore-format=true")
    assert "applied" in answer.out
